"""What cannot leave is in the floor, and an error says what it is: programs in which Python holds on to memory."""

import functools
import json
import re

import pytest
from harness import run_program
from holds import PROGRAMS

from spillway.amounts import parse_bytes

POLICIES = ("lru", "dtr", "hybrid")
STEPS = 5
REASONS = {
    "lent": "whose address left torch",
    "named": "whose storage objects Python holds",
    "exported": "whose address left torch",
    "addressed": "whose address left torch",
    "made": "whose storage objects Python holds",
}


def run(name: str, **options) -> dict:
    return run_program("holds", name, str(STEPS), json.dumps(options))


@functools.cache
def plain(name: str) -> str:
    return run_program("holds", name, str(STEPS))["digest"]


@functools.cache
def watched(name: str) -> dict:
    told = run(name, budget=None)
    assert told["digest"] == plain(name)
    return told["stats"]


def assert_trains(name: str, budget: int, **options) -> None:
    told = run(name, budget=budget, **options)
    assert told.get("error") is None
    assert told["digest"] == plain(name)
    assert told["stats"]["violations"] == 0 and told["stats"]["peak_bytes"] <= budget
    assert told["stats"]["moved_out_bytes"] + told["stats"]["recomputed_ops"] > 0


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_that_holds_on_to_memory_trains_a_little_above_its_floor(name, policy):
    host = {"host_limit": "64MiB"} if policy == "dtr" else {}

    assert_trains(name, watched(name)["floor_bytes"] * 11 // 10, policy=policy, **host)


@pytest.mark.parametrize("name", ["lent", "named", "exported", "addressed", "made"])
def test_the_floor_counts_what_python_holds(name):
    op = watched(name)["floor_op"]

    assert op["cannot_leave_bytes"] > watched(name)["floor_bytes"] // 4, op


def test_a_deep_copy_holds_one_tensor_at_a_time():
    """Each part of the network and of the optimizer's state is small beside all of them."""
    assert watched("best")["floor_bytes"] < watched("best")["peak_bytes"] // 4
    assert watched("best")["floor_op"]["cannot_leave_bytes"] < watched("best")["floor_bytes"] // 4


def turns():
    """Each program with every policy in the long run, with one in the short."""
    for number, name in enumerate((*REASONS, "unshown")):
        for turn, policy in enumerate(POLICIES):
            yield pytest.param(name, policy, marks=[] if turn == number % 3 else [pytest.mark.long])


@pytest.mark.parametrize("name, policy", list(turns()))
def test_too_small_a_budget_says_what_is_in_the_way_and_names_one_that_will_do(name, policy):
    """Told when two steps have been seen; before that nobody knows what is still to come."""
    stats = watched(name)

    error = run(name, budget=stats["peak_bytes"], policy=policy, then=stats["floor_bytes"] * 9 // 10).get("error")

    assert error is not None, "nine tenths of the floor are too little"
    assert REASONS.get(name, "") in error
    assert "nowhere to go" not in error and "the host limit" not in error and "the disk" not in error, error
    assert_trains(name, parse_bytes(re.search(r"A budget of about (.*?) would do so far;", error).group(1)), policy=policy)
