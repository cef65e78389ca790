"""Small programs of every kind train in 1.1 times the floor that watching tells: no byte over, no bit different.

Budgets of a MiB are where memory in pieces, chains of rebuilds and what cannot leave show first. Each program is a fork of a
process that has torch loaded. A budget that suffices under one policy must suffice under every other.
"""

import functools
import json
import re

import pytest
from harness import run_program

from spillway.amounts import parse_bytes

POLICIES = ("lru", "dtr", "hybrid")
STEPS = 6  # the first two make the optimizer's state and are recorded, the others go by a plan where there is one
SEEDS = (1, 17, 20, 26, 47, 58)  # of a MiB or two; some of each kind
MANY = 60  # for the long run


def run(seed: int, options: dict | None) -> dict:
    return run_program("odd", str(seed), str(STEPS), *([] if options is None else [json.dumps(options)]))


@functools.cache
def plain(seed: int) -> dict:
    return run(seed, None)


@functools.cache
def watched(seed: int) -> dict:
    return run(seed, {"budget": None})


def left_behind(run: dict) -> dict:
    return {name: value for name, value in run.items() if name != "stats"}


def assert_trains(seed: int, budget: int, policy: str) -> None:
    done = run(seed, {"budget": budget, "policy": policy})
    assert left_behind(done) == left_behind(plain(seed))
    assert done["stats"]["violations"] == 0
    assert done["stats"]["peak_bytes"] <= budget


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", [*SEEDS, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(100, 100 + MANY))])
def test_a_small_program_trains_a_little_above_its_floor(seed, policy):
    assert left_behind(watched(seed)) == left_behind(plain(seed))

    assert_trains(seed, watched(seed)["stats"]["floor_bytes"] * 11 // 10, policy)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", [1, pytest.param(20, marks=pytest.mark.long), pytest.param(47, marks=pytest.mark.long)])
def test_the_budget_that_an_error_names_will_do(seed, policy):
    """Told when a whole step has been seen; before that nobody knows what is still to come."""
    stats = watched(seed)["stats"]

    error = run(seed, {"budget": stats["peak_bytes"], "policy": policy, "then": stats["floor_bytes"] * 9 // 10})["error"]

    assert error is not None, "nine tenths of the floor are too little"
    assert_trains(seed, parse_bytes(re.search(r"A budget of about (.*?) would do so far;", error).group(1)), policy)
