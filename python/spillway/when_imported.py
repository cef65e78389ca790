"""Acting on a module when it is imported, without importing it.

Compilers are costly to import and most scripts never do. `when_imported(name, act)` acts at once if the module is there,
otherwise right after the script's own import has run it.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from importlib.abc import Loader, MetaPathFinder
from types import ModuleType
from typing import Any


def when_imported(name: str, act: Callable[[ModuleType], None]) -> Callable[[], None]:
    """Returns the function that cancels the wait."""
    if name in sys.modules:
        act(sys.modules[name])
        return lambda: None
    finder = _Finder(name, act)
    sys.meta_path.insert(0, finder)
    return finder.leave


class _Finder(MetaPathFinder):
    """Finds one module the way everybody else does, and has its loader tell when it is done."""

    def __init__(self, name: str, act: Callable[[ModuleType], None]) -> None:
        self._name = name
        self._act = act

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        if fullname != self._name:
            return None
        self.leave()  # so that the search below does not come back here
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _TellingLoader(spec.loader, self._act)
        return spec

    def leave(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)


class _TellingLoader(Loader):
    def __init__(self, loader: Any, act: Callable[[ModuleType], None]) -> None:
        self._loader = loader
        self._act = act

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)  # get_source, get_data and what else inspect and linecache ask for

    def create_module(self, spec: Any) -> Any:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._act(module)
