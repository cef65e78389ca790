"""The places where a tensor's memory is reached without an operator, each made to ask the engine first.

The engine sees every dispatched op. What it cannot see (numpy, DLPack, raw addresses, pickling, compiled graphs, Triton,
C++ extensions, new threads, forks) is wrapped here while Spillway is on: the memory is made resident before, and held as
long as the reader may use it. A hook never dispatches an op, because fake-tensor and user modes would see it and recurse; it
passes the tensor's C++ address to a C entry point. Tensors without memory of their own (fake, wrapper subclasses) pass
untouched. `TABLE` lists all hooks; `disable(name)` takes a single one away, to show that a test fails without it.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import types
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from spillway import copying, generators, loading, loans, native, saving
from spillway.native import HOLDS, READS, WRITES
from spillway.steps import replace
from spillway.when_imported import when_imported

Undo = Callable[[], None]

_library: Any = None
_torch: Any = None  # the module, looked up once: some of this runs at every access
_installed: dict[str, Undo] = {}
_switched_off: set[str] = set()
_local = threading.local()


# --- one tensor, many tensors, a region ---------------------------------------------------------------------------


@functools.cache
def has_memory(kind: type) -> bool:
    """Whether objects of this class are tensors with bytes of their own.

    A class with its own __torch_dispatch__ (FakeTensor, DTensor, functional tensors) wraps others and has none.
    """
    import torch

    dispatch = getattr(kind, "__torch_dispatch__", None)
    return issubclass(kind, torch.Tensor) and getattr(dispatch, "__func__", dispatch) is torch._C._disabled_torch_dispatch_impl


def address_of(tensor: Any) -> int | None:
    """Where the C++ part of a tensor is; None for what is no tensor or has no memory of its own."""
    if not has_memory(type(tensor)):
        return None
    with _torch._C.DisableTorchFunction():
        return tensor._cdata


def materialize(tensor: Any, flag: int) -> None:
    """Makes one tensor's storage resident; anything that is no tensor or has no memory of its own is left alone."""
    address = address_of(tensor)
    if address is not None:
        _library.materialize(address, flag)


def materialize_all(things: Any, flag: int) -> None:
    """The same for every tensor inside nested lists, tuples and dicts, all at once."""
    materialize_each([(thing, flag) for thing in _leaves(things)])


def materialize_each(asked: Iterable[tuple[Any, int]]) -> None:
    """Every one with a flag of its own."""
    with _torch._C.DisableTorchFunction():
        addresses = [(thing._cdata, flag) for thing, flag in asked if has_memory(type(thing))]
    if addresses:
        _library.materialize_many(addresses)


def _leaves(things: Any) -> Iterator[Any]:
    if isinstance(things, dict):
        things = things.values()
    elif not isinstance(things, list | tuple):
        yield things
        return
    for thing in things:
        yield from _leaves(thing)


class Region:
    """A stretch of this thread in which memory is used unseen: what was materialized in it stays until its end."""

    def __enter__(self) -> None:
        _library.region_begin()
        _local.depth = _depth() + 1

    def __exit__(self, *exception: Any) -> None:
        _local.depth -= 1
        _library.region_end()


def _depth() -> int:
    return getattr(_local, "depth", 0)


# --- methods of torch.Tensor ----------------------------------------------------------------------------------------


