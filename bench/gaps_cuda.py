"""Where a planned step's time goes on a card: kernels, idle stretches of the compute stream, copies, calls the host waits in.

    gaps_cuda.py resnet50 --share 60 [--policy hybrid] [--trace out.json]
    gaps_cuda.py resnet50 --share 27 --each 40        how a run settles: every step's time beside what its plan says
    gaps_cuda.py t5-qqp --share 45 --each 60          the same for steps of changing size, each beside the plain step of its size
"""

import argparse
import collections
import gc
import json
import os
import statistics
import tempfile

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch  # noqa: E402

import spillway  # noqa: E402
from spillway.bench import models, streams  # noqa: E402


def rows_of(path):
    with open(path, encoding="utf-8") as file:
        events = [event for event in json.load(file)["traceEvents"] if event.get("ph") == "X"]
    return [{"name": e["name"], "cat": e.get("cat", ""), "begin": e["ts"], "end": e["ts"] + e.get("dur", 0),
             "stream": e.get("args", {}).get("stream"), "bytes": e.get("args", {}).get("bytes", 0)} for e in events]


def union(rows):
    """Microseconds in which at least one of them runs, and the idle stretches between."""
    busy, gaps, until = 0.0, [], None
    for row in sorted(rows, key=lambda row: row["begin"]):
        if until is not None and row["begin"] > until:
            gaps.append((row["begin"] - until, row["name"], row["begin"]))
        begin = row["begin"] if until is None else max(row["begin"], until)
        busy += max(row["end"] - begin, 0)
        until = row["end"] if until is None else max(until, row["end"])
    return busy, gaps


def describe(rows, steps):
    kernels = [row for row in rows if row["cat"] == "kernel"]
    copies = [row for row in rows if row["cat"] == "gpu_memcpy"]
    by_stream = collections.Counter()
    for row in kernels:
        by_stream[row["stream"]] += row["end"] - row["begin"]
    compute = by_stream.most_common(1)[0][0]
    on_compute = [row for row in kernels + copies if row["stream"] == compute]
    busy, gaps = union(on_compute)
    span = max(r["end"] for r in on_compute) - min(r["begin"] for r in on_compute)
    print(f"a step: {span / steps / 1e3:.2f} ms, compute stream busy {busy / steps / 1e3:.2f} ms, idle {(span - busy) / steps / 1e3:.2f} ms")
    for low, high in ((0, 5), (5, 20), (20, 100), (100, 1000), (1000, 1e9)):
        some = [gap for gap, *_ in gaps if low <= gap < high]
        print(f"  idle stretches of {low} to {high:g} us: {len(some) / steps:.1f} a step, {sum(some) / steps / 1e3:.2f} ms")
    origin = min(row["begin"] for row in on_compute)
    away = [row for row in copies if row["stream"] != compute]
    for gap, name, end in sorted(gaps, reverse=True)[:8]:
        print(f"    {gap / 1e3:8.2f} ms until {(end - origin) / 1e3:.2f}, before {name[:70]}")
        around = [row for row in away if row["end"] > end - gap - 3000 and row["begin"] < end + 1000]
        for row in sorted(around, key=lambda row: row["begin"])[-12:]:
            print(f"               {row['name'][7:11]} {(row['begin'] - origin) / 1e3:8.2f} to {(row['end'] - origin) / 1e3:8.2f}, {row['bytes'] / 2**20:.0f} MiB")
    kinds = collections.Counter()
    for row in copies:
        kinds[row["name"], row["stream"]] += (row["end"] - row["begin"]) / steps / 1e3
    for (name, stream), ms in kinds.most_common(6):
        print(f"  {name} on stream {stream}: {ms:.2f} ms a step")
    calls = collections.Counter()
    counts = collections.Counter()
    for row in rows:
        if row["cat"] in ("cuda_runtime", "cuda_driver"):
            calls[row["name"]] += (row["end"] - row["begin"]) / steps / 1e3
            counts[row["name"]] += 1
    for name, ms in calls.most_common(10):
        print(f"  host in {name}: {ms:.2f} ms a step, {counts[name] / steps:.1f} calls")


