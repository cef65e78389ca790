"""A tensor lent to numpy or through DLPack: it stays while it is lent, leaves afterwards, and comes back as it was written.

    python loans.py HOW [POLICY] [--without HOOK]        numpy, asarray, dlpack or capsule; prints what was found, line by line
"""

import hashlib
import sys

import numpy
import torch

import spillway
from spillway import hooks, native

LENGTH = 1 << 18
BUDGET = LENGTH * 4 * 9

BORROW = {
    "numpy": lambda tensor: tensor.numpy(),
    "asarray": numpy.asarray,
    "dlpack": numpy.from_dlpack,
    "capsule": lambda tensor: torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(tensor)).numpy(),
}


def made(seed: int) -> torch.Tensor:
    return torch.randn(LENGTH, generator=torch.Generator().manual_seed(seed)).cos()


def digest(tensor: torch.Tensor) -> str:
    return hashlib.sha256(tensor.clone().numpy().tobytes()).hexdigest()[:16]


def moved_out() -> int:
    """How many bytes leave when everything leaves that may."""
    before = spillway.stats()
    native.load().evict_all()
    return spillway.stats()["moved_out_bytes"] - before["moved_out_bytes"]


def crowd() -> None:
    """Pushes out whatever may leave, and overwrites where it was."""
    _ = [torch.full((LENGTH,), float(i)).sin() for i in range(24)]


def main() -> None:
    how, policy, *without = sys.argv[1:]
    borrow = BORROW[how]
    torch.set_num_threads(1)
    if policy != "plain":
        spillway.enable(BUDGET, device="cpu", policy=policy, poison=True)
        for hook in without:
            hooks.disable(hook)
    source = made(1)
    before = source.sin()
    array = borrow(source)
    where = array.ctypes.data
    during = source.tanh()
    crowd()
    array[::2] = 5
    crowd()
    print("read", array[:4].tolist(), float(array.sum()), float(borrow(source).sum()))
    if policy != "plain":
        assert where == borrow(source).ctypes.data, "what is lent moved"
        moved_out()
        assert moved_out() == 0, "what is lent left, or something did not leave at once"
    del array
    after = source.exp()
    if policy != "plain" and not without:
        assert moved_out() >= LENGTH * 4, "what was lent does not leave"
    crowd()
    print("bits", *map(digest, (source, before, during, after)))


main()
