"""A small model for compute-sanitizer: after every op everything leaves and its memory is taken off the card.

    compute-sanitizer --error-exitcode 7 python sanitized.py           must find nothing
    compute-sanitizer --error-exitcode 7 python sanitized.py --stray   reads where an evicted tensor was: must be found
"""

import sys

import torch
import torch.nn.functional as F
from checks import MIB
from torch import nn

import spillway
from spillway import hooks, native


class Alias:
    """Memory of the card as torch takes it from other libraries."""

    def __init__(self, address, count):
        self.__cuda_array_interface__ = {"shape": (count,), "typestr": "<f4", "data": (address, False), "version": 2}


def read_where_it_was():
    hooks.disable("data_ptr")  # that one would keep it there
    x = torch.full((4 * MIB,), 3.0, device="cuda")
    alias = torch.as_tensor(Alias(x.data_ptr(), 4 * MIB), device="cuda")
    native.load().sweep(1 | 4)
    torch.zeros(1, device="cuda").add_(1)
    native.load().sweep(0)
    print("sum of what is no longer there:", alias.sum().item())
    return 0


def train():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 256), nn.LayerNorm(256), nn.GELU(), nn.Dropout(0.1), nn.Linear(256, 10)).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(2):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(torch.randn(32, 64, device="cuda")), torch.randint(10, (32,), device="cuda"))
        loss.backward()
        optimizer.step()
    print("loss", loss.item())


def main(arguments):
    if not torch.cuda.is_available():
        print("skipped: no card")
        return 0
    spillway.enable(budget="1GiB", device="cuda", min_evict=1)
    if "--stray" in arguments:
        return read_where_it_was()
    native.load().sweep(1 | 4)
    train()
    stats = spillway.stats()
    native.load().sweep(0)
    print(f"{stats['ops']} ops, {stats['moved_out_bytes']} bytes out, {stats['moved_in_bytes']} in")
    return 0 if stats["moved_in_bytes"] > 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
