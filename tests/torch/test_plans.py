"""Steps that repeat are planned: the plan is followed from op to op, the budget holds, and no bit differs."""

import functools
import json
import pathlib

import pytest
from harness import run_python

SCRIPT = pathlib.Path(__file__).with_name("planned.py")
STEPS = 24


def train(*words) -> dict:
    done = run_python(SCRIPT, *words)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@functools.cache
def plain_digest(model: str, steps: int) -> str:
    return train(model, steps)["digest"]


@functools.cache
def watched(model: str) -> dict:
    return train(model, 3, "watch", "dtr")["stats"]


def train_in(model: str, share: int, how: str) -> dict:
    """In a share of the plain peak, checked against the plain run; returns the statistics."""
    budget = watched(model)["peak_live_bytes"] * share // 100

    run = train(model, STEPS, budget, "hybrid", how)

    stats = run["stats"]
    assert run["digest"] == plain_digest(model, run["steps"])
    assert stats["violations"] == 0
    assert stats["peak_bytes"] <= budget
    return stats


@pytest.mark.parametrize("share", [70, 50])
@pytest.mark.parametrize("model", ["mlp", "convolutions", "attention", "wide"])
def test_planned_steps_keep_the_budget_and_every_bit(model, share):
    stats = train_in(model, share, "at_once")

    assert stats["policy"] == "hybrid"
    assert stats["planned_steps"] >= STEPS // 2
    assert stats["moved_out_bytes"] + stats["recomputed_ops"] > 0
    assert stats["plan"]["over_bytes"] == 0


# How soon the first is there, and whether it is faster than none, depends on the machine: the run goes on until it was followed.
@pytest.mark.parametrize("model", ["mlp", "wide"])
def test_plans_made_in_the_background_are_followed_at_last(model):
    stats = train_in(model, 50, "until_planned")

    assert stats["planned_steps"] > 0
    assert stats["first_plan"]["took_seconds"] > 0


def test_a_plan_for_a_budget_that_suffices_moves_nothing():
    stats = train("mlp", 8, watched("mlp")["peak_bytes"] * 2, "hybrid")["stats"]

    assert stats["moved_out_bytes"] == 0
    assert stats["recomputed_ops"] == 0


def test_statistics_begin_anew_with_every_enable(tmp_path):
    (tmp_path / "twice.py").write_text(
        "import torch, spillway\n"
        "spillway.enable('8MiB', device='cpu'); a = torch.ones(1 << 20); del a; spillway.disable()\n"
        "spillway.enable('2MiB', device='cpu', policy='hybrid'); b = torch.ones(1 << 10)\n"
        "stats = spillway.stats(); print(stats['peak_bytes'] <= stats['budget_bytes'], stats['policy'])\n"
    )
    done = run_python(tmp_path / "twice.py")
    assert done.stdout.split() == ["True", "hybrid"], done.stderr
