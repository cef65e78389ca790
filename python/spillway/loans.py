"""A tensor's memory in the hands of numpy or of a DLPack consumer: it stays where it is while they have it, and no longer.

The storage is lent before its address goes out. The loan ends when the array dies (views keep it alive, as their base), or
when the consumer calls the deleter it was given. Until then anybody may write through the address unseen, so nothing is
rebuilt from these bytes; afterwards the storage may leave again, as what was written.
"""

from __future__ import annotations

import ctypes
import functools
import weakref
from collections.abc import Callable
from typing import Any

from spillway.native import HOLDS
from spillway.steps import replace

Undo = Callable[[], None]
AddressOf = Callable[[Any], int | None]  # of a tensor in C++; None for what has no memory of its own


def install_numpy(library: Any, address_of: AddressOf) -> Undo:
    """Tensor.numpy; Tensor.__array__ goes through it."""
    import torch

    original = torch.Tensor.numpy

    @functools.wraps(original)
    def numpy(self: Any, *, force: bool = False) -> Any:
        if force and address_of(self) is not None:
            self = _what_force_shares(self)
        address = address_of(self)
        loan = None if address is None else library.lend(address)
        try:
            array = original(self, force=force)
        except BaseException:
            if loan is not None:
                library.end_loan(loan)
            raise
        if loan is not None:
            _end_with(array, library, loan, address)
        return array

    return replace(torch.Tensor, "numpy", numpy)


def _what_force_shares(tensor: Any) -> Any:
    """numpy(force=True) may make a copy first, and then that copy's memory is what is shared."""
    import torch

    with torch._C.DisableTorchFunction():
        return tensor.detach().cpu().resolve_conj().resolve_neg()


def _end_with(array: Any, library: Any, loan: int, address: int | None) -> None:
    try:
        weakref.finalize(array, library.end_loan, loan).atexit = False
    except TypeError:  # a mode answered with something whose end cannot be seen
        library.materialize(address, HOLDS)
        library.end_loan(loan)


def install_dlpack(library: Any, address_of: AddressOf) -> Undo:
    """The functions that make capsules; Tensor.__dlpack__ goes through them."""
    import torch
    import torch.utils.dlpack as dlpack

    def exporter(owner: Any, name: str) -> Undo:
        original = getattr(owner, name)

        @functools.wraps(original)
        def export(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            address = address_of(tensor)
            if address is None:
                return original(tensor, *args, **kwargs)
            loan = library.lend(address)
            try:
                capsule = original(tensor, *args, **kwargs)
            except BaseException:
                if loan is not None:
                    library.end_loan(loan)
                raise
            library.end_loan_with_dlpack(loan, *_managed_in(capsule))
            return capsule

        return replace(owner, name, export)

    places = [(torch._C, "_to_dlpack"), (torch._C, "_to_dlpack_versioned"), (dlpack, "to_dlpack")]
    if hasattr(torch, "to_dlpack"):
        places.append((torch, "to_dlpack"))
    undos = [exporter(owner, name) for owner, name in places]

    def undo() -> None:
        for one in reversed(undos):
            one()

    return undo


def _managed_in(capsule: Any) -> tuple[int, int]:
    """The address of what a new capsule holds, and whether it is the versioned kind."""
    get_name, get_pointer = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    get_name.restype, get_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    name = get_name(capsule)
    return get_pointer(capsule, name), int(name == b"dltensor_versioned")
