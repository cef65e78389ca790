"""torch.cuda functions that ask the driver past the allocator, answered in terms of the budget while Spillway is on."""

from __future__ import annotations

from typing import Any

from spillway.steps import replace


def budget_terms() -> Any:
    """`torch.cuda.mem_get_info`: what the budget leaves and the budget. Returns how to undo it."""
    import torch

    def mem_get_info(device: Any = None) -> tuple[int, int]:
        # The allocator's own answer; of other cards it is the driver's.
        index = torch.cuda._utils._get_device_index(device, optional=True)
        return torch.accelerator.get_memory_info(index)

    undos = [replace(module, "mem_get_info", mem_get_info) for module in (torch.cuda.memory, torch.cuda)]
    return lambda: [undo() for undo in undos]
