"""A plan is advice: a step that leaves it half-way is held by reaction alone, harms nothing, and the next goes by the plan again."""

import functools
import json
import pathlib

import pytest
from astray import ODD
from harness import run_python

SCRIPT = pathlib.Path(__file__).with_name("astray.py")


def train(*words) -> dict:
    done = run_python(SCRIPT, *words)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@functools.cache
def plain_peak() -> int:
    return train("as always", "watch")["stats"][ODD]["peak_live_bytes"]


@pytest.mark.parametrize("case", ["extra op", "op missing", "another op", "raises"])
def test_a_step_that_leaves_the_plan_harms_nothing(case):
    budget = plain_peak() * 60 // 100

    run = train(case, budget)

    assert run["digest"] == train(case)["digest"]
    stats = run["stats"]
    assert stats[-1]["violations"] == 0
    assert stats[-1]["peak_bytes"] <= budget
    assert stats[-1]["moved_out_bytes"] + stats[-1]["recomputed_ops"] > 0
    planned = [after["planned_steps"] for after in stats]
    gained = [after - before for before, after in zip(planned, planned[1:])]
    # A step given up has no end: its ops and the next step's are one that left the plan.
    assert gained[ODD - 3 :] == [1, 1, 0, *[1] * (len(stats) - ODD - 1)], planned
