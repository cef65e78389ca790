"""One process that measures: the plain step, then the same step another way, cell by cell, each kept as soon as it is done.

Plain is measured here every time, because a ratio holds within one process only, and again after every cell, because a
host's speed changes: a cell is compared with the mean of the two. Times are medians between marks on the device's own
clock. "bits" compares every loss and parameter with the plain run of as many steps. A cell that fails is a result, too:
`failed` says why.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import hashlib
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # before torch: cuBLAS is deterministic only with a fixed workspace

import torch  # noqa: E402

import spillway  # noqa: E402
from spillway.bench import cells, models  # noqa: E402

SLOW_STEPS = (2, 2)  # save_on_cpu takes a second a step
STEPS_TO_SETTLE = 20
MOST_WAIT = 20.0  # seconds
BESIDE = (3, 8)  # warm and timed steps of the plain run after a cell


@dataclasses.dataclass
class Measured:
    ms: float
    digest: str
    peak: int | None  # of the timed steps, by torch's count; the CPU has none
    reserved: int | None


class Bench:
    """A model on a device, and how many steps come before the timed ones."""

    average = staticmethod(statistics.median)
    beside: tuple[int, int] | None = BESIDE  # None: the plain run before is all there is

    def __init__(self, task: dict[str, Any]) -> None:
        self.row, self.device, self.tiny = task["row"], task["device"], task["tiny"]
        self.warm, self.timed = task["warm"], task["timed"]
        self.on_card = self.device != "cpu"

    def mark(self) -> Any:
        if not self.on_card:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def milliseconds(self, marks: list[Any]) -> list[float]:
        if not self.on_card:
            return [(end - begin) * 1e3 for begin, end in zip(marks, marks[1:])]
        torch.cuda.synchronize()
        return [begin.elapsed_time(end) for begin, end in zip(marks, marks[1:])]

    def words(self) -> dict[str, str]:
        return {} if self.on_card else {"min_evict": "4KiB"}  # tiny models are made of tiny storages

    def forget(self) -> None:
        gc.collect()  # what the run before left in cycles
        if self.on_card:
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()

    def work(self) -> models.Work:
        return models.STEPS[self.row](self.device, self.tiny)

    def wait_for_plans(self) -> None:
        """Better scripts are found beside the first steps, and what is timed are the steps after them. No longer than a while."""
        end = time.monotonic() + MOST_WAIT
        while spillway.is_enabled() and spillway.stats()["seeks_plans"] and time.monotonic() < end:
            time.sleep(0.05)

    def train(self, prepare: Callable[[models.Work], Any] | None = None, around: Any = contextlib.nullcontext,
              steps: tuple[int, int] | None = None) -> Measured:  # fmt: skip
        """`prepare` changes the work before the first step, `around` is entered for every forward."""
        self.forget()
        torch.manual_seed(0)
        work = self.work()
        if prepare is not None:
            prepare(work)
        warm, timed = steps or (self.warm, self.timed)
        marks, losses = [], []
        for at in range(warm + timed):
            if 0 < at < warm and at % STEPS_TO_SETTLE == 0:
                self.wait_for_plans()
            if at == warm and self.on_card:
                torch.cuda.reset_peak_memory_stats()
            marks.append(self.mark())
            losses.append(self.step(work, around))
        marks.append(self.mark())
        times = self.milliseconds(marks)[warm:]
        peaks = (torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()) if self.on_card else (None, None)
        return Measured(self.average(times), digest([*losses, *work.forward.parameters()]), *peaks)

    def step(self, work: models.Work, around: Any) -> torch.Tensor:
        with around():
            loss = work.loss()
        loss.backward()
        work.optimizer.step()
        work.optimizer.zero_grad(set_to_none=True)
        return loss.detach()


def digest(tensors: list[torch.Tensor]) -> str:
    state = hashlib.sha256()
    for tensor in tensors:
        state.update(tensor.detach().cpu().reshape(-1).view(torch.uint8).numpy().tobytes())
    return state.hexdigest()


# ---- other ways to the same step ----

def save_on_cpu(bench: Bench) -> Any:
    return lambda: torch.autograd.graph.save_on_cpu(pin_memory=bench.on_card)


def compiled(budget: str) -> Callable[[models.Work], None]:
    def prepare(work: models.Work) -> None:
        import torch._functorch.config

        torch._dynamo.reset()
        torch._functorch.config.activation_memory_budget = float(budget)
        work.forward = torch.compile(work.forward)

    return prepare


def peer(bench: Bench, method: str) -> Measured:
    if method == "checkpoint":
        return bench.train(models.Work.checkpoint_blocks)
    if method == "save_on_cpu":
        return bench.train(around=save_on_cpu(bench), steps=SLOW_STEPS)
    return bench.train(compiled(method.removeprefix("compile-")))


@contextlib.contextmanager
def switched_on(bench: Bench, **words: Any) -> Iterator[None]:
    if bench.on_card:
        words.setdefault("host_limit", "64GiB")
    spillway.enable(device=bench.device, cache=False, **words)  # no cell begins where another ended
    try:
        yield
    finally:
        gc.collect()
        spillway.disable()


def watched(bench: Bench, folder: Path) -> tuple[Measured, dict[str, Any]]:
    """The step with Spillway looking on: its floor, and a trace for planners and bounds. Three steps: a trace grows."""
    with switched_on(bench, trace=folder / f"{bench.row}.spt"):
        bench.train(steps=(2, 1))
        stats = spillway.stats()
    with switched_on(bench):
        measured = bench.train()
    return measured, {"floor_bytes": stats["floor_bytes"], "floor_op": stats["floor_op"]["name"], "plain_peak_bytes": stats["plain_peak_bytes"]}


def engine(bench: Bench, policy: str, budget: int) -> tuple[Measured, dict[str, Any]]:
    others = torch.cuda.memory_allocated() if bench.on_card else 0  # left by the runs before: torch counts it, no plan does
    with switched_on(bench, budget=budget, policy=policy, **bench.words()):
        measured = bench.train()
        stats = spillway.stats()
    return measured, {"budget_bytes": budget, "others_bytes": others, **engine_facts(stats, bench.warm + bench.timed)}


def engine_facts(stats: dict[str, Any], steps: int) -> dict[str, Any]:
    names = ("peak_bytes", "peak_live_bytes", "violations", "planned_steps", "plan_surprises", "remaps", "placed_steps", "misplaced_blocks")
    facts = {f"engine_{name}" if "peak" in name else name: stats[name] for name in names}
    facts |= {f"{name}_a_step": round(stats[name] / steps) for name in ("moved_out_bytes", "dropped_bytes", "recomputed_ops", "lean_rebuilds")}
    facts["stall_seconds"] = stats["stall_seconds"]
    if plan := stats.get("plan"):
        facts["plan"] = plan
    return facts


# ---- how far one gets in a fixed amount ----

def attempt(bench: Bench, make: Callable[[], models.Work]) -> dict[str, Any]:
    """Three steps, the last of them timed; what stopped them, if anything did."""
    try:
        bench.forget()
        torch.manual_seed(0)
        work, losses, marks = make(), [], []
        for _ in range(3):
            marks = [bench.mark()]
            losses.append(bench.step(work, contextlib.nullcontext))
        times = bench.milliseconds([*marks, bench.mark()])
        return {"failed": None, "ms": times[0], "digest": digest([*losses, *work.forward.parameters()])}
    except RuntimeError as error:  # out of memory, too
        return {"failed": f"{type(error).__name__}: {str(error)[:900]}"}


def attempt_within(bench: Bench, method: str, budget: int, make: Callable[[], models.Work]) -> dict[str, Any]:
    """Within a budget, by torch's own cap or by ours; with what is needed at least: plain's peak, our floor."""
    if method == "plain":
        torch.cuda.set_per_process_memory_fraction(budget / torch.cuda.get_device_properties(0).total_memory)
        return attempt(bench, make) | {"needs_bytes": torch.cuda.max_memory_allocated()}
    words = {"policy": "hybrid", "workspace": "adaptive"} if method == "adaptive" else {"policy": method}
    with switched_on(bench, budget=budget, **words, **bench.words()):
        facts = attempt(bench, make)
        stats = spillway.stats()
    return facts | {"needs_bytes": stats["floor_bytes"], "floor_op": stats["floor_op"]} | engine_facts(stats, 3)


def farthest(cell: cells.Cell, bench: Bench, make: Callable[[int], models.Work], task: dict[str, Any]) -> None:
    """The largest size that trains. Kept after every try; at last the bits are compared with a plain run without any cap."""
    kept = cell.read() or {"trials": {}}
    trials, budget = {int(size): trial for size, trial in kept["trials"].items()}, task["budget"]
    while (size := cells.next_size(trials, task["start"], task["end"], budget)) is not None:
        trials[size] = attempt_within(bench, cell.method, budget, lambda size=size: make(size))
        cell.write({"budget_bytes": budget, "unfinished": True, "trials": trials})
        print(f"{cell.row} {cell.method} {size}: {trials[size]['failed'] or 'trains'}, needs {trials[size]['needs_bytes'] / cells.GIB:.2f} GiB", flush=True)
        if spillway.is_enabled():  # it could not let go of what failed: a fresh process goes on
            return
    most, allowed = cells.largest_that_fits(trials), cells.allows(trials, budget)
    facts: dict[str, Any] = {"budget_bytes": budget, "most": most, "trials": trials}
    facts["allows"] = allowed if allowed is not None and allowed <= task["end"] else None  # where needs do not grow they tell nothing
    if most is not None and cell.method in spillway.bench.POLICIES:
        plain = attempt(bench, lambda: make(most))
        facts["plain_ms"], facts["bits"] = plain.get("ms"), plain["failed"] or plain["digest"] == trials[most]["digest"]
    cell.write(facts)


# ---- one process's share ----

def measure_rows(task: dict[str, Any], folder: Path, bench: Bench, one_cell: Callable[..., tuple[Measured, dict[str, Any]]]) -> None:
    plain, before = None, 0.0
    for method, share in task["cells"]:
        cell = cells.Cell(folder, task["row"], method, share)
        try:
            # Near the floor ours comes first: what plain runs leave on a card counts against the budget.
            first = one_cell(bench, method, share, folder, plain) if plain is None and share == cells.FLOOR else None
            if plain is None:
                plain = bench.train()
                before = plain.ms
                keep_plain(folder, task, plain)
            measured, facts = first or one_cell(bench, method, share, folder, plain)
            after = bench.train(steps=bench.beside).ms if bench.beside and share and not spillway.is_enabled() else before
            cell.write(described(measured, dataclasses.replace(plain, ms=(before + after) / 2)) | {"plain_before_and_after": [before, after]} | facts)
            before = after
        except (ValueError, RuntimeError) as error:
            cell.write({"failed": f"{type(error).__name__}: {str(error)[:600]}"})
        print(f"{task['row']} {method} {share or ''}: {cell.in_a_line()}", flush=True)
        if spillway.is_enabled():  # it could not let go of what failed: a fresh process takes the rest
            return


def one_cell(bench: Bench, method: str, share: str | None, folder: Path, plain: Measured | None) -> tuple[Measured, dict[str, Any]]:
    if method == "plain":
        return plain, {}
    if method == "watch":
        return watched(bench, folder)
    if share is None:
        return peer(bench, method), {}
    return engine(bench, method, cells.budget_of(folder, bench.row, share))


def described(measured: Measured, plain: Measured) -> dict[str, Any]:
    return {"ms": measured.ms, "plain_ms": plain.ms, "over_plain": measured.ms / plain.ms - 1,
            "bits": measured.digest == plain.digest, "peak_bytes": measured.peak, "reserved_bytes": measured.reserved}  # fmt: skip


def keep_plain(folder: Path, task: dict[str, Any], plain: Measured) -> None:
    cell = cells.Cell(folder, task["row"], "plain", None)
    if cell.read() is None:
        cell.write(described(plain, plain))


def measure_farthest(task: dict[str, Any], folder: Path) -> None:
    bench, (kind, name) = Bench(task), task["row"].split("-")
    if kind == "deepest":
        make = lambda depth: models.deep_resnet(bench.device, bench.tiny, depth)  # noqa: E731
    else:
        make = lambda batch: models.fp32_batch(name, bench.device, bench.tiny, batch)  # noqa: E731
    for method, _ in task["cells"]:
        cell = cells.Cell(folder, task["row"], method, None)
        if method == "plain" and not bench.on_card:
            cell.write({"failed": "a CPU's memory has no cap for a plain run"})
        else:
            farthest(cell, bench, make, task)
        print(f"{task['row']} {method}: {cell.in_a_line()}", flush=True)


def be_deterministic(tiny: bool, warn_only: bool = False) -> None:
    if tiny:
        torch.set_num_threads(1)  # two threads that wait for each other crawl where others compute
    torch.use_deterministic_algorithms(True, warn_only=warn_only)
    torch.utils.deterministic.fill_uninitialized_memory = False


def main() -> None:
    task = json.loads(sys.argv[1])
    be_deterministic(task["tiny"])
    if "start" in task:
        measure_farthest(task, Path(task["folder"]))
    else:
        measure_rows(task, Path(task["folder"]), Bench(task), one_cell)


if __name__ == "__main__":
    main()
