"""bench/dynamic: steps of changing size, plain, checkpointed for the largest, and inside budgets.

    bench/dynamic --only bert-squad --minutes 8        measures what is missing of a row, and prints the table
    bench/dynamic --methods hybrid dtr --shares 60

Budgets are shares of the largest step's plain peak. Cells are files, as those of `spillway bench`; every method of a row has the same
steps, in one process, with plain ones in between. This module only decides and starts; it imports no torch.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from spillway import bench, flags
from spillway.bench import table
from spillway.bench.cells import read_all

METHODS = ("checkpoint", "hybrid", "mimose", "dtr", "lru")
SHARES = ("80", "60", "45")
ROWS = {name: None for name in ("bert-squad", "bert-swag", "bert-qqp", "t5-squad", "t5-swag", "t5-qqp", "retinanet")}
WARM, TIMED = 40, 24  # ten samples teach what there is to learn; the rest of the warm steps is for plans to be made and memory to be pinned


@dataclasses.dataclass
class Driver(bench.Driver):
    rows = ROWS
    module = "varied"

    def groups(self, name: str, missing: list[tuple[str, str | None]]) -> list[list[tuple[str, str | None]]]:
        return [missing] if missing else []

    def task(self, name: str, group: list[tuple[str, str | None]]) -> dict[str, Any]:
        return super().task(name, group) | ({"warm": 8, "timed": 6} if self.tiny else {"warm": WARM, "timed": TIMED})


def wanted_cells(methods: Sequence[str] | None, shares: Sequence[str] | None) -> list[tuple[str, str | None]]:
    """`watch` comes first: on the CPU it alone knows the peak; and the plain run beside it is kept."""
    asked = [method for method in METHODS if methods is None or method in methods]
    return [("watch", None), *((method, share) for method in asked for share in shares or SHARES)]


# ---- what came of it ----

def markdown(folder: Path) -> str:
    cells = [cell for cell in read_all(folder) if cell["row"] in ROWS]
    parts = [row_table(row, of_row) for row in ROWS if (of_row := [cell for cell in cells if cell["row"] == row])]
    return "\n\n".join([*parts, *summary(cells)]) or f"nothing measured yet in {folder}"


def row_table(row: str, cells: list[dict[str, Any]]) -> str:
    head = (row, "budget GiB", "peak GiB", "ms a step", "over plain", "than checkpoint", "than dtr", "plans, time for them", "bits", "moved / dropped GiB")
    return table.lines_of(head, [line_of(cell, cells) for cell in sorted(cells, key=order)])


def order(cell: dict[str, Any]) -> tuple:
    first = {"plain": -2, "watch": -1}.get(cell["method"], 0)
    return first, -float(cell["share"] or 0), [*METHODS, cell["method"]].index(cell["method"])


def line_of(cell: dict[str, Any], cells: list[dict[str, Any]]) -> list[str]:
    name = cell["method"] + (f" {cell['share']} %" if cell["share"] else "")
    if "failed" in cell:
        return [name, table.gib(cell.get("budget_bytes")), "", "", "failed: " + cell["failed"].splitlines()[0][:90], "", "", "", "", ""]
    budget = cell.get("budget_bytes") or cell.get("static_budget_bytes")
    peak = cell.get("largest_peak_bytes") or table.peak_of(cell)
    over = " OVER" if cell.get("violations") or (budget and peak and peak > budget) else ""
    plans = f"{cell['foreseen_steps']} of {cell['varying_steps']}, {cell['reused_plans']} reused, {cell['planning_share']:.2%}" if "planning_share" in cell else ""
    blocks = f"{cell['checkpointed_blocks']} blocks" if "checkpointed_blocks" in cell else ""
    moved = f"{table.gib(cell['moved_out_bytes_a_step'])} / {table.gib(cell['dropped_bytes_a_step'])}" if "budget_bytes" in cell else blocks
    return [name, table.gib(budget), table.gib(peak) + over, f"{cell['ms']:.1f}", "" if cell["method"] == "plain" else table.percent(cell["over_plain"]),
            table.percent(faster(cell, cells, "checkpoint")), table.percent(faster(cell, cells, "dtr")), plans,
            "equal" if cell["bits"] else "DIFFER", moved]  # fmt: skip


def faster(cell: dict[str, Any], cells: Iterable[dict[str, Any]], than: str) -> float | None:
    """By how much more it gets done in a time, each against the plain run of its own process."""
    if cell["method"] not in ("hybrid", "mimose") or "failed" in cell:
        return None
    others = [other for other in cells if other["row"] == cell["row"] and other["method"] == than and other["share"] == cell["share"] and "failed" not in other]
    return (1 + others[0]["over_plain"]) / (1 + cell["over_plain"]) - 1 if others else None


def summary(cells: list[dict[str, Any]]) -> list[str]:
    """The aims: 18 % faster than static checkpointing and 15 % than dtr on average, at most 2.6 % slower than plain at 80 %, and
    at most 0.1 % of the time after ten steps for plans."""
    lines = []
    for method in ("hybrid", "mimose"):
        ours = [cell for cell in cells if cell["method"] == method and "failed" not in cell]
        for than, aim in (("checkpoint", 0.18), ("dtr", 0.15)):
            found = [value for cell in ours if (value := faster(cell, cells, than)) is not None]
            if found:
                lines.append(f"{method} against {than}: {statistics.fmean(found):+.1%} on average of {len(found)} (aim {aim:+.0%})")
        at_80 = [cell["over_plain"] for cell in ours if cell["share"] == "80"]
        if at_80:
            lines.append(f"{method} against plain at 80 %: {statistics.fmean(at_80):+.1%} (aim at most +2.6%)")
        if shares := [cell["planning_share"] for cell in ours if "planning_share" in cell]:
            lines.append(f"{method}, planning and learning after ten steps: at most {max(shares):.2%} of a run (aim 0.10%)")
    return ["\n".join(lines)] if lines else []


def main(arguments: Sequence[str]) -> int:
    parser = flags.Parser(prog="bench/dynamic", description="Measures training steps of changing size, plain, checkpointed, and inside budgets.")
    bench.add_flags(parser, ROWS, METHODS, "bench-dynamic")
    given = parser.parse_args(arguments)
    driver = Driver(Path(given.out), given.device, given.tiny, bench.deadline_of(given))
    return bench.drive(driver, given, lambda _: wanted_cells(given.methods, given.shares), markdown)
