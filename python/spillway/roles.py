"""What storages are for, told to the trace by those who know: the optimizers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from spillway import hooks, native


def tell(library: native.Library, optimizer: Any, has_stepped: bool) -> None:
    """Parameters and gradients are known before a step, the optimizer's state after it."""
    for tensor, kind in _state(optimizer) if has_stepped else _parameters(optimizer):
        if hooks.has_memory(type(tensor)):
            library.role(tensor._cdata, kind)


def _parameters(optimizer: Any) -> Iterator[tuple[Any, int]]:
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            yield parameter, native.PARAMETER
            yield parameter.grad, native.GRADIENT


def _state(optimizer: Any) -> Iterator[tuple[Any, int]]:
    for state in optimizer.state.values():
        for value in state.values() if isinstance(state, dict) else ():
            yield value, native.OPTIMIZER_STATE
