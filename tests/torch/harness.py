"""Runs programs of the zoo, each in a process of its own, and compares what they did.

A process per run, because an engine, an allocator and a peak are things of a process: a fork of one that has imported the
libraries, which takes seconds, and done nothing with them. Where the kernel's count of resident pages matters it is a fresh
process. The results of runs that never change (plain, watching, imports only, oracle) are kept for the session.
"""

import atexit
import functools
import gc
import importlib
import json
import multiprocessing
import os
import runpy
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


@functools.cache
def forks():
    """Where processes come from that need not import torch."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["runner", "odd", "holds", "torchvision", "zoo.pretrained", "torch._dynamo", "spillway"])
    return context


def settle(folder: Path | str) -> None:
    """In the fork: what a process that began anew would find."""
    gc.freeze()  # a collector that looks at all that was imported copies the pages it lies in
    multiprocessing.set_start_method("fork", force=True)  # as everywhere on Linux: workers of a loader are forks of the program
    os.environ.update(environment())
    os.chdir(folder)


def become(program: str, words: list[str], said: str) -> None:
    """In the fork: what `program.py words...` does, its output in a file."""
    settle(ROOT)
    file = os.open(said, os.O_WRONLY | os.O_CREAT, 0o600)
    os.dup2(file, 1), os.dup2(file, 2)
    importlib.import_module(program).main(words)


def become_python(words: list[str], folder: str, files: list[str]) -> None:
    """In the fork: what `python words...` does in a folder, its output and its errors in two files."""
    settle(folder)
    for target, name in enumerate(files, start=1):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT, 0o600), target)
    try:
        if words[0] == "-m":
            sys.argv[:] = words[1:]
            runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv[:] = words
            sys.path.insert(0, str(Path(words[0]).resolve().parent))
            runpy.run_path(words[0], run_name="__main__")
    finally:
        atexit._run_exitfuncs()  # an interpreter would; multiprocessing does not


def in_a_fork(words: list[str], said: Path, program: str = "runner") -> int:
    return end_of_fork(become, program, words, str(said))


def end_of_fork(target, *arguments) -> int:
    process = forks().Process(target=target, args=arguments)
    process.start()
    process.join(HANGS_AFTER)
    if process.exitcode is None:
        process.kill()
        process.join()
    return process.exitcode


def in_a_fresh_process(words: list[str], said: Path) -> int:
    command = [sys.executable, str(HERE / "runner.py"), *words]
    with open(said, "w") as file:
        return subprocess.run(command, env=environment(), cwd=ROOT, stdout=file, stderr=file, timeout=HANGS_AFTER).returncode


def run(name: str, *flags: str, fresh: bool = False) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        out, said = Path(folder) / "run.json", Path(folder) / "said"
        words = [name, "--out", str(out), "--device", DEVICE, "--scale", SCALE, *flags]
        code = (in_a_fresh_process if fresh else in_a_fork)(words, said)
        if code != 0:
            raise RunFailed(f"runner.py {' '.join(words)}\nended with {code}\n{said.read_text(errors='replace')[-6000:]}")
        return json.loads(out.read_text())


def run_program(program: str, *words: str) -> dict:
    """What `program.py OUT words...` writes as JSON into OUT."""
    with tempfile.TemporaryDirectory() as folder:
        out, said = Path(folder) / "run.json", Path(folder) / "said"
        code = in_a_fork([str(out), *words], said, program)
        if code != 0:
            raise RunFailed(f"{program}.py {' '.join(words)}\nended with {code}\n{said.read_text(errors='replace')[-6000:]}")
        return json.loads(out.read_text())


def run_python(*words: object, folder: Path = ROOT) -> subprocess.CompletedProcess:
    """`python words...`, finished: a script or `-m module`, with its words."""
    command = [str(word) for word in words]
    with tempfile.TemporaryDirectory() as place:
        files = [f"{place}/out", f"{place}/err"]
        code = end_of_fork(become_python, command, str(folder), files)
        return subprocess.CompletedProcess(command, code, *(Path(file).read_text(errors="replace") for file in files))


@functools.cache
def run_plain(name: str, again: int = 0) -> dict:
    """A run without the engine; another number for `again` is another process."""
    return run(name)


@functools.cache
def run_watched(name: str, **options) -> dict:
    """A run under the engine without a budget: nothing moves, the plain peak and the floor are measured."""
    return run_budgeted(name, None, **options)


def run_budgeted(name: str, budget: int | None, *flags: str, fresh: bool = False, **options) -> dict:
    return run(name, *flags, "--spillway", json.dumps({"budget": budget, **options}), fresh=fresh)


@functools.cache
def run_oracle(name: str) -> dict:
    return run(name, "--oracle", "--steps", "2")  # the first makes the optimizer's state, the second uses it


def imports_only_bytes(name: str) -> int:
    """Peak resident bytes of a process that imports what the program imports and does nothing."""
    return imports_only_run(next(n for n, module in PROGRAMS.items() if module == PROGRAMS[name]))["resident_bytes"]


@functools.cache
def imports_only_run(name: str) -> dict:
    return run(name, "--imports-only", fresh=True)
