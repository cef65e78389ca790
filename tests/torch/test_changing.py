"""A budget that changes while a model trains holds from there on, within the step, both ways; and no bit differs."""

import json
import pathlib

import pytest
from harness import run_python

SCRIPT = pathlib.Path(__file__).with_name("changing.py")


def train(*words) -> dict:
    done = run_python(SCRIPT, *words)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def check(run):
    assert run["same_bits"]
    assert run["stats"]["violations"] == 0
    for phase in run["seen"]:
        assert phase["most_reserved"] <= phase["budget"], phase


@pytest.mark.parametrize(("model", "policy"), [("mlp", "hybrid"), pytest.param("attention", "dtr", marks=pytest.mark.long)])
def test_a_budget_that_shrinks_and_grows_holds_at_once_and_changes_no_bit(model, policy):
    run = train(model, policy, 16, 60, 80, 200)

    check(run)
    ample, less, more, ample_again = run["seen"]
    assert ample["left_until"][-1] == 0
    assert less["left_until"][0] > 0  # in the very step in which it was told
    assert more["left_until"][-1] - less["left_until"][-1] < less["left_until"][-1]
    assert ample_again["left_until"][-1] == ample_again["left_until"][1]  # nothing leaves where everything fits
    assert run["stats"]["dropped_bytes"] > 0  # what was spared while all fitted is kept again
    assert policy == "dtr" or less["planned_before"] < more["planned_before"] < ample_again["planned_before"]


@pytest.mark.long
@pytest.mark.parametrize("model", ["bert", "detector"])
def test_a_budget_may_change_while_sizes_do(model):
    check(train(model, "hybrid", 12, 90, 85, 200, 88))
