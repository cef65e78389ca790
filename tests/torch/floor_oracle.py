"""The floor of a program, found without the engine: the most bytes any single op needs at once.

An op needs the storages it is given plus the most it has allocated at any moment of its run, outputs and scratch memory alike.
Inputs are counted by a dispatch mode, allocations by torch's own profiler; nothing here knows how an engine works. An op on
lists of tensors (`_foreach_*`, `_fused_*`, `_amp_foreach_*`) may be carried out one element at a time, so it counts with its
neediest element: the storages at one index of all its equally long lists, with what it writes there.
"""

from dataclasses import dataclass, field

import torch
from torch.autograd.profiler import profile, record_function
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

MARK = "floor oracle "


def storages(values) -> dict[int, int]:
    """Address and size of every storage below some arguments: an address is one storage as long as it is alive."""
    found = {}
    for tensor in tree_leaves(values):
        if not isinstance(tensor, torch.Tensor) or tensor._is_zerotensor():  # zeros of a forward derivative: no memory
            continue
        parts = [tensor._indices(), tensor._values()] if tensor.layout == torch.sparse_coo else [tensor]
        for part in parts:
            storage = part.untyped_storage()
            found[storage.data_ptr()] = storage.nbytes()
    return found


def total(values) -> int:
    return sum(storages(values).values())


def takes_lists(name: str) -> bool:
    return any(part in name for part in ("_foreach_", "_fused_adam", "_fused_sgd", "_fused_adagrad"))


def adds_up_gradients(function) -> bool:
    """Autograd adds a gradient to the one before in place, but not under a mode like this one: it then makes a new sum."""
    sums = (torch.ops.aten.add.Tensor, torch.ops.aten.index_add.default)
    return function in sums and torch._C._current_graph_task_id() != -1


def neediest_element(arguments, result) -> int:
    lists = [a for a in arguments if isinstance(a, (list, tuple)) and a and isinstance(a[0], torch.Tensor)]
    lists += [result] if isinstance(result, (list, tuple)) else []
    shared = total([a for a in arguments if isinstance(a, torch.Tensor)])
    longest = max(map(len, lists))
    rows = zip(*(one for one in lists if len(one) == longest))
    return shared + max(total(row) for row in rows)


@dataclass
class Need:
    op: str
    given: int  # bytes of the storages it reads or writes in place
    made: int = 0  # most bytes allocated at once while it ran

    @property
    def bytes(self) -> int:
        return self.given + self.made


@dataclass
class FloorOracle(TorchDispatchMode):
    needs: list[Need] = field(default_factory=list)

    def __post_init__(self):
        super().__init__()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = str(function)
        if takes_lists(name):
            result = function(*args, **kwargs)
            self.needs.append(Need(name, neediest_element([*args, *kwargs.values()], result)))
            return result
        self.needs.append(Need(name, total([args, kwargs])))
        if adds_up_gradients(function):
            return function(*args, **kwargs)
        with record_function(f"{MARK}{len(self.needs) - 1}"):
            return function(*args, **kwargs)

    def largest(self) -> Need:
        return max(self.needs, key=lambda need: need.bytes)


@dataclass
class Floor:
    op: str
    floor_bytes: int
    peak_live_bytes: int


def watch_allocations():
    return profile(profile_memory=True)  # its raw events are read; torch.profiler would make a tree of them first, which takes longer


def measure(run) -> Floor:
    """Runs a function twice and tells the floor and the plain peak of all it did on the CPU.

    The peak is that of the run without the mode, which makes autograd keep more than it would.
    """
    with watch_allocations() as plain:
        run()
    oracle = FloorOracle()
    with watch_allocations() as watched, oracle:
        run()
    read_allocations(watched, oracle.needs)
    worst = oracle.largest()
    return Floor(worst.op, worst.bytes, read_allocations(plain, []))


def read_allocations(watched, needs: list[Need]) -> int:
    """Fills in what every op allocated, from the profiler's events; returns the most that ever lived."""
    moments = []
    for event in watched.kineto_results.events():
        if event.name() == "[memory]":
            moments.append((event.start_ns(), 1, event.nbytes()))
        elif event.name().startswith(MARK):
            index = int(event.name().removeprefix(MARK))
            moments.append((event.start_ns(), 0, index))
            moments.append((event.start_ns() + event.duration_ns(), 2, index))
    live = peak = 0
    began = {}
    for _, kind, value in sorted(moments):
        if kind == 0:
            began[value] = live
        elif kind == 2:
            del began[value]
        else:
            live += value
            peak = max(peak, live)
            for index, base in began.items():
                needs[index].made = max(needs[index].made, live - base)
    return peak
