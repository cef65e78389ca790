"""`torch.save` under a budget: what is saved comes home storage by storage, not all of it at once.

torch.save collects the storage objects of everything before it writes the first, and a storage whose Python object is held
may not leave, so all that is saved would have to fit beside each other. While it collects, a tensor gives a stand-in here;
the storage itself is asked for when its bytes are written.
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


def wants_stand_in(caller: Any) -> bool:
    """Whether this thread is inside torch.save and torch's own pickling of tensors asks."""
    return getattr(_local, "depth", 0) > 0 and caller.f_globals.get("__name__") == "torch._tensor"


def stand_in(tensor: Any, storage_of: Callable[[Any], Any]) -> Any:
    return _stand_in_class()(tensor, storage_of)


@functools.cache
def _stand_in_class() -> type:
    import torch

    class StandIn(torch.UntypedStorage):
        """What torch.save asks of a storage before it writes it: who it is, where it is and how long."""

        def __new__(cls, tensor: Any, storage_of: Callable[[Any], Any]) -> Any:
            made = super().__new__(cls, 0, device=tensor.device)
            made.storage = functools.partial(storage_of, tensor)
            return made

        @property
        def _cdata(self) -> int:
            return self.storage()._cdata

        def nbytes(self) -> int:
            return self.storage().nbytes()

        def data_ptr(self) -> int:
            # Two storages may have the same address one after the other while they are saved; asked for to tell them apart.
            return self._cdata if self.nbytes() > 0 else 0

        def cpu(self) -> Any:
            return self.storage().cpu()

    return StandIn


class _Writer:
    """The zip file torch.save writes to, with the storage itself where a stand-in is given."""

    def __init__(self, file: Any, library: Any) -> None:
        self._file = file
        self._library = library

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def write_record(self, name: str, data: Any, size: int) -> None:
        if isinstance(data, _stand_in_class()):
            data = data.storage()  # while this name holds it, it stays
            self._library.storage_materialize(data._cdata, READS)
        self._file.write_record(name, data, size)


def install(library: Any) -> Callable[[], None]:
    from torch.utils.serialization import config

    serialization = sys.modules["torch.serialization"]
    original = serialization._save

    @functools.wraps(original)
    def _save(obj: Any, zip_file: Any, *args: Any, **kwargs: Any) -> Any:
        if config.save.use_pinned_memory_for_d2h:  # copies storages in another way
            return original(obj, zip_file, *args, **kwargs)
        _local.depth = getattr(_local, "depth", 0) + 1
        try:
            return original(obj, _Writer(zip_file, library), *args, **kwargs)
        finally:
            _local.depth -= 1

    return replace(serialization, "_save", _save)
