"""Somebody else's program as `__main__` of this interpreter, as `python script.py` or `python -m module` would run it.

`load` finds and compiles (a missing script is the caller's mistake, told before anything starts); `Script.run` executes. The
program has its own `__main__` module, so classes defined in it pickle; its own `sys.argv` and `sys.path[0]`; and its own
traceback: frames of this package are taken out before an exception is shown. Exceptions, SystemExit and KeyboardInterrupt
travel on to the interpreter, which ends the process as it would have without us.
"""

from __future__ import annotations

import dataclasses
import importlib.machinery
import io
import os
import runpy
import sys
import types
from collections.abc import Sequence
from typing import Any

_PACKAGE = os.path.dirname(__file__)


@dataclasses.dataclass
class Script:
    code: types.CodeType
    attributes: dict[str, Any]  # __file__, __spec__ and the like, of the module `__main__`
    argv: list[str]
    path0: str

    def run(self) -> None:
        main = types.ModuleType("__main__")
        main.__dict__.update(self.attributes, __builtins__=sys.modules["builtins"])
        sys.modules["__main__"] = main
        sys.argv[:] = self.argv
        if not getattr(sys.flags, "safe_path", False):
            sys.path[0] = self.path0
        try:
            exec(self.code, main.__dict__)
        except SystemExit:
            raise
        except BaseException:
            _hide_our_frames()
            raise


def load(arguments: Sequence[str], is_module: bool) -> Script:
    """The program named by the first argument; the others are its own. ValueError when there is no such program."""
    if not arguments:
        raise ValueError("no script given: name a script, or -m and a module, after the options")
    return _load_module(arguments) if is_module else _load_file(arguments)


def _load_file(arguments: Sequence[str]) -> Script:
    path = arguments[0]
    if os.path.isdir(path) or path.endswith((".zip", ".pyz")):
        return _load_folder(arguments)
    try:
        with io.open_code(os.path.abspath(path)) as file:
            code = compile(file.read(), path, "exec", dont_inherit=True)
    except OSError as error:
        raise ValueError(f"cannot open the script {path}: {error.strerror}") from error
    except SyntaxError:
        _hide_our_frames()
        raise
    except ValueError as error:
        raise ValueError(f"cannot read the script {path}: {error}") from error
    loader = importlib.machinery.SourceFileLoader("__main__", path)
    # What the interpreter gives a script: no package, no spec.
    attributes = {"__file__": path, "__loader__": loader, "__package__": None, "__spec__": None, "__cached__": None}
    return Script(code, attributes, list(arguments), os.path.dirname(os.path.realpath(path)))


def _load_folder(arguments: Sequence[str]) -> Script:
    sys.path.insert(0, arguments[0])
    try:
        return dataclasses.replace(_load_module(["__main__", *arguments[1:]]), argv=list(arguments), path0=arguments[0])
    except ValueError as error:
        raise ValueError(f"cannot run {arguments[0]}: there is no __main__.py in it") from error
    finally:
        sys.path.remove(arguments[0])


def _load_module(arguments: Sequence[str]) -> Script:
    name = arguments[0]
    ours = sys.modules.pop("__main__")
    sys.path.insert(0, os.getcwd())
    try:
        _, spec, code = runpy._get_module_details(name)
    except ImportError as error:
        raise ValueError(f"cannot run the module {name}: {error}") from error
    finally:
        sys.path.pop(0)
        sys.modules["__main__"] = ours
    attributes = {"__file__": spec.origin, "__loader__": spec.loader, "__package__": spec.parent, "__spec__": spec}
    return Script(code, {**attributes, "__cached__": spec.cached}, [spec.origin, *arguments[1:]], os.getcwd())


def _hide_our_frames() -> None:
    """Wraps whatever excepthook the script left behind, so that it is shown the script's frames only."""
    shown_by = sys.excepthook

    def excepthook(kind: type[BaseException], error: BaseException, traceback: types.TracebackType | None) -> None:
        shown = without_our_frames(traceback)
        shown_by(kind, error.with_traceback(shown), shown)

    sys.excepthook = excepthook


def without_our_frames(traceback: types.TracebackType | None) -> types.TracebackType | None:
    """The same traceback without frames of this package and without what led to the script's first frame."""
    entries = []
    while traceback is not None:
        entries.append(traceback)
        traceback = traceback.tb_next
    first = 1 + max((index for index, entry in enumerate(entries) if _leads_to_the_script(entry)), default=-1)
    kept = None
    for entry in reversed(entries[first:]):
        if not _is_ours(entry):
            kept = types.TracebackType(kept, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return kept


def _is_ours(entry: types.TracebackType) -> bool:
    return os.path.dirname(entry.tb_frame.f_code.co_filename) == _PACKAGE


def _leads_to_the_script(entry: types.TracebackType) -> bool:
    return entry.tb_frame.f_code in (Script.run.__code__, load.__code__)
