"""The state of a random generator is a tensor that torch reads and makes without an operator.

`torch.set_rng_state`, `fork_rng`, `checkpoint()` and unpickling all end in methods of a type that is closed to Python: they are
replaced in its own dictionary.
"""

from __future__ import annotations

import ctypes
import functools
import gc
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any


def install(show: Callable[[Any], None], region: Callable[[], AbstractContextManager[None]]) -> Callable[[], None]:
    """`show` makes tensors known and resident; within `region` they stay."""
    import torch

    members: dict[str, Any] = gc.get_referents(torch._C.Generator.__dict__)[0]
    originals = {name: members[name] for name in ("set_state", "__setstate__", "get_state")}

    def reader(name: str) -> Callable[[Any, Any], Any]:
        @functools.wraps(originals[name])
        def read(self: Any, state: Any) -> Any:
            with region():
                show(state)
                return originals[name](self, state)

        return read

    @functools.wraps(originals["get_state"])
    def get_state(self: Any) -> Any:
        state = originals["get_state"](self)
        show(state)  # what nobody has shown cannot leave, and checkpoint() keeps one for every call
        return state

    def put(methods: dict[str, Any]) -> None:
        members.update(methods)
        ctypes.pythonapi.PyType_Modified(ctypes.py_object(torch._C.Generator))

    put({"set_state": reader("set_state"), "__setstate__": reader("__setstate__"), "get_state": get_state})
    return lambda: put(originals)
