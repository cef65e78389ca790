"""`copy.deepcopy` of tensors under a budget: one tensor and its copy are there at a time, not all of them.

A deep copy remembers the storage objects of everything it has copied, and their copies, to join tensors that share one; a
storage whose Python object is held may not leave, so all that is copied would have to fit twice beside each other. Here it
remembers where the storages are without holding them: the tensors made of them keep the copies alive. One that has died joins
nobody, and as long as it is remembered no other takes its place.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from spillway.native import WRITES
from spillway.steps import replace

_library: Any = None  # while this is switched on: a program's own memo may live longer


class Copied(dict[int, Any]):
    """What a memo has under "torch": by the address of a storage its copy, or a weak reference to each of the two."""

    def remember(self, source: Any, copy: Any) -> None:
        from torch.multiprocessing.reductions import StorageWeakRef

        self[source._cdata] = (StorageWeakRef(source), StorageWeakRef(copy))

    def __contains__(self, address: object) -> bool:
        return self.get(address) is not None

    def __getitem__(self, address: int) -> Any:
        if (found := self.get(address)) is None:
            raise KeyError(address)
        return found

    def get(self, address: Any, default: Any = None) -> Any:
        found = super().get(address, default)
        return _named_again(found[1].cdata) if isinstance(found, tuple) else found


def asks(caller: Any) -> bool:
    """Whether a tensor's storage is asked for by the deep copy of that tensor, which only reads it."""
    import torch

    copies = caller.f_back is not None and caller.f_back.f_code is torch.Tensor.__deepcopy__.__code__
    return copies and caller.f_code is torch.Tensor._typed_storage.__code__


def _named_again(weak: int) -> Any:
    import torch

    storage = torch.UntypedStorage._new_with_weak_ptr(weak)
    if storage is not None and _library is not None:
        _library.storage_materialize(storage._cdata, WRITES)  # from its name on it stays where it is
    return storage


def install(library: Any) -> Callable[[], None]:
    global _library
    from torch.storage import TypedStorage

    original = TypedStorage._deepcopy

    @functools.wraps(original)
    def _deepcopy(self: Any, memo: dict[Any, Any]) -> Any:
        copied = memo.setdefault("torch", Copied())
        source = self._untyped_storage
        if id(source) in memo or not isinstance(copied, Copied):  # the program copies storages of its own
            return original(self, memo)
        found = copied.get(source._cdata)
        if found is None:
            found = source.clone()
            copied.remember(source, found)
        return self._new_wrapped_storage(found)

    undo_deepcopy = replace(TypedStorage, "_deepcopy", _deepcopy)
    _library = library

    def undo() -> None:
        global _library
        _library = None
        undo_deepcopy()

    return undo
