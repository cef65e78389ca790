"""`torch.load` under a budget: what was loaded may leave while the rest is still on its way.

torch.load keeps the storage objects of everything until the last is read, to join tensors that share one, and a storage
whose Python object is held may not leave, so all that is loaded would have to fit beside each other. Nobody reads through
those objects: once a tensor is made of a storage, it may leave all the same. What the program itself asked for as a
storage is home again when torch.load returns.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from typing import Any

from spillway.native import READS
from spillway.steps import replace

_local = threading.local()


def install(library: Any) -> Callable[[], None]:
    import torch

    serialization = sys.modules["torch.serialization"]
    load, get_restore_location = serialization._load, serialization._get_restore_location

    @functools.wraps(load)
    def _load(*args: Any, **kwargs: Any) -> Any:
        outer, _local.storages = getattr(_local, "storages", None), []
        try:
            return load(*args, **kwargs)
        finally:
            storages, _local.storages = _local.storages, outer
            _end(library, storages)

    @functools.wraps(get_restore_location)
    def _get_restore_location(*args: Any, **kwargs: Any) -> Any:
        restore = get_restore_location(*args, **kwargs)

        def restored(storage: Any, location: Any) -> Any:
            placed = restore(storage, location)
            storages = getattr(_local, "storages", None)
            if storages is not None and isinstance(placed, torch.UntypedStorage):
                storages.append(placed)
                library.storage_loosen(placed._cdata, 1)
            return placed

        return restored

    for in_tensor in (False, True):  # not in the middle of a load, when everything is held
        _references_to_one_name(in_tensor)
    undo_load = replace(serialization, "_load", _load)
    undo_restore = replace(serialization, "_get_restore_location", _get_restore_location)

    def undo() -> None:
        undo_restore()
        undo_load()

    return undo


def _end(library: Any, storages: list[Any]) -> None:
    import torch

    for storage in storages:
        library.storage_loosen(storage._cdata, 0)
    storage = None
    while storages:
        storage = storages.pop()
        in_tensor = torch._C._storage_Use_Count(storage._cdata) > 1
        if sys.getrefcount(storage) > _references_to_one_name(in_tensor):  # the program has it, too
            library.storage_materialize(storage._cdata, READS)


@functools.cache
def _references_to_one_name(in_tensor: bool) -> int:
    """As sys.getrefcount counts for a storage; what torch holds itself of one in a tensor differs between releases."""
    import torch

    tensor = torch.empty(1)
    storage = torch._C.TensorBase.untyped_storage(tensor)
    if not in_tensor:
        del tensor
    return sys.getrefcount(storage)
