"""`bench/limit`: its bound is below every plan and rises as the budget falls."""

import importlib.machinery
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from small_steps import MIB, Step

from spillway import native

pytest.importorskip("highspy", reason="HiGHS is not installed: pip install highspy")


@pytest.fixture(scope="module")
def limit(request):
    path = request.config.rootpath / "bench" / "limit"
    loader = importlib.machinery.SourceFileLoader("limit", str(path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("limit", loader))
    sys.modules["limit"] = module
    loader.exec_module(module)
    return module


def told(trace, budget):
    done = subprocess.run([native.TOOL, "plan", trace, "--budget", str(budget), "--tries", "500", "--json"], capture_output=True, text=True)
    return json.loads(done.stdout)


def test_no_plan_is_faster_and_less_memory_is_never_cheaper(limit, tmp_path):
    for seed in range(40):
        made = Step(seed, 4 + seed % 8)
        made.write(tmp_path / "step.jsonl")
        trace, step = limit.read(str(tmp_path / "step.jsonl"), tmp_path, {})
        assert max(step.memory()) == made.peak() * MIB
        before = 0.0
        for part in (8, 5, 2):
            budget = (made.floor() + (made.peak() - made.floor()) * part // 10) * MIB
            bound = limit.Limit(step, budget).solve()
            plan = told(trace, budget)
            assert bound is not None and bound >= before - 1e-6
            before = bound
            if plan["budgets"][0]["shortfall_bytes"] == 0:
                assert bound <= plan["budgets"][0]["time_ns"] / plan["plain_time_ns"] - 1 + 1e-6, (seed, part)


def test_a_recorded_step_is_bounded_above_nothing_and_below_its_plan(root, run):
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = run(root / "bench" / "limit", root / "traces" / "vgg16_b128.json.gz", "--shares", "66", "20", env=environment)
    rows = [line.split("|") for line in done.stdout.splitlines() if line.startswith("| ")][2:]
    bound, plan = (float(cell.strip(" %").replace("%", "")) for cell in rows[0][3:5])
    assert 1 < bound < plan
    assert "does not fit" in rows[1][3] and "lacks" in rows[1][4]


def test_dearer_copies_raise_the_bound(limit):
    idle = [(f"idle{at}", ["x"], 10_000_000, 0, [f"idle{at}", f"idle{at}.0"], 1) for at in range(4)]
    around = [(name, ["x"], 10_000_000, 0, [name], 0) for name in ("before", "after")]  # time for the ways out and back
    told = lines(("kept", ["x"], 1000, 0, [], 0), around[0], *idle, around[1], ("last", ["kept"], 100, 0, ["kept"], 0))
    next(line for line in told if line.get("name") == "kept")["replayable"] = False  # so it can only be moved
    step = limit.Step(told, {})
    budget = max(step.memory()) - 32 * MIB
    free, unless_told, dear = (limit.Limit(step, budget, *price).solve() * step.time / 1e6 for price in ([(0, 0)], [], [(0.5, 1.5)]))
    assert free == pytest.approx(0, abs=1e-6) and dear == pytest.approx(2 * 32 / 1024)
    assert free < unless_told < dear


def lines(*ops):
    """One step: x is there before, each op makes what it is named after; (name, reads, time, lean, sizes of what else it makes)."""
    events, ids, dead = [{"event": "step_begin", "step": 0}], {"x": 0}, {}
    for name, reads, takes, lean, dies, sides in ops:
        made = [name, *(f"{name}.{at}" for at in range(sides))]
        for one in made:
            ids[one] = len(ids)
            events.append({"event": "birth", "storage": ids[one], "size": 64 * MIB})
        events.append({"event": "op", "name": name, "duration": takes, "transient": 64 * MIB * len(made), "replayable": True, "lean": lean,
                       "inputs": [ids[one] for one in reads], "outputs": [ids[one] for one in made], "mutated": [], "aliased": []})  # fmt: skip
        events += [{"event": "death", "storage": ids[one]} for one in dies]
    return [{"event": "birth", "storage": 0, "size": 64 * MIB}, *events, {"event": "step_end", "step": 0}]


def test_lean_times_price_reruns_and_a_factor_goes_before_them(limit):
    told = lines(("norm", ["x"], 1000, 400, [], 1), ("last", ["norm"], 100, 0, [], 0))
    assert [op.rerun for op in limit.Step(told, {}).ops] == [400, 100]
    assert [op.rerun for op in limit.Step(told, {"norm": 0.9}).ops] == [900, 100]


def test_what_is_read_straight_through_its_dead_source_costs_one_pass(limit):
    told = lines(("norm", ["x"], 1000, 400, [], 1), ("cast", ["norm"], 200, 150, ["norm"], 0), ("idle", ["x"], 100, 0, [], 0), ("last", ["cast"], 100, 0, [], 0))
    step = limit.Step(told, {})
    gap = next(gap for gap in step.gaps() if gap.storage == 3 and gap.reruns)
    assert [writer for _, writer in gap.reruns] == [1]
    told[6]["lean"] = 0  # the cast's
    step = limit.Step(told, {})
    gap = next(gap for gap in step.gaps() if gap.storage == 3 and gap.reruns)
    assert [writer for _, writer in gap.reruns] == [1, 0]
