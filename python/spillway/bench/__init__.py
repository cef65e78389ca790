"""`spillway bench`: training steps on your card, plain, as others save memory, and inside Spillway's budgets.

    spillway bench --only resnet50 --minutes 8       measures what is missing of a row, and prints the table
    spillway bench --only gpt2 --methods hybrid --shares 80 60
    spillway bench --minutes 0                       only the table of what is there

Every cell is a file under --out, so a second call goes on where the first stopped. Cells of one method are measured in one process,
beside a plain run of their own. This module only decides and starts; it imports no torch.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from spillway import flags
from spillway.bench import table
from spillway.bench.cells import FLOOR, GIB, Cell

PEERS = ("checkpoint", "save_on_cpu", "compile-1.0", "compile-0.5", "compile-0.2")
POLICIES = ("hybrid", "dtr", "lru", "superneurons", "tensile", "capuchin")
REACTIVE = ("dtr", "lru")
WARM, WARM_PLANNED, TIMED = 3, 80, 8  # a plan goes on improving in the background for some tens of steps, and has to prove itself
WARM_FLOOR = 16  # near the floor a step may take seconds, and what counts is that it trains
WARM_PAPER = 24  # the papers' plans are made once: then they are followed, or they are not


@dataclasses.dataclass(frozen=True)
class Row:
    """A model with the shares (percent of its plain peak) at which hybrid runs, and those at which the other policies do."""

    shares: tuple[str, ...]
    others: tuple[str, ...] = ("60", "43")
    peers: tuple[str, ...] = PEERS

    def cells(self) -> list[tuple[str, str | None]]:
        known: list[tuple[str, str | None]] = [("plain", None), ("watch", None), *((peer, None) for peer in self.peers)]
        ours = [("hybrid", share) for share in self.shares]
        return known + ours + [(policy, share) for policy in POLICIES[1:] for share in self.others]


@dataclasses.dataclass(frozen=True)
class Farthest:
    """How deep, or how large a batch, trains within 12 GiB: `start` is the first size tried, `end` the last. The method `adaptive` is
    hybrid with convolutions that may take a workspace that fits, and round differently."""

    start: int
    end: int = 1 << 20
    budget: int = 12 * GIB

    def cells(self) -> list[tuple[str, str | None]]:
        return [("plain", None), ("hybrid", None)]


WITHOUT_BLOCKS = PEERS[1:]
ROWS: dict[str, Row | Farthest] = {
    "resnet50": Row(("100", "60", "43", "27", "20", "floor")),
    "gpt2": Row(("100", "80", "60", "54", "48", "floor"), others=("60", "54")),
    "vit": Row(("100", "60", "43", "floor")),
    "densenet": Row(("100", "60", "43", "floor"), peers=WITHOUT_BLOCKS),
    "vgg16": Row(("100", "66", "60", "46", "43", "floor"), others=("60", "46"), peers=WITHOUT_BLOCKS),
    "deepest-resnet": Farthest(960, 6000),
    "batch-alexnet": Farthest(1792),
    "batch-vgg16": Farthest(224),
    "batch-resnet50": Farthest(384),
    "batch-resnet101": Farthest(256),
    "batch-resnet152": Farthest(176),
    "batch-inception4": Farthest(240),
}


def wanted_cells(row: Row | Farthest, methods: Sequence[str] | None, shares: Sequence[str] | None) -> list[tuple[str, str | None]]:
    """The row's cells, or those asked for; a policy asked for with shares runs at these, whatever the row says."""
    found = row.cells()
    if isinstance(row, Farthest):
        return [(method, None) for method in methods or ("plain", "hybrid")]
    if shares is not None:
        asked = [method for method in methods or ("hybrid",) if method in POLICIES]
        found = [cell for cell in found if cell[1] is None] + [(policy, share) for policy in asked for share in shares]
    if methods is not None:
        needed = {"plain", "watch"} if any(method in POLICIES for method in methods) else {"plain"}
        found = [cell for cell in found if cell[0] in needed or cell[0] in methods]
    return found


def processes(cells: list[tuple[str, str | None]]) -> list[list[tuple[str, str | None]]]:
    """Which cells share a process: all of a policy; the simple peers with plain. A compiler stays for itself, and so does a budget
    near the floor, in which what other runs have left on the card has no room."""
    groups: dict[tuple[str, bool], list[tuple[str, str | None]]] = {}
    for method, share in cells:
        groups.setdefault(("plain" if method in ("plain", "checkpoint", "save_on_cpu") else method, share == FLOOR), []).append((method, share))
    return list(groups.values())


