"""Runs programs of the zoo, each in a fresh process, and compares what they did.

A process per run, because an engine, an allocator and a peak are things of a process. The results of runs that never change
(plain, watching, imports only, oracle) are kept for the session.
"""

import functools
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from zoo import PROGRAMS

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
DEVICE = os.environ.get("SPILLWAY_DEVICE", "cpu")
SCALE = os.environ.get("SPILLWAY_SCALE", "small")
HANGS_AFTER = 1800  # seconds; a guard against deadlock, no measure of speed


class RunFailed(AssertionError):
    """A run ended badly: the command, how it ended, and the end of what it said."""


def environment() -> dict[str, str]:
    return os.environ | {"HF_HUB_OFFLINE": "1"}


def start(name: str, out: Path, *flags: str) -> subprocess.Popen:
    command = [sys.executable, str(HERE / "runner.py"), name, "--out", str(out), "--device", DEVICE, "--scale", SCALE, *flags]
    return subprocess.Popen(command, env=environment(), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def finish(process: subprocess.Popen, out: Path) -> dict:
    try:
        said, _ = process.communicate(timeout=HANGS_AFTER)
    except subprocess.TimeoutExpired:
        process.kill()
        said = "no end in sight\n" + process.communicate()[0]
    if process.returncode != 0:
        raise RunFailed(f"{' '.join(process.args)}\nended with {process.returncode}\n{said[-6000:]}")
    return json.loads(out.read_text())


def run(name: str, *flags: str) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run.json"
        return finish(start(name, out, *flags), out)


@functools.cache
def run_plain(name: str, again: int = 0) -> dict:
    """A run without the engine; another number for `again` is another process."""
    return run(name)


@functools.cache
def run_watched(name: str, **options) -> dict:
    """A run under the engine without a budget: nothing moves, the plain peak and the floor are measured."""
    return run_budgeted(name, None, **options)


def run_budgeted(name: str, budget: int | None, *flags: str, **options) -> dict:
    return run(name, *flags, "--spillway", json.dumps({"budget": budget, **options}))


@functools.cache
def run_oracle(name: str) -> dict:
    return run(name, "--oracle", "--steps", "2")  # the first makes the optimizer's state, the second uses it


def imports_only_bytes(name: str) -> int:
    """Peak resident bytes of a process that imports what the program imports and does nothing."""
    return imports_only_run(next(n for n, module in PROGRAMS.items() if module == PROGRAMS[name]))["resident_bytes"]


@functools.cache
def imports_only_run(name: str) -> dict:
    return run(name, "--imports-only")
