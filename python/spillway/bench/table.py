"""Measured cells as tables: one a model, one of the largest sizes, and what plans foretold beside what was measured."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from spillway.bench.cells import GIB, read_all

PEAK_WITHIN, TIME_WITHIN = 0.01, 0.05  # what a prediction may be off by


def markdown(folder: Path) -> str:
    cells = read_all(folder)
    rows = sorted({cell["row"] for cell in cells})
    parts = [steps_table(row, of_row) for row in rows if (of_row := [c for c in cells if c["row"] == row and "trials" not in c])]
    if sizes := [cell for cell in cells if "trials" in cell]:
        parts.append(sizes_table(sizes))
    return "\n\n".join(parts) or f"nothing measured yet in {folder}"


def lines_of(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = list(head)
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows])


def order(cell: dict[str, Any]) -> tuple:
    """Plain, watching and peers first, then policies, hybrid before the others, large budgets before small."""
    first = {"plain": 0, "watch": 1}.get(cell["method"], 2)
    ours = cell["share"] is not None
    share = -1.0 if cell["share"] in (None, "floor") else float(cell["share"])
    return ours, first, cell["method"] != "hybrid", cell["method"], -share


def steps_table(row: str, cells: list[dict[str, Any]]) -> str:
    limits = {cell["share"]: cell["bound"] for cell in cells if cell["method"] == "limit"}
    shown = sorted((cell for cell in cells if cell["method"] != "limit"), key=order)
    head = (row, "budget GiB", "peak GiB", "ms", "over plain", "predicted", "bound", "bits", "moved / dropped GiB")
    return lines_of(head, [step_line(cell, limits.get(cell["share"])) for cell in shown])


def step_line(cell: dict[str, Any], bound: float | None) -> list[str]:
    name = cell["method"] + (f" {cell['share']}" + (" %" if cell["share"] != "floor" else "") if cell["share"] else "")
    if "failed" in cell:
        return [name, gib(cell.get("budget_bytes")), "", "", "failed: " + cell["failed"].splitlines()[0][:90], "", "", "", ""]
    moved = f"{gib(cell.get('moved_out_bytes_a_step'))} / {gib(cell.get('dropped_bytes_a_step'))}" if "budget_bytes" in cell else ""
    bits = "equal" if cell["bits"] else "" if cell["method"] in ("save_on_cpu",) or cell["method"].startswith("compile") else "DIFFER"
    crossed = f" ({cell['violations']} OVER)" if cell.get("violations") else ""
    return [name, gib(cell.get("budget_bytes")) + crossed, gib(peak_of(cell)), f"{cell['ms']:.1f}",
            "" if cell["method"] == "plain" else percent(cell["over_plain"]), percent(foretold(cell)), percent(bound), bits, moved]  # fmt: skip


def peak_of(cell: dict[str, Any]) -> int | None:
    return cell.get("peak_bytes") or cell.get("engine_peak_live_bytes") or cell.get("plain_peak_bytes")


def foretold(cell: dict[str, Any]) -> float | None:
    plan = cell.get("plan")
    return None if not plan else plan["step_seconds"] / plan["plain_step_seconds"] - 1


def gib(value: float | None) -> str:
    return "" if value is None else f"{value / GIB:.2f}" if value >= GIB // 100 else f"{value / (1 << 20):.1f} MiB"


def percent(value: float | None) -> str:
    return "" if value is None else f"{value:+.1%}".replace("%", " %")


def sizes_table(cells: list[dict[str, Any]]) -> str:
    rows = [size_line(cell) for cell in sorted(cells, key=lambda cell: (cell["row"], order(cell)))]
    return lines_of(("largest size", "method", "budget GiB", "trains", "its floor (plain: its peak) allows", "ms", "plain ms without a cap", "bits"), rows)


def size_line(cell: dict[str, Any]) -> list[str]:
    most, known = cell.get("most"), lambda value: "" if value is None else f"{value:.0f}"
    bits = {None: "", True: "equal", False: "DIFFER"}.get(cell.get("bits"), "not compared")
    over = " OVER" if any(trial.get("violations") for trial in cell["trials"].values()) else ""
    ms = cell["trials"][str(most)]["ms"] if most else None
    return [cell["row"], cell["method"], gib(cell["budget_bytes"]) + over, str(most or "unfinished"), known(cell.get("allows")), known(ms), known(cell.get("plain_ms")), bits]


# ---- predictions ----

def truth(folder: Path) -> tuple[str, bool]:
    """Every planned cell's predicted peak and step time against what was measured, and whether all are near enough."""
    planned = [cell for cell in read_all(folder) if cell.get("plan")]
    rows, good = [], True
    for cell in sorted(planned, key=lambda cell: (cell["row"], order(cell))):
        plan, peak = cell["plan"], peak_of(cell) - cell.get("others_bytes", 0)
        peak_off, time_off = plan["peak_bytes"] / peak - 1, plan["step_seconds"] * 1e3 / cell["ms"] - 1
        fine = abs(peak_off) <= PEAK_WITHIN and abs(time_off) <= TIME_WITHIN
        good = good and fine
        rows.append([f"{cell['row']} {cell['method']} {cell['share']}", gib(plan["peak_bytes"]), gib(peak), percent(peak_off),
                     f"{plan['step_seconds'] * 1e3:.1f}", f"{cell['ms']:.1f}", percent(time_off), "yes" if fine else "NO"])  # fmt: skip
    head = ("run", "peak foretold", "measured", "off by", "ms foretold", "measured", "off by", "within 1 % and 5 %")
    return lines_of(head, rows) if rows else f"no planned step in {folder}", good


def main_truth() -> int:
    text, good = truth(Path(sys.argv[1] if len(sys.argv) > 1 else "bench-results"))
    print(text)
    return 0 if good else 1
