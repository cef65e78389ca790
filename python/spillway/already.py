"""What a program had allocated before Spillway came."""

from __future__ import annotations

import gc
from collections.abc import Callable

from spillway.hooks import has_memory


def cpu_storages(is_ours: Callable[[int], bool]) -> dict[int, int]:
    """Bytes of the storages of all CPU tensors Python can reach, by address, without ours. What lives in C++ alone is not seen."""
    import torch

    sizes: dict[int, int] = {}
    with torch._C.DisableTorchFunction():
        for thing in gc.get_objects():
            if not has_memory(type(thing)) or thing.device.type != "cpu" or thing.layout is not torch.strided:
                continue
            storage = torch._C.TensorBase.untyped_storage(thing)  # past our hook: nobody comes home to be counted
            if not is_ours(storage._cdata):
                sizes[storage._cdata] = storage.nbytes()
    return sizes
