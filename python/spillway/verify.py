"""`spillway verify`: the same script plain and under a budget, compared bit for bit.

Each run is a process of its own with a recorder in it (spillway.recorder). Plain runs twice, the second time with fresh
memory filled differently, so that a script that is not deterministic, and ops that leave parts of their outputs
unwritten, are known before the budgeted run is judged. A difference is looked at once more in a third pair of runs, to name
the element. Exit code 0 equal, 1 different, 2 bad input, 3 when the plain runs already differ.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from spillway import api, compare, flags, script
from spillway.amounts import to_text
from spillway.compare import Difference

EQUAL, DIFFERENT, BAD_INPUT, NOT_DETERMINISTIC = range(4)

_FILL = "165"  # glibc then fills fresh memory with the complement of this byte
_OUT_OF_MEMORY = ("OutOfMemoryError", "MemoryError", "not enough memory", "can't allocate memory", "out of memory")


def main(arguments: Sequence[str]) -> int:
    parser = flags.make_parser("verify", "Runs a script plain and inside a budget and compares every bit. It runs several times: "
                               "what it writes is written again.")  # fmt: skip
    parser.add_argument("--once", action="store_true", help="run plain only once: trust the script to be deterministic")
    parser.add_argument("--steps-only", action="store_true",
                        help="no checksums of ops; a script that uses torch.compile is compiled only then")  # fmt: skip
    parser.add_argument("--quiet", action="store_true", help="print the verdict alone")
    given = parser.parse_args(arguments)
    try:
        if given.budget is None:
            raise ValueError("no budget given: say --budget and an amount")
        script.load(*flags.program(given))
        with flags.telling(parser.prog):
            api.read_options(**flags.engine_words(given), trace=None)
    except (ValueError, RuntimeError) as error:
        flags.fail(parser.prog, error)
    with ending_in_order(), tempfile.TemporaryDirectory(prefix="spillway-verify-") as folder:
        verification = Verification(given, Path(folder))
        if (refusal := verification.find_refusal()) is not None:
            flags.fail(parser.prog, refusal)
        return verification.verdict()


class Signalled(BaseException):
    """A signal that ends this process, once what is inside has been left."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


@contextlib.contextmanager
def ending_in_order() -> Iterator[None]:
    """What would end the process on the spot ends the run under way and takes its files away first. Ctrl-C does so by itself."""

    def leave(number: int, frame: Any) -> None:
        signal.signal(number, signal.SIG_IGN)  # once is enough: a second one would disturb the leaving
        raise Signalled(number)

    ends = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) == signal.SIG_DFL]  # nohup stays nohup
    for number in ends:
        signal.signal(number, leave)
    try:
        yield
    except Signalled as end:
        signal.signal(end.number, signal.SIG_DFL)
        signal.raise_signal(end.number)
    finally:
        for number in ends:
            signal.signal(number, signal.SIG_DFL)


@dataclasses.dataclass
class Run:
    """One finished run of the script."""

    name: str
    code: int
    record: Path
    output: str

    def lines(self) -> Any:
        # A run that died may have left half a line.
        return (line for line in open(self.record, errors="replace") if line.endswith("\n")) if self.record.exists() else iter(())

    def ran_out_of_memory(self) -> bool:
        return self.code == -signal.SIGKILL or (self.code != 0 and any(words in self.output for words in _OUT_OF_MEMORY))

    def last_words(self) -> str:
        lines = [line for line in self.output.splitlines() if line.strip()]
        return lines[-1] if lines else "nothing"


def _plural(kind: str) -> str:
    return kind + ("es" if kind.endswith("s") else "s")


