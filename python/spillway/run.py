"""`spillway run`: an unmodified script under a budget, or only watched.

The script runs in this interpreter. Its exit code, output and tracebacks are its own; what Spillway adds is a table on
standard error after everything else, a live line on a terminal, and the statistics file. That file is rewritten
every second, and more often in the first, so that a run that is killed leaves one that is at most that old. `finished` in it says
that the script came to its end or left by sys.exit: not after an uncaught exception, Ctrl-C among them.
"""

from __future__ import annotations

import argparse
import atexit
import dataclasses
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from spillway import api, flags, native, script, summary

# A person's patience, at first and later; writing the file takes well under a millisecond.
_FIRST_REFRESH_SECONDS, _REFRESH_SECONDS = 0.05, 1.0


def main(arguments: Sequence[str]) -> int:
    parser = flags.make_parser("run", "Runs a script inside a byte budget; without --budget it only watches.")
    parser.add_argument("--trace", metavar="FILE", help="record the run (.spt)")
    parser.add_argument("--trace-steps", metavar="N", type=int, help="steps kept whole in it from the first on (default: 3, and the last 3)")
    parser.add_argument("--report", metavar="PAGE", help="record the run and draw it (.html, trace beside it)")
    parser.add_argument("--stats", metavar="FILE", help="write the summary as JSON")
    parser.add_argument("--quiet", action="store_true", help="no table, no live line")
    given = parser.parse_args(arguments)
    try:
        program = script.load(*flags.program(given))
        stats_file = None if given.stats is None else flags.check_writable(flags.of_this_rank(given.stats))
        drawing = _drawing(given)
        trace = _trace_file(given.trace, drawing)
        with flags.telling(parser.prog):
            api.enable(**flags.engine_words(given), trace=trace, trace_steps=given.trace_steps)
    except (ValueError, RuntimeError) as error:
        flags.fail(parser.prog, error)
    with Reporter(stats_file, given.quiet, drawing):
        program.run()
    return 0


def refresh_waits() -> Iterator[float]:
    """Seconds from one writing of the statistics to the next: at most as many as have passed since the start, but the first."""
    passed = 0.0
    while True:
        wait = min(max(passed, _FIRST_REFRESH_SECONDS), _REFRESH_SECONDS)
        yield wait
        passed += wait


@dataclasses.dataclass(frozen=True)
class Drawing:
    """The page that is drawn of the run when it is over. Absolute paths: a script may go elsewhere meanwhile."""

    page: Path
    trace: Path
    title: str

    def make(self) -> str:
        """What the tool says; RuntimeError when it fails."""
        api.end_trace()
        command = [native.TOOL, "report", self.trace, "-o", self.page, "--title", self.title]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip())
        return done.stdout.strip()


def _drawing(given: argparse.Namespace) -> Drawing | None:
    if given.report is None:
        return None
    page = flags.check_writable(flags.of_this_rank(given.report)).absolute()
    trace = page.with_suffix(".spt") if given.trace is None else flags.of_this_rank(given.trace).absolute()
    return Drawing(page, trace, Path(flags.program(given)[0][0]).name)


def _trace_file(given: str | None, drawing: Drawing | None) -> Path | None:
    """Where the run is recorded: as told, or beside the page that is drawn of it."""
    if drawing is not None:
        return flags.check_writable(drawing.trace)
    return None if given is None else flags.check_writable(flags.of_this_rank(given))


class Reporter:
    """Tells what happens while the script runs and, once, when the interpreter ends: entered and left with the script."""

    def __init__(self, stats_file: Path | None, quiet: bool, drawing: Drawing | None = None) -> None:
        self._stats_file = stats_file
        self._drawing = drawing
        self._quiet = quiet
        self._live = not quiet and sys.stderr.isatty()
        self._process = os.getpid()
        self._failed = False
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._refresh, name="spillway-reporter", daemon=True)

    def __enter__(self) -> None:
        # Registered first, so it runs last: after the script's threads, its own exit functions and its traceback.
        atexit.register(self._finish)
        self._thread.start()

    def __exit__(self, kind: type[BaseException] | None, *error: Any) -> None:
        self._failed = kind is not None and not issubclass(kind, SystemExit)

    def _refresh(self) -> None:
        for wait in refresh_waits():
            stats = api.stats()
            self._write(stats, finished=False)
            if self._live:
                columns = shutil.get_terminal_size().columns
                print(f"\r\x1b[2K{summary.live_line(stats, columns)}\r", end="", file=sys.stderr, flush=True)
            if self._over.wait(wait):
                return

    def _finish(self) -> None:
        if os.getpid() != self._process:  # a forked child that ends by itself
            return
        self._over.set()
        self._thread.join()
        stats = api.stats()
        self._write(stats, finished=not self._failed, last=True)
        if not self._quiet:
            print("\r\x1b[2K" * self._live + summary.table(stats | {"finished": not self._failed}), file=sys.stderr, flush=True)
        if self._drawing is not None:
            self._draw(self._drawing)

    def _draw(self, drawing: Drawing) -> None:
        try:
            made = drawing.make()
        except (OSError, RuntimeError) as error:
            print(f"spillway: no page was drawn: {error}", file=sys.stderr)
            return
        if not self._quiet:
            print(f"spillway drew {made}", file=sys.stderr)

    def _write(self, stats: dict[str, Any], finished: bool, last: bool = False) -> None:
        if self._stats_file is None:
            return
        try:
            _replace_text(self._stats_file, json.dumps({**stats, "finished": finished}, indent=2) + "\n")
        except OSError as error:
            if last:
                print(f"spillway: cannot write {self._stats_file}: {error.strerror}", file=sys.stderr)


def _replace_text(file: Path, text: str) -> None:
    if file.exists() and not file.is_file():  # a pipe or a terminal
        file.write_text(text)
        return
    # Renamed into place: neither a reader nor a kill in between ever sees half a file.
    partial = file.with_name(f".{file.name}.{os.getpid()}")
    partial.write_text(text)
    partial.replace(file)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
