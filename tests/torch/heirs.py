"""Overwrites what a dropped tensor is made from, in a budget that holds the op or the rebuild, not both.

    python heirs.py [POLICY]        prints a digest of all that was made, and how many ops ran again
"""

import hashlib
import sys

import torch

import spillway
from spillway import native

LENGTH = 1 << 18


def main() -> None:
    torch.set_num_threads(1)
    if len(sys.argv) > 1:
        spillway.enable(LENGTH * 4 * 11 // 2, device="cpu", policy=sys.argv[1])
    draw = torch.Generator().manual_seed(1)
    source, *others = (torch.rand(LENGTH, generator=draw) for _ in range(5))
    heir = source.sin()
    if len(sys.argv) > 1:
        native.load().drop(heir._cdata)
    torch.cat([other[: LENGTH // 4] for other in others], out=source)
    state = hashlib.sha256()
    for tensor in (heir, source, *others):
        state.update(tensor.clone().numpy().tobytes())
    print(state.hexdigest(), spillway.stats()["recomputed_ops"] if len(sys.argv) > 1 else 0)


main()