def _method_first(owner: Any, name: str, flag: int) -> Undo:
    """`owner.name` preceded by materialize(self, flag); the C++ base class keeps the original."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        with Region():  # another thread may want its memory meanwhile
            materialize(self, flag)
            return original(self, *args, **kwargs)

    return replace(owner, name, method)


def _tensor_methods(flag: int, *names: str) -> Callable[[], Undo]:
    def install() -> Undo:
        import torch

        return _together(_method_first(torch.Tensor, name, flag) for name in names)

    return install


def _untyped_storage() -> Undo:
    import torch

    original = torch.Tensor.untyped_storage

    @functools.wraps(original)
    def untyped_storage(self: Any) -> Any:
        if has_memory(type(self)) and saving.wants_stand_in(sys._getframe(1)):
            return saving.stand_in(self, original)
        storage = original(self)
        # After that: from its name on it stays where it is.
        materialize(self, READS if copying.asks(sys._getframe(1)) else WRITES)
        return storage

    return replace(torch.Tensor, "untyped_storage", untyped_storage)


def _new_storages() -> Undo:
    """Python's storages (copy.deepcopy of a tensor makes them) ask torch's default allocator, past the budget.

    They are shown at once: whoever made one has its name, and it cannot leave.
    """
    import torch

    original = torch.UntypedStorage.__new__

    def __new__(cls: Any, *args: Any, **kwargs: Any) -> Any:
        by_size = cls is torch.UntypedStorage and len(args) == 1 and isinstance(args[0], int)
        if by_size and "allocator" not in kwargs and torch.device(kwargs.get("device") or "cpu").type == "cpu":
            kwargs = {"allocator": _library.cpu_allocator()}
        made = original(cls, *args, **kwargs)
        if by_size:
            _library.storage_materialize(made._cdata, READS)
        return made

    torch.UntypedStorage.__new__ = __new__

    def undo() -> None:
        del torch.UntypedStorage.__new__  # what was there is the C base class's

    return undo


def _map_methods() -> Undo:
    # map_ and map2_ write self and read the others.
    import torch

    def other_tensors(name: str) -> Undo:
        original = getattr(torch.Tensor, name)

        @functools.wraps(original)
        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            with Region():
                materialize_all([args, kwargs], READS)
                materialize(self, WRITES)
                return original(self, *args, **kwargs)

        return replace(torch.Tensor, name, method)

    return _together(other_tensors(name) for name in ("apply_", "map_", "map2_"))


# Parts of torch that ask for an address only to compare it, or to use it inside a region.
_COMPARE_ADDRESSES = (
    "torch.nn.", "torch._inductor.", "torch._functorch.", "torch._subclasses.", "torch._dynamo.", "torch.serialization",
    "torch.storage", "torch.fx.", "torch.utils.", "torch.autograd.", "torch.export.", "torch._tensor", "torch.cuda.graphs",
)  # fmt: skip


def _only_compares(frame: types.FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).startswith(_COMPARE_ADDRESSES)


def _data_ptr() -> Undo:
    import torch

    original = torch.Tensor.data_ptr

    @functools.wraps(original)
    def data_ptr(self: Any) -> int:
        passing = _depth() > 0 or _only_compares(sys._getframe(1))
        materialize(self, READS if passing else HOLDS)
        return original(self)

    return replace(torch.Tensor, "data_ptr", data_ptr)


def _storage_data_ptr() -> Undo:
    # While its Python object is referred to a storage stays where it is; an address outlives the object.
    import torch

    original = torch.UntypedStorage.data_ptr

    @functools.wraps(original)
    def data_ptr(self: Any) -> int:
        frame = sys._getframe(1)
        while frame.f_globals.get("__name__") == "torch.storage" and frame.f_back is not None:
            frame = frame.f_back  # TypedStorage passes the question on
        if not _only_compares(frame):
            _library.storage_materialize(self._cdata, HOLDS)
        return original(self)

    return replace(torch.UntypedStorage, "data_ptr", data_ptr)


# --- the function table of DLPack; loans.py has its capsules ------------------------------------------------------------


def _dlpack_exchange_api() -> Undo:
    # A table of C functions that no wrapper can reach. Without it consumers fall back to __dlpack__.
    import torch

    name = "__dlpack_c_exchange_api__"
    if name not in vars(torch.Tensor):
        return _nothing
    api = vars(torch.Tensor)[name]
    delattr(torch.Tensor, name)
    return lambda: setattr(torch.Tensor, name, api)


# --- compiled graphs, Triton, extensions, CUDA graphs, DDP ----------------------------------------------------------


def _patched_when_imported(module_name: str, patch: Callable[[Any], Undo]) -> Undo:
    """patch(module) now or, for a module that is costly to import, once the script imports it."""
    done: list[Undo] = []
    cancel = when_imported(module_name, lambda module: done.append(patch(module)))

    def undo() -> None:
        cancel()
        while done:
            done.pop()()

    return undo


def _compiled_graph() -> Undo:
    def patch(module: Any) -> Undo:
        original = module.CompiledFxGraph.__call__

        @functools.wraps(original)
        def call(self: Any, inputs: Any) -> Any:
            written = getattr(self, "mutated_input_idxs", ())
            constants = _leaves(getattr(self, "constants", None) or {})
            with Region():
                asked = [(argument, WRITES if index in written else READS) for index, argument in enumerate(inputs)]
                materialize_each([*asked, *((constant, READS) for constant in constants)])
                del asked  # the graph frees its inputs as it goes
                outputs = original(self, inputs)
                # Made unseen: from now on they are known, and what backward saved can leave.
                materialize_all(outputs, READS)
                return outputs

        return replace(module.CompiledFxGraph, "__call__", call)

    return _patched_when_imported("torch._inductor.output_code", patch)


def _dynamo() -> Undo:
    """Keeps the compiler from tracing into this package: our wrappers are run, not compiled."""

    def patch(module: Any) -> Undo:
        module.add("spillway")
        return _nothing

    return _patched_when_imported("torch._dynamo.trace_rules", patch)


def _in_region(original: Callable[..., Any], flag: int) -> Callable[..., Any]:
    """`original` with all its tensor arguments resident and nothing leaving while it runs."""

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        with Region():
            materialize_all([args, kwargs], flag)
            return original(*args, **kwargs)

    return call


def _triton() -> Undo:
    def patch(module: Any) -> Undo:
        return replace(module.JITFunction, "run", _in_region(module.JITFunction.run, WRITES))

    return _patched_when_imported("triton.runtime.jit", patch)


def _cuda_graphs() -> Undo:
    from torch.cuda.graphs import CUDAGraph

    begin, end = CUDAGraph.capture_begin, CUDAGraph.capture_end

    @functools.wraps(begin)
    def capture_begin(self: Any, *args: Any, **kwargs: Any) -> None:
        region = Region()
        region.__enter__()
        try:
            begin(self, *args, **kwargs)
        except BaseException:
            region.__exit__()
            raise

    @functools.wraps(end)
    def capture_end(self: Any) -> None:
        try:
            end(self)
        finally:
            Region().__exit__()

    return _together([replace(CUDAGraph, "capture_begin", capture_begin), replace(CUDAGraph, "capture_end", capture_end)])


def _extensions() -> Undo:
    """C++ functions bound with pybind11 read tensors directly, and importing them may register ops."""
    from importlib.machinery import ExtensionFileLoader

    wrapped: list[Undo] = []
    for module in list(sys.modules.values()):
        if str(getattr(module, "__file__", "") or "").endswith(".so"):
            wrapped += _wrap_tensor_functions(module)
    original = ExtensionFileLoader.exec_module

    @functools.wraps(original)
    def exec_module(self: Any, module: Any) -> None:
        original(self, module)
        wrapped.extend(_wrap_tensor_functions(module))
        _library.late_ops()

    unpatch = replace(ExtensionFileLoader, "exec_module", exec_module)
    return lambda: (unpatch(), [undo() for undo in wrapped]) and None


def _wrap_tensor_functions(module: Any) -> list[Undo]:
    # pybind11 writes the argument types of a function into its docstring.
    if getattr(module, "__name__", "").split(".")[0] == "torch":
        return []
    functions = [
        (name, value)
        for name, value in list(vars(module).items())
        if isinstance(value, types.BuiltinFunctionType) and "torch.Tensor" in (value.__doc__ or "")
    ]
    return [replace(module, name, _in_region(function, WRITES)) for name, function in functions]


_ddp_of_reducer: dict[int, weakref.ref[Any]] = {}


def _ddp() -> Undo:
    import torch.distributed as distributed

    if not distributed.is_available():
        return _nothing
    from torch.nn.parallel import DistributedDataParallel

    construct, rebuild = DistributedDataParallel.__init__, distributed.Reducer._rebuild_buckets

    @functools.wraps(construct)
    def __init__(self: Any, module: Any, *args: Any, **kwargs: Any) -> None:
        with Region():
            materialize_all([*module.parameters(), *module.buffers()], READS)
            construct(self, module, *args, **kwargs)
        _ddp_of_reducer[id(self.reducer)] = weakref.ref(self)

    def _rebuild_buckets(self: Any) -> Any:
        owner = _ddp_of_reducer.get(id(self), lambda: None)()
        with Region():
            if owner is not None and owner.reducer is self:
                materialize_all([[p, p.grad] for p in owner.parameters()], READS)
            return rebuild(self)

    return _together([
        replace(DistributedDataParallel, "__init__", __init__),
        replace(distributed.Reducer, "_rebuild_buckets", _rebuild_buckets),
    ])  # fmt: skip


# --- threads, forks, ops registered late ------------------------------------------------------------------------


def _threads() -> Undo:
    original = threading.Thread._bootstrap

    @functools.wraps(original)
    def _bootstrap(self: Any) -> None:
        join_this_thread()
        original(self)

    return replace(threading.Thread, "_bootstrap", _bootstrap)


def join_this_thread() -> None:
    """A new thread starts without the engine and with autograd's own threads; both are per-thread settings."""
    import torch

    _library.thread_on()
    torch._C._set_multithreading_enabled(False)