class Stop(Exception):
    """The verdict is known early."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class Verification:
    def __init__(self, given: argparse.Namespace, folder: Path) -> None:
        self._given = given
        self._folder = folder

    def find_refusal(self) -> str | None:
        """What the engine says against these words, if anything: before the script runs, and in a process of its own, because an engine lasts."""
        start = self._run("start", budgeted=True, extra=["--start-only"], quiet=True)
        return None if start.code == 0 else start.last_words()

    def verdict(self) -> int:
        try:
            print(self._compare())
            return EQUAL
        except Stop as stop:
            print(stop)
            return stop.code

    def _compare(self) -> str:
        plain = self._run("plain")
        self._must_fit(plain)
        ignored = frozenset() if self._given.once else self._find_noise(plain)
        budgeted = self._run("budgeted", budgeted=True)
        if not budgeted.record.exists():  # it started before: something else has changed
            raise Stop(BAD_INPUT, f"spillway verify: {budgeted.last_words()}")
        if budgeted.code != plain.code and budgeted.ran_out_of_memory():
            raise Stop(BAD_INPUT, f"the budgeted run ran out of memory, so there is nothing to compare: {budgeted.last_words()}")
        difference = compare.find_difference(plain.lines(), budgeted.lines(), ignored)
        if difference is not None:
            raise Stop(DIFFERENT, self._told(difference, plain, budgeted))
        if budgeted.code != plain.code:
            raise Stop(DIFFERENT, f"different: plain ends with exit code {plain.code}, budgeted with {budgeted.code} ({budgeted.last_words()})")
        return self._equal_text(plain, ignored)

    def _must_fit(self, plain: Run) -> None:
        if plain.ran_out_of_memory():
            raise Stop(BAD_INPUT, "the plain run does not fit on this machine, so there is nothing to compare with: verify a smaller "
                       f"batch or model, or where there is more memory (it ended with: {plain.last_words()})")  # fmt: skip
        if not plain.record.exists() or plain.record.stat().st_size == 0:
            raise Stop(BAD_INPUT, f"the plain run left no record: it ended with exit code {plain.code} ({plain.last_words()})")

    def _find_noise(self, plain: Run) -> frozenset[str]:
        again = self._run("plain again", environment={"MALLOC_PERTURB_": _FILL})
        noise = compare.find_noise(plain.lines(), again.lines())
        if noise is not None:
            return noise
        difference = compare.find_difference(plain.lines(), again.lines())
        raise Stop(NOT_DETERMINISTIC, f"two plain runs already differ: {self._named(difference)}. The script does not do the same thing "
                   "twice: seed it (torch.manual_seed), or switch the op to its deterministic form "
                   "(torch.use_deterministic_algorithms); where only the order of ops differs (workers that load data, several "
                   "threads), --steps-only compares losses, gradients and parameters")  # fmt: skip

    def _named(self, difference: Difference | None) -> str:
        """With step ends only, the op is found by a pair of runs that look at every op."""
        if difference is None or not self._given.steps_only:
            return difference.text() if difference else "once, and not when looked at again"
        pair = [self._run(f"plain, every op, {number}", every_op=True) for number in (1, 2)]
        found = compare.find_difference(pair[0].lines(), pair[1].lines())
        return (found or difference).text()

    def _told(self, difference: Difference, plain: Run, budgeted: Run) -> str:
        if difference.right is None and budgeted.code != plain.code:
            return (f"different: the budgeted run ended early with exit code {budgeted.code} ({budgeted.last_words()}), "
                    f"before {difference.left.text()}")  # fmt: skip
        every_op = not self._given.steps_only
        if not every_op:
            pair = self._run("plain, every op", every_op=True), self._run("budgeted, every op", budgeted=True, every_op=True)
            finer = compare.find_difference(pair[0].lines(), pair[1].lines())
            difference, every_op = (finer, True) if finer is not None else (difference, False)
        return f"different: {difference.text()}{self._element(difference, every_op)}"

    def _element(self, difference: Difference, every_op: bool) -> str:
        """Both runs again up to that fact, for the bytes of its tensors."""
        place = difference.tensor()
        if place is None:
            return ""
        heads, parts = [], []
        for number, budgeted in enumerate((True, False)):
            dump = self._folder / f"dump{number}"
            run_name = f"{'budgeted' if budgeted else 'plain'} up to there"
            self._run(run_name, budgeted=budgeted, every_op=every_op, extra=["--dump", f"{difference.number}:{dump}"])
            if not dump.exists():
                return " (looked at again, it did not come back)"
            head, tensors = compare.read_dump(dump.read_bytes())
            heads.append(head)
            parts.append(tensors[place])
        element = compare.find_element(*heads[0]["tensors"][place], parts[0], parts[1])
        line = f" (from {heads[0]['line']})" if heads[0]["line"] else ""
        return (f", {element.text()}" if element else " (looked at again, it was equal)") + line

    def _equal_text(self, plain: Run, ignored: frozenset[str]) -> str:
        kinds: dict[str, int] = {}
        steps = 0
        for line in plain.lines():
            fact = compare.Fact.read(line)
            kinds[fact.kind] = kinds.get(fact.kind, 0) + 1
            steps = max(steps, fact.step)
        counted = ", ".join(f"{count} {_plural(kind)}" for kind, count in kinds.items() if kind not in ("end", "raised"))
        text = f"equal, bit for bit: {steps} steps ({counted})"
        if kinds.get("raised"):
            text += f"; the script itself ends with an exception ({plain.last_words()})"
        if ignored:
            text += f"; not compared, because parts are never written: {', '.join(sorted(ignored))}"
        return text + self._work_text()

    def _work_text(self) -> str:
        file = self._folder / "stats.json"
        if not file.exists():
            return ""
        stats = json.loads(file.read_text())
        moved = (stats.get("moved_out_bytes") or 0) + (stats.get("moved_in_bytes") or 0)
        return (f"; budget {to_text(stats['budget_bytes'])}, peak {to_text(stats['peak_bytes'])}, moved {to_text(moved)}, "
                f"recomputed {stats.get('recomputed_ops', 0)} ops")  # fmt: skip

    def _run(self, name: str, budgeted: bool = False, every_op: bool = False, environment: dict[str, str] | None = None,
             extra: Sequence[str] = (), quiet: bool = False) -> Run:  # fmt: skip
        record = self._folder / f"{name}.facts"
        command = ["--out", str(record), *extra]
        if budgeted:
            command += ["--engine", json.dumps(flags.engine_words(self._given)), "--stats", str(self._folder / "stats.json")]
        if self._given.steps_only and not every_op:
            command.append("--steps-only")
        words, is_module = flags.program(self._given)
        started = time.monotonic()
        with open(self._folder / "output", "w+", errors="replace") as output:
            code = record_in_child([*command, *["-m"] * is_module, *words], environment or {}, output)
            output.seek(0)
            text = output.read()
        if not (quiet or self._given.quiet):
            print(f"spillway verify: {name}: exit code {code}, {time.monotonic() - started:.1f} s", file=sys.stderr)
        return Run(name, code, record, text)


def record_in_child(arguments: Sequence[str], environment: dict[str, str], output: IO[str]) -> int:
    """A process of its own with spillway.recorder in it; its exit code."""
    command = [sys.executable, "-m", "spillway.recorder", *arguments]
    environment = {**os.environ, **environment}
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
