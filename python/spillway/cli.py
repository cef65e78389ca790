"""The `spillway` command: what needs Python is done here, everything else by the native tool.

The tool replaces this process, so its exit codes, output and signals are the command's own.
"""

import importlib
import importlib.metadata
import importlib.util
import os
import sys

from spillway import __version__, native

IN_PYTHON = ("run", "verify", "doctor", "bench")  # commands that need the interpreter; each is a module with main(arguments)


def version_line() -> str:
    """The version, and that of the torch this Python would import. Reads metadata: importing torch takes seconds."""
    if importlib.util.find_spec("torch") is None:
        return f"spillway {__version__} (no torch here)"
    return f"spillway {__version__} (torch {importlib.metadata.version('torch')})"


def run_tool(arguments: list[str]) -> int:
    if not native.TOOL.exists():
        print(f"spillway: {native.TOOL} is missing; build it with `make setup` or reinstall the package", file=sys.stderr)
        return 1
    sys.stdout.flush()
    os.execv(native.TOOL, ["spillway", *arguments])


def main() -> int:
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        print(version_line())
        return 0
    if arguments and arguments[0] in IN_PYTHON:
        return importlib.import_module(f"spillway.{arguments[0]}").main(arguments[1:])
    return run_tool(arguments)