def _late_ops() -> Undo:
    import torch

    def followed(owner: Any, name: str) -> Undo:
        original = getattr(owner, name)

        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            _library.late_ops()
            return result

        return replace(owner, name, call)

    return _together([followed(torch.library.Library, "impl"), followed(type(torch.ops), "load_library")])


_fork_registered = False


def _fork() -> Undo:
    # Registrations with the interpreter are for life, so there is one, and it looks whether the hook is in.
    global _fork_registered
    if not _fork_registered:
        os.register_at_fork(after_in_child=_after_fork_in_child)
        _fork_registered = True
    return _nothing


def _after_fork_in_child() -> None:
    if "fork" in _installed:
        _library.after_fork_child()


# --- handlers of faults ------------------------------------------------------------------------------------------


def _faulthandler() -> Undo:
    """Its handler loses the faulting address when it calls the one before it: ours has to come first, not last."""
    import faulthandler

    def around(name: str) -> Undo:
        original = getattr(faulthandler, name)

        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            _library.step_aside_for_handlers()
            try:
                return original(*args, **kwargs)
            finally:
                _library.watch_faults_again()

        return replace(faulthandler, name, call)

    return _together(around(name) for name in ("enable", "disable"))


# --- the table --------------------------------------------------------------------------------------------------


def _together(undos: Iterable[Undo]) -> Undo:
    collected = list(undos)

    def undo() -> None:
        for one in reversed(collected):
            one()

    return undo