@dataclasses.dataclass
class Driver:
    folder: Path
    device: str
    tiny: bool
    deadline: float
    budget: int | None = None
    rows: ClassVar[Mapping[str, Any]] = ROWS
    module: ClassVar[str] = "measure"  # who measures

    def measure(self, name: str, missing: list[tuple[str, str | None]]) -> None:
        for group in self.groups(name, missing):
            rest = group
            while rest:
                left = self.deadline - time.monotonic()
                if left <= 0:
                    print(f"{name}: out of time before {rest[0][0]}", flush=True)
                    return
                before = self.kept(name, rest)
                self.run_process(name, self.task(name, rest), left)
                rest = [cell for cell in rest if not Cell(self.folder, name, *cell).is_done(retry_failed=False)]
                if self.kept(name, rest) == before:
                    break

    def groups(self, name: str, missing: list[tuple[str, str | None]]) -> list[list[tuple[str, str | None]]]:
        return [[cell] for cell in missing] if isinstance(self.rows[name], Farthest) else processes(missing)

    def kept(self, name: str, cells: list[tuple[str, str | None]]) -> list[dict[str, Any] | None]:
        return [Cell(self.folder, name, *cell).read() for cell in cells]

    def task(self, name: str, group: list[tuple[str, str | None]]) -> dict[str, Any]:
        row, planned = self.rows[name], [method for method, share in group if share and method not in REACTIVE]
        improves = "hybrid" in planned
        warm, timed = (WARM_FLOOR if group[0][1] == FLOOR else WARM_PLANNED if improves else WARM_PAPER) if planned else WARM, TIMED
        if self.tiny:
            warm, timed = 6 if planned else 2, 2
        task = {"row": name, "device": self.device, "tiny": self.tiny, "folder": str(self.folder), "cells": group, "warm": warm, "timed": timed}
        if isinstance(row, Farthest):
            task |= {"start": 4 if self.tiny else row.start, "end": row.end, "budget": self.budget or row.budget}
        return task

    def run_process(self, name: str, task: dict[str, Any], seconds: float) -> None:
        command = [sys.executable, "-m", f"spillway.bench.{self.module}", json.dumps(task)]
        try:
            code = subprocess.run(command, timeout=seconds, check=False).returncode
        except subprocess.TimeoutExpired:
            print(f"{name}: stopped at the end of the time given; the rest of {task['cells'][0][0]} is left", flush=True)
            return
        if code != 0:
            self.keep_crash(name, task, code)

    def keep_crash(self, name: str, task: dict[str, Any], code: int) -> None:
        """The first cell that left no result is the one that ended the process."""
        for method, share in task["cells"]:
            cell = Cell(self.folder, name, method, share)
            if not cell.is_done(retry_failed=False):
                tried = {key: value for key, value in (cell.read() or {}).items() if key in ("budget_bytes", "trials")}
                cell.write(tried | {"failed": f"the process ended with code {code}; what it said is above"})
                return


def make_parser() -> flags.Parser:
    parser = flags.Parser(prog="spillway bench", description="Measures training steps on a card, plain, as others save memory, and inside budgets.")
    add_flags(parser, ROWS, ("plain", "watch", *PEERS, *POLICIES, "adaptive"), "bench-results")
    parser.add_argument("--budget", type=float, metavar="GIB", help="of the rows that look for the largest size, instead of 12")
    return parser


def add_flags(parser: flags.Parser, rows: Mapping[str, Any], methods: Sequence[str], out: str) -> None:
    """What every driver takes."""
    add = parser.add_argument
    add("--only", nargs="+", choices=list(rows), metavar="ROW", default=list(rows), help=f"rows to measure: {', '.join(rows)}")
    add("--methods", nargs="+", choices=methods, metavar="METHOD", help=f"of {', '.join(methods)}")
    add("--shares", nargs="+", metavar="PERCENT", help="of the plain peak, or floor, instead of the row's own")
    add("--minutes", type=float, default=60, help="start nothing after this long (default: 60); 0 only prints the table")
    add("--out", default=out, metavar="FOLDER", help=f"where results are kept (default: {out})")
    add("--device", default="cuda", help="cuda, cuda:N or cpu (default: cuda)")
    add("--tiny", "--small", action="store_true", help="the same graphs, small: to try the driver itself")
    add("--retry", action="store_true", help="measure again what failed")


def drive(driver: Driver, given: argparse.Namespace, wanted_of: Callable[[str], list[tuple[str, str | None]]], tell: Callable[[Path], str]) -> int:
    """Measures what is missing, then tells what is there."""
    for name in given.only if given.minutes > 0 else []:
        driver.measure(name, [cell for cell in wanted_of(name) if not Cell(driver.folder, name, *cell).is_done(given.retry)])
    text = tell(driver.folder)
    print(text)
    if driver.folder.is_dir():
        (driver.folder / "table.md").write_text(text + "\n")
    return 0


def deadline_of(given: argparse.Namespace) -> float:
    return time.monotonic() + 60 * given.minutes


def main(arguments: Sequence[str]) -> int:
    given = make_parser().parse_args(arguments)
    driver = Driver(Path(given.out), given.device, given.tiny, deadline_of(given), None if given.budget is None else int(given.budget * GIB))
    return drive(driver, given, lambda name: wanted_cells(ROWS[name], given.methods, given.shares), table.markdown)
