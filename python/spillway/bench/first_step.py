"""bench/first_step: what the first step of a run inside a budget costs, before anything was seen, beside a steady one.

    bench/first_step --minutes 8
    bench/first_step --device cpu --small

Each over the plain step of its own kind: the first over a plain run's first, both of processes that do nothing else. The aims:
the first step's slowdown at most 1.3 times the steady one's, and at most 1.5 times as many bytes moved and recomputed. "Loaded" is the
same in a process whose kernels are loaded and whose algorithms are found already, "again" the first step once more in that process: what
it is shorter by is spent once a process, on memory that is pinned. Cells are files, as those of `spillway bench`, and each has processes of
its own. This module only decides and starts; it imports no torch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from spillway import bench, flags
from spillway.bench import table
from spillway.bench.cells import read_all

ROWS = {name: None for name in ("resnet50", "gpt2", "vit", "densenet", "vgg16", "bert-squad", "t5-qqp", "retinanet")}
SHARES = ("80", "60", "45")
MOST_TIME, MOST_BYTES = 1.3, 1.5
WARM, TIMED = bench.WARM_PLANNED, bench.TIMED


@dataclasses.dataclass
class Driver(bench.Driver):
    rows = ROWS
    module = "first_steps"

    def groups(self, name: str, missing: list[tuple[str, str | None]]) -> list[list[tuple[str, str | None]]]:
        return [[cell] for cell in missing]

    def task(self, name: str, group: list[tuple[str, str | None]]) -> dict[str, Any]:
        return super().task(name, group) | ({"warm": 16, "timed": 5} if self.tiny else {"warm": WARM, "timed": TIMED})


def wanted_cells(shares: Sequence[str] | None) -> list[tuple[str, str | None]]:
    """`watch` comes first: on the CPU it alone knows the peak."""
    return [("watch", None), *(("hybrid", share) for share in shares or SHARES)]


def markdown(folder: Path) -> str:
    cells = [cell for cell in read_all(folder) if cell["method"] == "hybrid"]
    if not cells:
        return f"nothing measured yet in {folder}"
    head = ("first step", "budget", "plain ms, first / steady", "first over plain", "loaded", "again", "steady over plain", f"aim {MOST_TIME}",
            "moved GiB, first / steady", "recomputed GiB, first / steady", f"aim {MOST_BYTES}", "bits")  # fmt: skip
    cells.sort(key=lambda cell: ([*ROWS].index(cell["row"]), -float(cell["share"])))
    return table.lines_of(head, [line_of(cell) for cell in cells])


def line_of(cell: dict[str, Any]) -> list[str]:
    name = [cell["row"], f"{cell['share']} %"]
    if "failed" in cell:
        return [*name, "", "failed: " + cell["failed"].splitlines()[0][:90], "", "", "", "", "", "", "", ""]
    first, steady = cell["fresh_first_ms"] / cell["fresh_plain_first_ms"], cell["ms"] / cell["plain_ms"]
    loaded, again = (cell[f"{which}_ms"] / cell["plain_first_ms"] - 1 for which in ("first", "again"))
    of_first, of_steady = (cell[f"{which}_moved_bytes"] + cell[f"{which}_dropped_bytes"] for which in ("first", "steady"))
    pair = lambda what: f"{table.gib(cell[f'first_{what}_bytes'])} / {table.gib(cell[f'steady_{what}_bytes'])}"  # noqa: E731
    return [*name, f"{cell['fresh_plain_first_ms']:.0f} / {cell['plain_ms']:.1f}", table.percent(first - 1), table.percent(loaded), table.percent(again), table.percent(steady - 1),
            judged(first / steady, MOST_TIME), pair("moved"), pair("dropped"), judged(of_first / of_steady if of_steady else None, MOST_BYTES),
            "equal" if cell["bits"] else "DIFFER"]  # fmt: skip


def judged(ratio: float | None, most: float) -> str:
    return "" if ratio is None else f"{ratio:.2f}" + ("" if ratio <= most else " MISSED")


def main(arguments: Sequence[str]) -> int:
    parser = flags.Parser(prog="bench/first_step", description="Measures the first step of a run inside a budget beside its steady ones.")
    bench.add_flags(parser, ROWS, ("hybrid",), "bench-first-step")
    given = parser.parse_args(arguments)
    driver = Driver(Path(given.out), given.device, given.tiny, bench.deadline_of(given))
    return bench.drive(driver, given, lambda _: wanted_cells(given.shares), markdown)
