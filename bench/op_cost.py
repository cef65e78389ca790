"""What does Spillway add to one small operator when nothing has to move?

    python bench/op_cost.py [--rounds 15]            one-element operators, each by itself
    python bench/op_cost.py --step [--rounds 5]      a whole training step of a deep, narrow transformer, forward to optimizer
    python bench/op_cost.py ... --device cuda        on a card: what the host spends, which the card is not waited for

Operators of a few elements on one thread, so that almost all of the time is the dispatcher's and ours. Plain, watching and under a
budget that suffices are measured in turn, round by round, and in a step also a plan for nine tenths of the peak, where little
moves; the least of each is shown. Time is the thread's own, so that neighbours on the machine do not count.
"""

from __future__ import annotations

import argparse
import os
import time

os.environ["SPILLWAY_CACHE_DIR"] = "/dev/null/steps"  # no run begins where another ended

import torch  # noqa: E402

import spillway  # noqa: E402

CALLS = 20000
STEPS = 30
AMPLE = "1GiB"


def measure(call) -> float:
    """Nanoseconds per call."""
    for _ in range(CALLS // 10):
        call()
    begin = time.thread_time_ns()
    for _ in range(CALLS):
        call()
    return (time.thread_time_ns() - begin) / CALLS


def calls(device) -> dict:
    one, wide = torch.ones(1, device=device), torch.ones(256, device=device)
    other, weight = torch.ones(256, device=device), torch.ones(16, 16, device=device)
    rows = torch.ones(16, 16, device=device)
    return {
        "x.mul_(1.0)": lambda: one.mul_(1.0),
        "x + y (1 KiB)": lambda: wide + other,
        "x.view(-1)": lambda: rows.view(-1),
        "mm 16 x 16": lambda: torch.mm(rows, weight),
    }


def measure_calls(device, watched: bool) -> dict[str, float]:
    if watched:
        for _ in range(5):
            spillway.step()  # only steps that have ended can tell that they repeat and nobody has to leave
    with torch.no_grad():
        return {name: measure(call) for name, call in calls(device).items()}


def make_step(device):
    torch.manual_seed(0)
    layers = [torch.nn.TransformerEncoderLayer(64, 4, 256, dropout=0.1, batch_first=True) for _ in range(24)]
    model = torch.nn.Sequential(*layers).to(device)
    batch = torch.randn(4, 64, 64, device=device)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)

    def step() -> None:
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()

    return step


def measure_step(device, settle) -> dict[str, float]:
    """The tenth part of the steps that is fastest, in nanoseconds."""
    step, times = make_step(device), []
    for _ in range(settle):
        step()
    for _ in range(STEPS):
        begin = time.thread_time_ns()
        step()
        times.append(time.thread_time_ns() - begin)
    return {"step": sorted(times)[len(times) // 10]}


def within(budget, policy, device, measured) -> tuple[dict[str, float], dict]:
    spillway.enable(budget, device=device, policy=policy, host_limit="256MiB")
    try:
        found = measured()
        return found, spillway.stats()
    finally:
        spillway.disable()


def round_of(device, whole_step: bool) -> tuple[dict[str, dict[str, float]], dict]:
    def measured(settle=10, watched=True):
        return measure_step(device, settle) if whole_step else measure_calls(device, watched)

    found = {"plain": measured(watched=False)}
    found["watching"], watched = within(None, "hybrid", device, measured)
    found["budgeted"], _ = within(AMPLE, "hybrid", device, measured)
    if whole_step:
        budget = watched["peak_live_bytes"] * 9 // 10
        found["planned"], planned = within(budget, "hybrid", device, lambda: measured(settle=60))
        watched["planned_steps"] = planned["planned_steps"]
    return found, watched


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--step", action="store_true")
    parser.add_argument("--device", default="cpu")
    words = parser.parse_args()
    torch.set_num_threads(1)
    best: dict[str, dict[str, float]] = {}
    for _ in range(words.rounds):
        found, watched = round_of(words.device, words.step)
        for how, times in found.items():
            row = best.setdefault(how, dict(times))
            for name, nanos in times.items():
                row[name] = min(row[name], nanos)
    plain = best.pop("plain")
    if words.step:
        ops = watched["ops"] / (STEPS + 10)
        print(f"plain {plain['step'] / 1e6:.2f} ms a step of {ops:.0f} operators beside views; {watched['planned_steps']} planned steps")
        for how, times in best.items():
            print(f"{how:9} {times['step'] / 1e6:6.2f} ms, {(times['step'] - plain['step']) / ops:+6.0f} ns an operator")
        return
    print(f"{'operator':16} {'plain ns':>9}" + "".join(f"{how:>10}" for how in best))
    for name, bare in plain.items():
        print(f"{name:16} {bare:9.0f}" + "".join(f"{times[name] - bare:+10.0f}" for times in best.values()))


if __name__ == "__main__":
    main()