def step_of(name, largest_at=-1):
    torch.manual_seed(0)
    work = {**models.STEPS, **streams.STEPS}[name]("cuda", tiny=False)
    work.largest_at = largest_at

    def step():
        work.loss().backward()
        work.optimizer.step()
        work.optimizer.zero_grad(set_to_none=True)

    return step


COUNTS = ("planned_steps", "foreseen_steps", "fitting_steps", "plan_surprises", "misplaced_blocks", "remaps", "recomputed_ops")


def timed(step, steps, after=lambda: None):
    """Milliseconds of each step; between marks on the card's clock, so nothing waits for them."""
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(steps + 1)]
    marks[0].record()
    for mark in marks[1:]:
        step()
        mark.record()
        after()
    torch.cuda.synchronize()
    return [begin.elapsed_time(end) for begin, end in zip(marks, marks[1:])]


def tell_each(step, steps, plain):
    """One line a step; `plain`: the same steps without a budget, or none."""
    seen = [spillway.stats()]
    times = timed(step, steps, lambda: seen.append(spillway.stats()))
    print("step        ms    plain planned by of plain", *COUNTS, "stalls ms  moved dropped MiB")
    for at, (before, after) in enumerate(zip(seen, seen[1:])):
        counts = [after[key] - before[key] for key in COUNTS]
        stalls = {key: round((after["stall_seconds"][key] - before["stall_seconds"][key]) * 1e3, 1) for key in after["stall_seconds"]}
        plan, whole = ((after.get("plan") or {}).get(key, 0) * 1e3 for key in ("step_seconds", "plain_step_seconds"))
        moved, dropped = ((after[key] - before[key]) >> 20 for key in ("moved_out_bytes", "dropped_bytes"))
        alone = f"{plain[at]:8.1f}" if plain else "       -"
        print(f"{at:4} {times[at]:9.1f} {alone} {plan:10.1f} {whole:8.1f}", *counts, stalls, moved, dropped)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=[*models.STEPS, *streams.STEPS])
    parser.add_argument("--share", type=int, default=60)
    parser.add_argument("--policy", default="hybrid")
    parser.add_argument("--warm", type=int, default=40)
    parser.add_argument("--trace")
    parser.add_argument("--each", type=int, metavar="STEPS")
    options = parser.parse_args()
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    varies = options.model in streams.STEPS
    if varies and not options.each:
        parser.error("steps of changing size are told one by one: --each STEPS")
    largest_at = options.each * 2 // 3 if varies else -1
    step = step_of(options.model, largest_at)
    plain = timed(step, options.each if varies else 8)
    print(f"plain {statistics.fmean(plain) if varies else statistics.median(plain[3:]):.1f} ms")
    del step
    gc.collect()
    peak = torch.cuda.max_memory_allocated()
    torch.cuda.empty_cache()
    spillway.enable(budget=peak * options.share // 100, device="cuda", policy=options.policy, host_limit="64GiB", cache=False)
    step = step_of(options.model, largest_at)
    if options.each:
        tell_each(step, options.each, plain if varies else None)
        return
    for _ in range(options.warm):
        step()
    torch.cuda.synchronize()
    steps = 4
    before = spillway.stats()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(steps):
            step()
        torch.cuda.synchronize()
    after = spillway.stats()
    print(f"{options.model} {options.share} % {options.policy};",
          {key: after[key] - before[key] for key in ("planned_steps", "plan_surprises", "placed_steps", "misplaced_blocks", "remaps")},
          "planned by", (after.get("plan") or {}).get("step_seconds"))
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        path = options.trace or file.name
        profile.export_chrome_trace(path)
        describe(rows_of(path), steps)


if __name__ == "__main__":
    main()
