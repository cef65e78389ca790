"""The table at a run's end: `spillway.summary`."""

from spillway import summary

PLAN = {"step_seconds": 0.066, "plain_step_seconds": 0.060, "peak_bytes": 1 << 30}


def row(stats, name):
    found = [line.split(maxsplit=1)[1] for line in summary.table({"budget_bytes": 1 << 30, **stats}).splitlines() if line.split()[0] == name]
    return found[0] if found else None


def test_the_plan_is_told_beside_the_first():
    first = {**PLAN, "step_seconds": 0.072, "took_seconds": 0.04}
    told = row({"plan": PLAN, "first_plan": first}, "plan")
    assert told == "66.0 ms a step (+10.0 %), peak 1.00 GiB; the first, made in 40 ms: 72.0 ms a step (+20.0 %), peak 1.00 GiB"


def test_a_plan_that_does_not_fit_says_what_it_lacks():
    assert "lacks" not in row({"plan": PLAN, "budget_bytes": PLAN["peak_bytes"]}, "plan")
    told = row({"plan": PLAN, "budget_bytes": PLAN["peak_bytes"] - 3 * 2**20}, "plan")
    assert "(lacks 3.00 MiB: the budget is held by reaction, which takes longer)" in told


def test_a_run_without_a_plan_tells_none():
    assert row({"plan": None, "first_plan": None}, "plan") is None
    assert row({}, "plan") is None


def test_a_budget_that_was_larger_before_is_told():
    assert row({"largest_budget_bytes": 1 << 30}, "budget") == "1.00 GiB"
    assert row({"largest_budget_bytes": 3 << 30}, "budget") == "1.00 GiB (at the end; the largest was 3.00 GiB)"


def test_steps_that_change_size_are_counted():
    assert row({"varying_steps": 0, "foreseen_steps": 0, "fitting_steps": 0}, "sizes") is None
    told = row({"varying_steps": 60, "foreseen_steps": 56, "fitting_steps": 9}, "sizes")
    assert told == "change: of 60 steps 47 had a plan and 9 had room as they were"


def test_a_warm_start_and_a_cache_that_is_not_used_are_told():
    assert row({"cache": {"warm": False, "problem": None}}, "start") is None
    assert row({"cache": {"warm": True, "problem": None}}, "start") == "warm: a run before this one left what it recorded"
    assert row({"cache": {"warm": True, "first_step_planned_ops": 40, "problem": None}}, "start") == "warm: a run before this one left its plan"
    assert row({"cache": {"warm": False, "problem": "steps are damaged"}}, "cache") == "steps are damaged"
