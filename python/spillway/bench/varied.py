"""One process that measures steps of changing size (streams.py), as measure.py does steady ones.

A method's time is the mean over the timed steps, whose sizes are the same for all. `checkpoint` is static: as few blocks as
let the largest batch pass within the budget, the earliest first, in every step.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from spillway.bench import cells, measure, streams  # measure first: it sets what must be there before torch

import spillway
import torch

SEEN = ("varying_steps", "foreseen_steps", "reused_plans")  # of the whole run, warm steps too
WARM_BESIDE = 3  # steps before the timed ones of a plain run after a cell
LEARNT = 10  # steps, after which planning must cost next to nothing


class VariedBench(measure.Bench):
    average = staticmethod(statistics.fmean)
    steps = 0
    skipped = 0  # steps of which the run at hand has only the sizes
    planning = 0.0  # seconds, of the first steps of the run at hand

    def __init__(self, task: dict[str, Any]) -> None:
        super().__init__(task)
        self.beside = (min(WARM_BESIDE, self.warm), self.timed)

    def train(self, *words: Any, steps: tuple[int, int] | None = None, **more: Any) -> measure.Measured:
        """A plain run after a cell has the same timed steps as all others."""
        self.skipped = self.warm - steps[0] if steps == self.beside else 0
        return super().train(*words, steps=steps, **more)

    def wait_for_plans(self) -> None:
        """Of sizes that change there is always one to plan for."""

    def work(self) -> streams.Stream:
        stream = streams.STEPS[self.row](self.device, self.tiny)
        stream.largest_at = self.warm + self.timed // 2
        stream.skip(self.skipped)
        self.steps = 0
        return stream

    def step(self, work: streams.Stream, around: Any) -> torch.Tensor:
        loss = super().step(work, around)
        self.steps += 1
        if self.steps == LEARNT and spillway.is_enabled():
            self.planning = spillway.stats()["planning_seconds"]
        return loss


# ---- static checkpointing ----

def checkpoint_first(count: int, only_largest: bool = False) -> Callable[[streams.Stream], None]:
    def prepare(stream: streams.Stream) -> None:
        stream.blocks = stream.blocks[:count]
        stream.checkpoint_blocks()
        stream.only_largest = only_largest

    return prepare


def largest_peak(bench: VariedBench, count: int) -> int:
    """Of two steps of the largest size, so that the optimizer's state is there."""
    prepare = checkpoint_first(count, only_largest=True)
    if bench.on_card:
        return bench.train(prepare, steps=(1, 1)).peak
    with measure.switched_on(bench, **bench.words()):  # all of a process leave storages of one size alone
        bench.train(prepare, steps=(1, 1))
        return spillway.stats()["plain_peak_bytes"]


def fewest_blocks(bench: VariedBench, budget: int) -> int:
    """All of them where even that is not enough: then the peak in the table says so."""
    low, high = 0, len(bench.work().blocks)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if largest_peak(bench, middle) <= budget else (middle + 1, high)
    return low


def static(bench: VariedBench, budget: int) -> tuple[measure.Measured, dict[str, Any]]:
    count = fewest_blocks(bench, budget)
    return bench.train(checkpoint_first(count)), {"static_budget_bytes": budget, "checkpointed_blocks": count, "largest_peak_bytes": largest_peak(bench, count)}


# ---- cells ----

def one_cell(bench: VariedBench, method: str, share: str | None, folder: Path, plain: measure.Measured) -> tuple[measure.Measured, dict[str, Any]]:
    if method == "plain":
        return plain, {}
    if method == "watch":
        with measure.switched_on(bench, **bench.words()):  # all of a process leave storages of one size alone
            measured = bench.train()
            stats = spillway.stats()
        return measured, {"floor_bytes": stats["floor_bytes"], "floor_op": stats["floor_op"]["name"], "plain_peak_bytes": stats["plain_peak_bytes"]}
    budget = cells.budget_of(folder, bench.row, share)
    if method == "checkpoint":
        return static(bench, budget)
    measured, facts = measure.engine(bench, method, budget)
    stats = spillway.stats()  # of the job that is over
    later = max(bench.warm + bench.timed - LEARNT, 1)
    planning = (stats["planning_seconds"] - bench.planning) * 1e3 / (measured.ms * later)
    return measured, facts | {name: stats[name] for name in SEEN} | {"planning_share": planning}


def main() -> None:
    task = json.loads(sys.argv[1])
    # A detector takes ops that have no deterministic form and are not known to differ; attention's is only taken when told strictly.
    measure.be_deterministic(task["tiny"], warn_only=task["row"].startswith("retinanet"))
    measure.measure_rows(task, Path(task["folder"]), VariedBench(task), one_cell)


if __name__ == "__main__":
    main()
