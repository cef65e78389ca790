"""The zoo inside a budget: not one bit differs from the plain run, not one byte is over, and something really moved.

Every program meets every budget and every policy of ours in the long run, and goes on by the plans of ours and of the papers';
in the short one each meets one of the nine pairs of a budget and a policy, in turn.
"""

import functools
from concurrent.futures import ThreadPoolExecutor

import pytest
from harness import DEVICE, imports_only_bytes, run, run_budgeted, run_oracle, run_plain, run_watched
from record import first_difference
from zoo import PROGRAMS

BUDGETS = {
    "60% of the peak": lambda stats: stats["peak_live_bytes"] * 60 // 100,
    "40% of the peak": lambda stats: stats["peak_live_bytes"] * 40 // 100,
    "1.1 x the floor": lambda stats: stats["floor_bytes"] * 11 // 10,
}
POLICIES = ("lru", "dtr", "hybrid")
PAPERS = ("superneurons", "tensile", "capuchin", "checkpoint", "mimose")
REACTIVE = ("lru", "dtr")
PLANNED_STEPS = "8"  # two are recorded; the next, or the one after it, goes by a plan
SLACK = 64 << 20  # beside the tensors: libraries' own buffers, the engine, pages the heap keeps


# Batches from workers lie in shared memory, which torch's profiler counts and no allocator gave out.
SHARES_MEMORY = ("loader",)
COMPILES = ("compiled",)  # a minute of compiling each time: for the long run alone


def sampled(name: str, keep: bool):
    return [] if keep and name not in COMPILES else [pytest.mark.long]


