"""What was measured, as files: one JSON file a cell, `<folder>/<row>/<method>[-<share>].json`.

A cell is a row (a model), a method (plain, a peer, a policy of ours) and, for policies, a share of the plain peak in percent, or
"floor" for 1.1 times the floor. A file is written whole or not at all, so that a killed process leaves only what is true.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

GIB = 1 << 30
ABOVE_FLOOR = 1.1
FLOOR = "floor"  # as a share


@dataclasses.dataclass(frozen=True)
class Cell:
    folder: Path
    row: str
    method: str
    share: str | None

    @property
    def path(self) -> Path:
        return self.folder / self.row / (self.method + (f"-{self.share}" if self.share else "") + ".json")

    def read(self) -> dict[str, Any] | None:
        return json.loads(self.path.read_text()) if self.path.exists() else None

    def write(self, facts: Mapping[str, Any]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = self.path.with_suffix(".part")
        unfinished.write_text(json.dumps({"row": self.row, "method": self.method, "share": self.share, **facts}, indent=1) + "\n")
        os.replace(unfinished, self.path)

    def is_done(self, retry_failed: bool) -> bool:
        facts = self.read()
        return facts is not None and not facts.get("unfinished") and not (retry_failed and "failed" in facts)

    def in_a_line(self) -> str:
        facts = self.read() or {}
        if "failed" in facts:
            return f"failed, {facts['failed']}"
        if "trials" in facts:
            return f"at most {facts.get('most')}, its need allows {facts.get('allows')}"
        return f"{facts['ms']:.2f} ms, {facts['over_plain']:+.1%}, bits {'equal' if facts['bits'] else 'differ'}"


def read_all(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*/*.json"))]


def plain_peak(folder: Path, row: str) -> int | None:
    """Torch's own count on a card; on the CPU, where torch has none, what Spillway saw."""
    plain, watch = (Cell(folder, row, method, None).read() or {} for method in ("plain", "watch"))
    return plain.get("peak_bytes") or watch.get("plain_peak_bytes")


def budget_of(folder: Path, row: str, share: str) -> int:
    watch = Cell(folder, row, "watch", None).read() or {}
    if share == FLOOR:
        if "floor_bytes" not in watch:
            raise ValueError(f"the floor of {row} is not known yet: measure its watch first")
        return int(watch["floor_bytes"] * ABOVE_FLOOR)
    peak = plain_peak(folder, row)
    if peak is None:
        raise ValueError(f"the plain peak of {row} is not known yet: measure its watch first")
    return int(peak * float(share) / 100)


# ---- the search for the largest size ----

NEAR = (0.9, 0.97)  # of what its need allows: the aim, and as good as all of it
TRUSTED = 2.5  # how many times farther than what trained a line through needs is believed


def next_size(trials: Mapping[int, Mapping[str, Any]], start: int, end: int, budget: int) -> int | None:
    """Which size of those up to `end` to try next; nothing when the largest that fits is known to about 3 %. What a step needs lies
    nearly on a line over its size, so that two small sizes tell where to look."""
    if not trials:
        return min(start, end)
    low, high = largest_that_fits(trials) or 0, min((size for size, trial in trials.items() if trial["failed"] is not None), default=end + 1)
    if high - low <= max(1, high // 40) or low == end:
        return None
    if low == 0:
        return high // 2
    tellable = (allowed := allows(trials, budget)) is not None
    hopes = [allowed * part for part in NEAR] if tellable and allowed < end else [end] if tellable else [low * 5 / 4 + 1]
    hopes = [min(int(hope), int(low * TRUSTED)) for hope in hopes]
    for hope in hopes:
        if low + low // 50 < hope < high:
            return hope
    return (low + high) // 2 if high <= end else None


def largest_that_fits(trials: Mapping[int, Mapping[str, Any]]) -> int | None:
    return max((size for size, trial in trials.items() if trial["failed"] is None), default=None)


def allows(trials: Mapping[int, Mapping[str, Any]], budget: int) -> int | None:
    """The size at which what a step needs (our floor, plain's peak) reaches the budget, by a line through the two largest that trained."""
    known = sorted((size, trial["needs_bytes"]) for size, trial in trials.items() if trial["failed"] is None and trial["needs_bytes"])
    if len(known) < 2:
        return None
    (low, low_need), (high, high_need) = known[-2:]
    slope = max((high_need - low_need) / (high - low), 1e-9)  # depth needs next to nothing
    return int(high + (budget - high_need) / slope)
