"""Storages with names that nobody uses are the first to be asked to leave; other threads look at slices meanwhile.

Whoever holds the interpreter's lock may wait for the engine's, so nobody may wait the other way around.
"""

import sys
import threading

import torch

import spillway

ROUNDS = int(sys.argv[1])
over = threading.Event()
sys.setswitchinterval(1e-4)  # more hand-overs of the interpreter's lock in less time


def looks() -> None:
    tensor = torch.arange(25000.0)
    while not over.is_set():
        assert tensor[-1:].numel() == 1


spillway.enable("1MiB", device="cpu", policy="lru")
named = [torch.full((10000,), 3.0) for _ in range(8)]
storages = [tensor.untyped_storage() for tensor in named]
others = [threading.Thread(target=looks) for _ in range(2)]
for thread in others:
    thread.start()
kept = [torch.full((50000,), float(i)) for i in range(8)]
for _ in range(ROUNDS):
    for tensor in kept:
        tensor.add_(1)
over.set()
for thread in others:
    thread.join()
assert all(storage[3] == 64 for storage in storages), "the last byte of 3.0"
assert [tensor[0].item() for tensor in kept] == [float(i + ROUNDS) for i in range(8)]
assert spillway.stats()["violations"] == 0