def meetings():
    for number, name in enumerate(PROGRAMS):
        for b, budget in enumerate(BUDGETS):
            for p, policy in enumerate(POLICIES):
                is_its_turn = (b, p) == (number % 3, number // 3 % 3)
                yield pytest.param(name, budget, policy, marks=sampled(name, is_its_turn), id=f"{name}-{budget}-{policy}")


def planned_meetings():
    """Every program with every policy that plans in the long run; in the short one each policy meets two or three programs."""
    policies = ("hybrid", *PAPERS)
    for number, name in enumerate(PROGRAMS):
        for p, policy in enumerate(policies):
            is_its_turn = number % 2 == 0 and p == number // 2 % len(policies)
            yield pytest.param(name, policy, marks=sampled(name, is_its_turn), id=f"{name}-{policy}")


def every(nth: int, offset: int = 0):
    """All programs, of which one in `nth` is not only for the long run."""
    return [pytest.param(n, marks=sampled(n, i % nth == offset)) for i, n in enumerate(PROGRAMS)]


def counted():
    """Every program with every budget in the long run, every eighth in the short; both policies in either."""
    for number, name in enumerate(PROGRAMS):
        for budget in BUDGETS:
            yield pytest.param(name, budget, REACTIVE[number // 8 % 2], marks=sampled(name, number % 8 == 3), id=f"{name}-{budget}")


def prepare(name: str) -> tuple[dict, dict]:
    """The plain and the watching run, at the same time: there are two cores at least."""
    with ThreadPoolExecutor(2) as pool:
        plain, watched = pool.submit(run_plain, name), pool.submit(run_watched, name)
        return plain.result(), watched.result()


@functools.cache
def run_longer(name: str) -> dict:
    return run(name, "--steps", PLANNED_STEPS)


def budget_for(budget: str, watched: dict) -> int:
    """In bytes. A budget nobody could meet would test nothing but the error, and is the program's fault."""
    amount = BUDGETS[budget](watched["stats"])
    floor, peak = watched["stats"]["floor_bytes"], watched["stats"]["peak_live_bytes"]
    if amount < floor:
        pytest.skip(f"{amount} bytes are below the floor of {floor}")
    assert amount < peak, f"{amount} bytes are no budget between the floor {floor} and the peak {peak}"
    return amount


def assert_kept(name: str, run: dict, budget: int) -> None:
    stats = run["stats"]
    assert first_difference(run_plain(name), run) is None
    assert stats["violations"] == 0
    assert stats["budget_bytes"] == budget
    assert stats["peak_bytes"] <= budget
    assert stats["moved_out_bytes"] + stats["recomputed_ops"] > 0


@pytest.mark.parametrize("name, budget, policy", list(meetings()))
def test_a_program_in_a_budget_keeps_it_and_every_bit(name, budget, policy):
    _, watched = prepare(name)
    amount = budget_for(budget, watched)

    run = run_budgeted(name, amount, policy=policy)

    assert_kept(name, run, amount)


@pytest.mark.parametrize("name, policy", list(planned_meetings()))
def test_a_program_that_goes_on_by_a_plan_keeps_its_budget_and_every_bit(name, policy):
    amount = budget_for("40% of the peak", prepare(name)[1])

    run_on = run_budgeted(name, amount, "--steps", PLANNED_STEPS, "--plans-at-once", policy=policy)

    assert first_difference(run_longer(name), run_on) is None
    lacks = run_on["stats"]["plan"]["over_bytes"] > 0  # not the whole of a step goes by it then
    assert run_on["stats"]["planned_steps"] > 0 or lacks
    assert run_on["stats"]["violations"] == 0
    assert run_on["stats"]["peak_bytes"] <= amount


@pytest.mark.skipif(DEVICE != "cpu", reason="the budget is the process's memory on the CPU alone")
@pytest.mark.parametrize("name, budget, policy", list(counted()))
def test_the_kernel_counts_no_more_than_the_budget_and_a_little(name, budget, policy):
    """The peak of resident memory of a fresh process, less that of one that only imports."""
    _, watched = prepare(name)
    amount = budget_for(budget, watched)

    run = run_budgeted(name, amount, policy=policy, fresh=True)

    assert_kept(name, run, amount)
    assert run["resident_bytes"] - imports_only_bytes(name) <= amount + SLACK


@pytest.mark.parametrize("name", every(1))
def test_watching_moves_nothing_and_changes_nothing(name):
    plain, watched = prepare(name)

    assert first_difference(plain, watched) is None
    stats = watched["stats"]
    assert stats["budget_bytes"] is None
    assert stats["moved_out_bytes"] == stats["moved_in_bytes"] == stats["recomputed_ops"] == 0
    assert 0 < stats["floor_bytes"] < stats["peak_live_bytes"] <= stats["peak_bytes"]


@pytest.mark.parametrize("name", every(12, 6))
def test_in_the_plain_peak_that_watching_tells_nothing_moves(name):
    plain, watched = prepare(name)

    run = run_budgeted(name, watched["stats"]["peak_bytes"])

    assert first_difference(plain, run) is None
    assert run["stats"]["moved_out_bytes"] == run["stats"]["dropped_bytes"] == run["stats"]["violations"] == 0


@pytest.mark.parametrize("name", every(7, 1))
def test_memory_that_left_may_be_overwritten(name):
    _, watched = prepare(name)
    amount = budget_for("40% of the peak", watched)

    run = run_budgeted(name, amount, policy="lru", poison=True)

    assert_kept(name, run, amount)


@pytest.mark.parametrize("name", every(7, 2))
def test_a_host_tier_beside_the_budget_changes_no_bit(name):
    _, watched = prepare(name)
    amount = budget_for("40% of the peak", watched)

    run = run_budgeted(name, amount, policy="lru", host_limit=watched["stats"]["peak_live_bytes"])

    assert_kept(name, run, amount)


@pytest.mark.parametrize("policy", REACTIVE)
def test_two_programs_in_two_threads_do_not_disturb_each_other(policy):
    name, other = "unet", "graph"
    plain = run(name, "--beside", other)
    peak = sum(prepare(each)[1]["stats"]["peak_live_bytes"] for each in (name, other))

    shared = run_budgeted(name, peak * 60 // 100, "--beside", other, policy=policy)

    assert first_difference(plain, shared) is None
    assert first_difference({"steps": plain["beside"]}, {"steps": shared["beside"]}) is None
    assert shared["stats"]["violations"] == 0
    assert shared["stats"]["peak_bytes"] <= peak * 60 // 100


@pytest.mark.skipif(DEVICE != "cpu", reason="the oracle reads the CPU allocator's events")
@pytest.mark.parametrize("name", every(5))
def test_the_floor_agrees_with_an_oracle_that_knows_no_engine(name):
    stats = run_watched(name, min_evict=1)["stats"]  # 1: nothing stays only because it is small

    assert stats["floor_bytes"] == pytest.approx(run_oracle(name)["floor_bytes"], rel=0.02)
    if name not in SHARES_MEMORY:
        assert stats["peak_live_bytes"] == pytest.approx(run_oracle(name)["peak_live_bytes"], rel=0.02)
