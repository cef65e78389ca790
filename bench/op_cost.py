"""What does Spillway add to one small operator when nothing has to move?

    python bench/op_cost.py [--rounds 15]

One-element operators on the CPU, so that almost all of the time is the dispatcher's and ours. Plain, watching and under a
budget with replay (dtr) are measured in turn, round by round; the least of each is shown.
"""

from __future__ import annotations

import argparse
import time

import torch

import spillway

CALLS = 20000


def measure(call) -> float:
    """Nanoseconds per call."""
    for _ in range(CALLS // 10):
        call()
    begin = time.perf_counter_ns()
    for _ in range(CALLS):
        call()
    return (time.perf_counter_ns() - begin) / CALLS


def calls() -> dict:
    one, wide = torch.ones(1), torch.ones(256)
    other, weight = torch.ones(256), torch.ones(16, 16)
    rows = torch.ones(16, 16)
    return {
        "x.mul_(1.0)": lambda: one.mul_(1.0),
        "x + y (1 KiB)": lambda: wide + other,
        "x.view(-1)": lambda: rows.view(-1),
        "mm 16 x 16": lambda: torch.mm(rows, weight),
    }


def round_of(enable) -> dict[str, float]:
    enable()
    try:
        with torch.no_grad():
            return {name: measure(call) for name, call in calls().items()}
    finally:
        if enable is not plain:
            spillway.disable()


def plain() -> None:
    pass


def watch() -> None:
    spillway.enable(None, device="cpu")


def budgeted() -> None:
    spillway.enable("1GiB", device="cpu", policy="dtr")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    best: dict[str, list[float]] = {}
    for _ in range(rounds):
        for at, enable in enumerate((plain, watch, budgeted)):
            for name, nanos in round_of(enable).items():
                row = best.setdefault(name, [float("inf")] * 3)
                row[at] = min(row[at], nanos)
    print(f"{'operator':16} {'plain ns':>9} {'watching':>9} {'budgeted':>9}")
    for name, (bare, seen, held) in best.items():
        print(f"{name:16} {bare:9.0f} {seen - bare:+9.0f} {held - bare:+9.0f}")


if __name__ == "__main__":
    main()
