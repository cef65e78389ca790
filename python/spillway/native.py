"""The native library: found inside the package, checked against torch, loaded once, called through plain C.

Every call answers 0, 1 (failed: RuntimeError), 2 (the user can act: ValueError) or 3 (torch.OutOfMemoryError) and leaves
its reason in `spillway_last_error`. Calls release the GIL. The library registers kernels with torch's dispatcher, so it is never
unloaded.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

# __file__ of a staged package is a link's own path, not its target: lib/ and bin/ are beside the link.
_HERE = Path(__file__).parent
TOOL = _HERE / "bin" / "spillway-tool"
LIBRARY = _HERE / "lib" / "libspillway_torch.so"

TORCH_SERIES = "2.11"

# Flags of materialize(): what the caller is about to do with the memory.
READS = 0  # resident now
WRITES = 2  # resident now, and may be written behind our back
HOLDS = 3  # as WRITES, and the address is kept: held for the storage's life

AUTOMATIC_PHASE = 0  # forward or backward, told by autograd
OPTIMIZER_PHASE = 3

# What a storage is for, as the trace counts them.
PARAMETER, GRADIENT, OPTIMIZER_STATE = 1, 2, 4

_SIGNATURES: dict[str, list[Any]] = {
    "spillway_enable": [ctypes.c_char_p],
    "spillway_disable": [],
    "spillway_thread_on": [],
    "spillway_thread_off": [],
    "spillway_step": [],
    "spillway_phase": [ctypes.c_int],
    "spillway_set_budget": [ctypes.c_longlong],
    "spillway_materialize": [ctypes.c_void_p, ctypes.c_int],
    "spillway_materialize_many": [ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_int), ctypes.c_int],
    "spillway_storage_materialize": [ctypes.c_void_p, ctypes.c_int],
    "spillway_cpu_allocator": [ctypes.POINTER(ctypes.c_void_p)],
    "spillway_storage_loosen": [ctypes.c_void_p, ctypes.c_int],
    "spillway_storage_is_ours": [ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)],
    "spillway_lend": [ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p)],
    "spillway_end_loan": [ctypes.c_void_p],
    "spillway_end_loan_with_dlpack": [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int],
    "spillway_region_begin": [],
    "spillway_region_end": [],
    "spillway_role": [ctypes.c_void_p, ctypes.c_int],
    "spillway_late_ops": [],
    "spillway_after_fork_child": [],
    "spillway_end_trace": [],
    "spillway_evict_all": [],
    "spillway_sweep": [ctypes.c_int],
    "spillway_drop": [ctypes.c_void_p],
    "spillway_lean": [ctypes.c_int],
    "spillway_step_aside_for_handlers": [],
    "spillway_watch_faults_again": [],
}

_loaded: Library | None = None


class Library:
    """The C entry points as methods, `spillway_` left off. `handle` is what ctypes.CDLL gives, or shaped like it."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        for name in ("spillway_last_error", "spillway_stats"):
            getattr(handle, name).argtypes, getattr(handle, name).restype = [], ctypes.c_char_p
        calls = {name.removeprefix("spillway_"): self._checked(name, types) for name, types in _SIGNATURES.items()}
        names = ("enable", "lend", "cpu_allocator", "materialize_many", "storage_is_ours")
        self._enable, self._lend, self._cpu_allocator, self._materialize_many, self._storage_is_ours = (calls.pop(name) for name in names)
        self.__dict__.update(calls)  # disable, step, materialize, ...: bound once, because some run at every op

    def _checked(self, name: str, argument_types: list[Any]) -> Callable[..., None]:
        function = getattr(self._handle, name)
        function.argtypes, function.restype = argument_types, ctypes.c_int

        def call(*arguments: Any) -> None:
            if code := function(*arguments):
                raise _error_of(code)(self.last_error())

        return call

    def enable(self, options: dict[str, Any]) -> None:
        self._enable(json.dumps(options).encode())

    def lend(self, address: int) -> int | None:
        """Makes a tensor's storage resident until end_loan() gets the answer; None: there is nothing to end."""
        loan = ctypes.c_void_p()
        self._lend(address, ctypes.byref(loan))
        return loan.value

    def cpu_allocator(self) -> int:
        """Where the allocator of CPU tensors is, as torch.UntypedStorage(size, allocator=...) takes it."""
        allocator = ctypes.c_void_p()
        self._cpu_allocator(ctypes.byref(allocator))
        return allocator.value or 0

    def storage_is_ours(self, address: int) -> bool:
        """Whether a storage's memory came from us; also while switched off."""
        ours = ctypes.c_int()
        self._storage_is_ours(address, ctypes.byref(ours))
        return bool(ours.value)

    def materialize_many(self, asked: list[tuple[int, int]]) -> None:
        """Addresses of tensors, each with its flag: all of them are there at once."""
        addresses, flags = zip(*asked)
        self._materialize_many((ctypes.c_void_p * len(asked))(*addresses), (ctypes.c_int * len(asked))(*flags), len(asked))

    def stats(self) -> dict[str, Any]:
        text = self._handle.spillway_stats()
        if not text:
            raise RuntimeError(self.last_error())
        return json.loads(text)

    def last_error(self) -> str:
        return (self._handle.spillway_last_error() or b"no reason given").decode(errors="replace")


def _error_of(code: int) -> type[Exception]:
    if code == 3:
        import torch

        return torch.OutOfMemoryError
    return ValueError if code == 2 else RuntimeError


def check_torch(version: str) -> None:
    """torch's C++ classes change with every release, so another one would crash instead of working worse."""
    if version.split("+")[0].split(".")[:2] != TORCH_SERIES.split("."):
        raise ValueError(f"this Spillway was built for torch {TORCH_SERIES}.x, and torch {version} is installed")


def load() -> Library:
    """The library of this process, loaded at the first call."""
    global _loaded
    if _loaded is None:
        _loaded = _load(LIBRARY)
    return _loaded


def _load(path: Path) -> Library:
    import torch

    check_torch(torch.__version__)
    if not path.exists():
        raise RuntimeError(f"the native library is missing ({path}): build or install the package again")
    try:
        torch.ops.load_library(str(path))
        return Library(ctypes.CDLL(str(path)))
    except (OSError, AttributeError) as error:
        raise RuntimeError(f"the native library does not load ({path}): {error}") from error
