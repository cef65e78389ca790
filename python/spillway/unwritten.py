"""Storages whose bytes nobody has written yet: what is read there differs from run to run, and means nothing.

A storage is named by a weak reference, which keeps its name from being given to another one. It counts as written once a single op
has written all of it; memory filled bit by bit stays unwritten here, so that less is compared, but nothing wrongly.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from spillway.digest import has_bytes, is_dense

_PURGE = 1000  # weak references, before the dead among them are dropped


class Unwritten:
    def __init__(self) -> None:
        self._names: dict[int, Any] = {}

    def add(self, tensors: Iterable[Any]) -> None:
        from torch.multiprocessing.reductions import StorageWeakRef

        for tensor in filter(has_bytes, tensors):
            reference = StorageWeakRef(_storage(tensor))
            self._names[reference.cdata] = reference
        if len(self._names) > _PURGE:
            self._names = {name: reference for name, reference in self._names.items() if not reference.expired()}

    def wrote(self, tensors: Iterable[Any]) -> None:
        for tensor in tensors:
            if tensor in self and tensor.numel() * tensor.element_size() == _storage(tensor).nbytes() and is_dense(tensor.shape, tensor.stride()):
                del self._names[_name(tensor)]

    def __contains__(self, tensor: Any) -> bool:
        return bool(self._names) and has_bytes(tensor) and _name(tensor) in self._names


def _name(tensor: Any) -> int:
    import torch

    return torch._C._storage_id(tensor)


def _storage(tensor: Any) -> Any:
    # The method of the base class: ours would take the bytes for changed.
    import torch

    return torch._C.TensorBase.untyped_storage(tensor)
