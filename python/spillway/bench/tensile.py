"""bench/tensile: TENSILE's table of single jobs, batch 16, single precision: how much memory is saved, and at what cost.

    bench/tensile --minutes 8

Memory saved is 1 - peak / plain peak, extra time is time / plain time - 1. The budget is what saves as much as TENSILE told; the
aim is half its extra time. The peak is all memory taken, fragmentation included; the plain peak is of what is allocated.
Cells are files, as those of `spillway bench`. This module only decides and starts; it imports no torch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from spillway import bench, flags
from spillway.bench import table
from spillway.bench.cells import Cell, plain_peak


@dataclasses.dataclass(frozen=True)
class Told:
    """By TENSILE's authors: the results in their repository, July 2021."""

    saved: float
    extra: float

    @property
    def share(self) -> str:
        return str(round(100 * (1 - self.saved)))


ROWS = {
    "tensile-vgg16": Told(0.33, 0.26),
    "tensile-inception3": Told(0.59, 0.30),
    "tensile-inception4": Told(0.65, 0.16),
    "tensile-resnet50": Told(0.67, 0.61),
    "tensile-densenet": Told(0.76, 0.16),
}
METHODS = ("hybrid", "tensile")


class Driver(bench.Driver):
    rows = ROWS


def wanted_cells(row: str, methods: Sequence[str] | None, shares: Sequence[str] | None) -> list[tuple[str, str | None]]:
    return [("plain", None), ("watch", None), *((method, share) for method in methods or METHODS for share in shares or (ROWS[row].share,))]


def markdown(folder: Path) -> str:
    head = ("batch 16, fp32", "policy", "plain GiB", "peak GiB", "saved", "TENSILE saved", "plain ms", "extra time", "half of TENSILE's", "both met", "bits")
    lines = [line for row in ROWS for path in sorted(folder.glob(f"{row}/*-*.json")) if (line := line_of(row, folder, path))]
    return table.lines_of(head, lines) if lines else f"nothing measured yet in {folder}"


def line_of(row: str, folder: Path, path: Path) -> list[str]:
    method, share = path.stem.rsplit("-", 1)
    cell: dict[str, Any] = Cell(folder, row, method, share).read() or {}
    told, plain = ROWS[row], plain_peak(folder, row)
    name = row.removeprefix("tensile-")
    if "failed" in cell or plain is None:
        return [name, f"{method} {share} %", table.gib(plain), "", "", f"{told.saved:.2f}", "", "failed: " + cell.get("failed", "no plain peak").splitlines()[0][:90], "", "", ""]
    saved, extra = 1 - cell["engine_peak_bytes"] / plain, cell["over_plain"]
    met = saved >= told.saved and extra <= told.extra / 2
    return [name, f"{method} {share} %", table.gib(plain), table.gib(cell["engine_peak_bytes"]), f"{saved:.2f}", f"{told.saved:.2f}", f"{cell['plain_ms']:.1f}",
            f"{extra:.2f}", f"{told.extra / 2:.2f}", "yes" if met else "no", "equal" if cell["bits"] else "DIFFER"]  # fmt: skip


def main(arguments: Sequence[str]) -> int:
    parser = flags.Parser(prog="bench/tensile", description="Measures the memory saved and the time it takes on the models of TENSILE's table.")
    bench.add_flags(parser, ROWS, METHODS, "bench-tensile")
    given = parser.parse_args(arguments)
    driver = Driver(Path(given.out), given.device, given.tiny, bench.deadline_of(given))
    return bench.drive(driver, given, lambda row: wanted_cells(row, given.methods, given.shares), markdown)
