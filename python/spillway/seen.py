"""The modules a script has called, found by torch's global hook and held weakly, with names for what is inside them."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any


class SeenModules:
    def __init__(self) -> None:
        self._seen: dict[int, weakref.ref[Any]] = {}

    def start(self) -> None:
        from torch.nn.modules.module import register_module_forward_pre_hook

        register_module_forward_pre_hook(self._called)

    def _called(self, module: Any, inputs: Any) -> None:
        known = self._seen.get(id(module))
        if known is None or known() is not module:
            self._seen.pop(id(module), None)  # so that the newcomer stands last, also in a dead one's place
            self._seen[id(module)] = weakref.ref(module)

    def roots(self) -> list[tuple[str, Any]]:
        """Modules that are inside no other seen one, in the order they were first called: `Net`, `Net#2`."""
        alive = [module for reference in self._seen.values() if (module := reference()) is not None]
        inside = {id(child) for module in alive for child in module.modules() if child is not module}
        named: list[tuple[str, Any]] = []
        count: dict[str, int] = {}
        for module in alive:
            if id(module) in inside:
                continue
            kind = type(module).__name__
            count[kind] = count.get(kind, 0) + 1
            named.append((kind if count[kind] == 1 else f"{kind}#{count[kind]}", module))
        return named

    def parameters(self) -> Iterator[tuple[str, Any]]:
        for root, module in self.roots():
            for name, parameter in module.named_parameters():
                yield f"{root}.{name}", parameter

    def buffers(self) -> Iterator[tuple[str, Any]]:
        for root, module in self.roots():
            for name, buffer in module.named_buffers():
                yield f"{root}.{name}", buffer

    def names(self) -> dict[int, str]:
        return {id(parameter): name for name, parameter in self.parameters()}
