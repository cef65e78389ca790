"""One process that measures first steps (first_step.py), as measure.py does steady ones.

A run's first step is measured in processes forked from this one, in which nothing has touched the card yet: it loads kernels, finds
algorithms and takes its memory, plain or not. What of that is ours is seen beside it, in a process where all of this has happened.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from spillway.bench import cells, measure, models, streams  # measure first: it sets what must be there before torch

import spillway
import torch
import torch.nn.functional as F

MOVED = ("moved_out_bytes", "moved_in_bytes")
FRESH = 2  # tries of each kind, of which the shorter counts
PLAIN_FIRSTS = 5  # a first step alone may be anything; ours has one try only, because a second ("again") finds what the first left


def small_gpt2() -> models.Work:
    """Large enough that its storages are what a step is about, on two cores."""
    model, words = models.Gpt2(512, 128, 128, 4, 4).train(), 512
    tokens, targets = (torch.randint(words, (8, 128)) for _ in range(2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    return models.Work(model, optimizer, (tokens, targets), lambda model, seen: F.cross_entropy(model(seen[0]).view(-1, words), seen[1].view(-1)),
                       False, list(model.blocks))  # fmt: skip


SMALL = {
    "resnet50": lambda device: models.resnet50(device, tiny=True, batch=8, bf16=False),
    "densenet": lambda device: models.densenet(device, tiny=True, batch=8, bf16=False),
    "gpt2": lambda device: small_gpt2(),
}


class FirstBench(measure.Bench):
    """Keeps the time of every step, and what Spillway had done after the first and before the timed ones."""

    beside = None

    def __init__(self, task: dict[str, Any]) -> None:
        super().__init__(task)
        self.times: list[float] = []
        self.plain_first: float | None = None
        self.marks: int = 0
        self.seen: dict[int, dict[str, Any]] = {}
        self.fresh: dict[str, Any] = {}  # what was measured in processes of their own

    def work(self) -> models.Work:
        if self.row in streams.STEPS:
            stream = streams.STEPS[self.row](self.device, self.tiny)
            stream.only_largest = True  # sizes that change are another matter
            return stream
        return SMALL[self.row](self.device) if self.tiny and self.row in SMALL else super().work()

    def train(self, *words: Any, **more: Any) -> measure.Measured:
        if self.plain_first is None:
            self.measure_plain_first()
        self.marks, self.seen = 0, {}
        return super().train(*words, **more)

    def measure_plain_first(self) -> None:
        """Of models made anew; the process's very first loads the kernels and does not count. Backward runs on this thread, as it
        does inside a budget: cuDNN finds its algorithms once for every thread."""
        firsts = []
        with torch.autograd.set_multithreading_enabled(False):
            for _ in range(PLAIN_FIRSTS + 1):
                super().train(steps=(0, 1))
                firsts.append(self.times[0])
        self.plain_first = statistics.median(firsts[1:])

    def mark(self) -> Any:
        mark = super().mark()
        if spillway.is_enabled() and self.marks in (0, 1, self.warm):
            self.seen[self.marks] = spillway.stats()
        self.marks += 1
        return mark

    def milliseconds(self, marks: list[Any]) -> list[float]:
        self.times = super().milliseconds(marks)
        return self.times


# ---- as a run begins ----

def first_step_ms(task: dict[str, Any], budget: int | None) -> float:
    """Of a process that does nothing else; with everything done that it started."""
    bench = FirstBench(task)
    with measure.switched_on(bench, budget=budget, policy="hybrid", **bench.words()) if budget else contextlib.nullcontext():
        torch.manual_seed(0)
        work, settle = bench.work(), torch.cuda.synchronize if bench.on_card else lambda: None
        settle()
        begin = time.perf_counter()
        bench.step(work, contextlib.nullcontext)
        settle()
        return (time.perf_counter() - begin) * 1e3


def in_fresh_processes(task: dict[str, Any], budget: int | None) -> float:
    def measured() -> float:
        with multiprocessing.get_context("fork").Pool(1) as pool:
            return pool.apply(first_step_ms, (task, budget))

    return min(measured() for _ in range(FRESH))


def fresh_facts(task: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Nothing in this process has used the card yet. Empty where nothing is known of a budget."""
    ((method, share),) = task["cells"]
    if share is None:
        return {}
    budget = cells.budget_of(folder, task["row"], share)
    return {"fresh_first_ms": in_fresh_processes(task, budget), "fresh_plain_first_ms": in_fresh_processes(task, None)}


def between(before: dict[str, Any], after: dict[str, Any], steps: int = 1) -> dict[str, int]:
    gone = lambda name: (after[name] - before[name]) // steps  # noqa: E731
    return {"moved_bytes": sum(map(gone, MOVED)), "dropped_bytes": gone("dropped_bytes")}


def one_cell(bench: FirstBench, method: str, share: str | None, folder: Path, plain: measure.Measured) -> tuple[measure.Measured, dict[str, Any]]:
    if method == "watch":
        with measure.switched_on(bench):
            measured = bench.train()
            stats = spillway.stats()
        return measured, {"floor_bytes": stats["floor_bytes"], "plain_peak_bytes": stats["plain_peak_bytes"]}
    budget = cells.budget_of(folder, bench.row, share)
    measured, facts = measure.engine(bench, method, budget)
    first_ms = bench.times[0]
    steady = between(bench.seen[bench.warm], spillway.stats(), bench.timed)
    first = between(bench.seen[0], bench.seen[1])
    facts |= {f"first_{name}": value for name, value in first.items()} | {f"steady_{name}": value for name, value in steady.items()}
    with measure.switched_on(bench, budget=budget, policy=method, **bench.words()):
        bench.train(steps=(0, 1))
    return measured, facts | {"first_ms": first_ms, "again_ms": bench.times[0], "plain_first_ms": bench.plain_first} | bench.fresh


def main() -> None:
    task = json.loads(sys.argv[1])
    measure.be_deterministic(task["tiny"], warn_only=task["row"].startswith("retinanet"))
    fresh = fresh_facts(task, Path(task["folder"]))
    bench = FirstBench(task)
    bench.fresh = fresh
    measure.measure_rows(task, Path(task["folder"]), bench, one_cell)


if __name__ == "__main__":
    main()