def _nothing() -> None:
    pass


TABLE: dict[str, Callable[[], Undo]] = {
    "tolist": _tensor_methods(READS, "tolist"),
    "map": _map_methods,
    "generators": lambda: generators.install(lambda state: materialize_all(state, READS), Region),
    "untyped_storage": _untyped_storage,
    "new_storages": _new_storages,
    "deepcopy": lambda: copying.install(_library),
    "save": lambda: saving.install(_library),
    "load": lambda: loading.install(_library),
    "numpy": lambda: loans.install_numpy(_library, address_of),
    "dlpack": lambda: loans.install_dlpack(_library, address_of),
    "dlpack_exchange_api": _dlpack_exchange_api,
    "data_ptr": _data_ptr,
    "storage_data_ptr": _storage_data_ptr,
    "compiled_graph": _compiled_graph,
    "dynamo": _dynamo,
    "triton": _triton,
    "cuda_graphs": _cuda_graphs,
    "extensions": _extensions,
    "ddp": _ddp,
    "threads": _threads,
    "late_ops": _late_ops,
    "fork": _fork,
    "faulthandler": _faulthandler,
}


def install(library: native.Library) -> None:
    """Puts every hook in that was not switched off."""
    global _library, _torch
    import torch

    _library, _torch = library, torch
    for name, hook in TABLE.items():
        if name not in _switched_off and name not in _installed:
            _installed[name] = hook()


def remove() -> None:
    """Takes all hooks out again, last one first."""
    while _installed:
        _installed.popitem()[1]()


def disable(name: str) -> None:
    """Takes one hook out, now and at later installs; for tests that must fail without it."""
    if name not in TABLE:
        raise ValueError(f"no hook is called '{name}': there are {', '.join(TABLE)}")
    _switched_off.add(name)
    if name in _installed:
        _installed.pop(name)()


def restore(name: str) -> None:
    """Undoes disable(name)."""
    _switched_off.discard(name)
    if _installed and name not in _installed:
        _installed[name] = TABLE[name]()
