"""The zoo of tests/torch on a card: plain and watching, then in budgets; one line a program.

    zoo_run.py [--seconds 120] [--at-once 6] [NAME ...]

A budget is 60 % (dtr and lru in turn) and 40 % (hybrid, for long enough to go on by a plan) of the plain peak, or 1.1 x the floor
where that is more. Some programs have no two steps alike; that most went by a plan is demanded of the zoo as a whole. Programs not
begun in time are told as such. SPILLWAY_DEVICE=cpu SPILLWAY_SCALE=small tries it without a card.
"""

import argparse
import os
import re
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

os.environ.setdefault("SPILLWAY_DEVICE", "cuda")
os.environ.setdefault("SPILLWAY_SCALE", "large")
sys.path.insert(0, str(Path(__file__).parents[1] / "torch"))

from harness import run, run_budgeted, run_plain, run_watched  # noqa: E402
from record import first_difference  # noqa: E402
from zoo import PROGRAMS  # noqa: E402

MIB = 1 << 20
GRANULE = 2 * MIB
STEPS = 3  # as the runner has it
PLANNED = ("--steps", "8", "--plans-at-once")  # two are recorded, and the plan is there for the fourth
UNSTABLE = re.compile(r"(\S+) does not have a deterministic implementation")
planned_steps = {}


def judge(name, plain, policy, budget):
    flags = PLANNED if policy == "hybrid" else ()
    found = run_budgeted(name, budget, *flags, policy=policy)
    stats = found["stats"]
    steps = len(found["steps"])
    wrong = first_difference({"steps": plain["steps"][:steps]}, found) or ""
    wrong += f" {stats['violations']} violations" if stats["violations"] else ""
    wrong += f" peak {stats['peak_bytes']} over {budget}" if stats["peak_bytes"] > budget else ""
    moved = f"out {stats['moved_out_bytes'] / MIB:.0f} MiB, replayed {stats['recomputed_ops']}"
    if policy == "hybrid":
        planned_steps[name] = stats["planned_steps"]
        moved += f", planned {stats['planned_steps']} of {steps} steps"
    return not wrong, f"{policy} {budget / MIB:.0f} MiB ({moved}): {wrong or 'equal'}"


def meet(name, deadline):
    if time.time() > deadline:
        return name, None, "not begun"
    begin = time.time()
    try:
        plain, watched = run(name, *PLANNED), run_watched(name)
        first = {"steps": plain["steps"][:STEPS]}
        stats = watched["stats"]
        if wrong := first_difference(run_plain(name), first):
            return name, None, f"two plain runs differ: {wrong}"
        if wrong := first_difference(first, watched):
            return name, False, f"watching: {wrong}"
        peak, floor = stats["peak_live_bytes"], stats["floor_bytes"]
        budgets = [max(peak * share // 100, floor * 11 // 10) // GRANULE * GRANULE + GRANULE for share in (60, 40)]
        policies = ("dtr", "lru")[list(PROGRAMS).index(name) % 2], "hybrid"
        found = [judge(name, plain, policy, budget) for policy, budget in zip(policies, budgets)]
    except Exception as error:  # noqa: BLE001  a program that fails is a result
        if found := UNSTABLE.search(str(error)):
            return name, None, f"set aside: {found[1]} has no deterministic kernel on a card"
        return name, False, str(error)[-700:]
    said = "; ".join(text for _, text in found)
    return name, all(fine for fine, _ in found), f"peak {peak / MIB:.0f}, floor {floor / MIB:.0f}: {said} ({time.time() - begin:.0f} s)"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--at-once", type=int, default=6)
    parser.add_argument("names", nargs="*", default=list(PROGRAMS))
    options = parser.parse_args()
    deadline = time.time() + options.seconds
    bad = 0
    with ThreadPoolExecutor(options.at_once) as pool:
        for name, fine, said in pool.map(lambda name: meet(name, deadline), options.names or list(PROGRAMS)):
            bad += fine is False
            print({True: "ok  ", False: "FAIL", None: "--  "}[fine], name, said, flush=True)
    by_plan = sum(steps > 0 for steps in planned_steps.values())
    print(f"{by_plan} of {len(planned_steps)} programs went by a plan")
    return 1 if bad or by_plan * 2 < len(planned_steps) else 0


if __name__ == "__main__":
    sys.exit(main())
