"""Programs that read memory behind Spillway's back, each run in a process that it ends: `faulty.py CASE FAULTHANDLER HOST_LIMIT`."""

import ctypes
import faulthandler
import signal
import sys

import spillway
import torch
from spillway import hooks, native

OFFSET = 40  # in the tensor that is read


def evicted() -> int:
    """The address an evicted tensor shows to whoever asks past the hooks."""
    tensor = torch.arange(1 << 16, dtype=torch.float32).sin()
    keep.append(tensor)
    native.load().evict_all()
    hooks.disable("data_ptr")
    return tensor.data_ptr()


keep: list[torch.Tensor] = []


def read(address: int) -> None:
    print("answer", ctypes.string_at(address, 1))


def reads_an_evicted_tensor() -> None:
    read(evicted() + OFFSET)


def reads_a_tensor_that_came_home() -> None:
    address = evicted()
    keep[0].sum()
    read(address + OFFSET)


def reads_a_dead_tensor() -> None:
    address = evicted()
    keep.clear()
    read(address + OFFSET)


def reads_where_a_tensor_was() -> None:
    tensor = torch.ones(1 << 22)
    hooks.disable("data_ptr")
    address = tensor.data_ptr()
    native.load().evict_all()
    spillway.set_budget("1MiB")  # what is free goes back to the system
    read(address)


def reads_inside_an_operator() -> None:
    address = evicted()
    library = torch.library.Library("faulty", "DEF")
    library.define("peek(Tensor like) -> Tensor")
    library.impl("peek", lambda like: (read(address), like.clone())[1], "CPU")
    native.load().late_ops()
    torch.ops.faulty.peek(torch.ones(1))


def reads_null() -> None:
    evicted()
    read(8)  # string_at takes 0 for no address at all


def sends_itself_the_signal() -> None:
    evicted()
    signal.raise_signal(signal.SIGSEGV)


def asks_for_residence() -> None:
    tensor = torch.arange(1 << 16, dtype=torch.float32).sin()
    native.load().evict_all()
    spillway.resident({"a": [tensor]})
    hooks.disable("data_ptr")
    address = tensor.data_ptr()
    native.load().evict_all()
    read(address)


def main() -> None:
    case, when, host_limit = sys.argv[1:]
    if when == "before":
        faulthandler.enable()
    spillway.enable(budget="32MiB", device="cpu", policy="lru", host_limit=host_limit)
    if when == "after":
        faulthandler.enable()
    if when == "off_again":
        faulthandler.enable()
        faulthandler.disable()
    globals()[case]()


if __name__ == "__main__":
    main()
