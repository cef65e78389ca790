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
