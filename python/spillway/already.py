"""What a program had allocated before Spillway came."""

from __future__ import annotations

import gc
from collections.abc import Callable

from spillway.hooks import has_memory


def cpu_bytes(is_ours: Callable[[int], bool]) -> int:
    """Bytes of all CPU tensors Python can reach, shared storages once, without ours. What lives in C++ alone is not seen."""
    import torch

    sizes: dict[int, int] = {}
    with torch._C.DisableTorchFunction():
        for thing in gc.get_objects():
            if not has_memory(type(thing)) or thing.device.type != "cpu" or thing.layout is not torch.strided:
                continue
            storage = thing.untyped_storage()
            sizes[storage._cdata] = 0 if is_ours(storage._cdata) else storage.nbytes()
    return sum(sizes.values())
