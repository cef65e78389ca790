"""Tensors that are rebuilt from others which change or die, in a budget that does not hold all of them at once.

    python heirs.py WHAT [POLICY]        prints a digest of all that was made, how many ops ran again, and the bytes left over

`overwritten`: what a dropped tensor is made from changes, in a budget that holds the op or the rebuild, not both.
`chain`: each link is made from the one before, and all are dropped; all but the last die before that is read. Another chain
is never read.
"""

import hashlib
import sys

import torch

import spillway
from spillway import native

LENGTH = 1 << 18
BUDGETED = len(sys.argv) > 2


def drop(tensor) -> None:
    if BUDGETED:
        native.load().drop(tensor._cdata)


def overwritten(draw):
    source, *others = (torch.rand(LENGTH, generator=draw) for _ in range(5))
    heir = source.sin()
    drop(heir)
    torch.cat([other[: LENGTH // 4] for other in others], out=source)
    return heir, source, *others


def end_of_chain(source):
    links = [source]
    for _ in range(7):
        links.append(links[-1].sin())
        if len(links) > 2:
            drop(links[-2])
    drop(links[-1])
    return links[-1]


def chain(draw):
    source = torch.rand(LENGTH, generator=draw)
    end, unread = end_of_chain(source), end_of_chain(source)
    del unread
    return source, end


def main() -> None:
    torch.set_num_threads(1)
    if BUDGETED:
        spillway.enable(LENGTH * 4 * 11 // 2, device="cpu", policy=sys.argv[2])
    state = hashlib.sha256()
    made = {"overwritten": overwritten, "chain": chain}[sys.argv[1]](torch.Generator().manual_seed(1))
    for tensor in made:
        state.update(tensor.clone().numpy().tobytes())
    del made, tensor
    stats = spillway.stats() if BUDGETED else {"recomputed_ops": 0, "live_bytes": 0}
    print(state.hexdigest(), stats["recomputed_ops"], stats["live_bytes"])


main()
