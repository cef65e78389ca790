"""`hybrid` against the optimum of small steps (plan_oracle.py): within 5 % on average, never 15 % off, never over budget.

Distances are of whole step times to the programme's lower bound, so to an optimum that may be out of reach. The optimum itself is
judged by the timeline, too: where its choices take what it said, the bound is the truth.
"""

import json
import subprocess

import pytest
from small_steps import MIB, Step

from spillway import native

highspy = pytest.importorskip("highspy", reason="HiGHS is not installed: pip install highspy")
from plan_oracle import Link, Oracle  # noqa: E402

LINK_GB_S = 25
OUT_PRICE, IN_PRICE, LATENCY_US = 0.008, 0.033, 10
TRIES = 2000  # a run's planner tries as many in each of its rounds
NODES = 400
# The programme has all that leaves over the step's end begin with the next step, and copies what is never written once a step: the
# timeline knows better, so a plan may be that much below its optimum.
BETTER = 0.01


def tool(*words):
    done = subprocess.run([str(word) for word in (native.TOOL, *words)], capture_output=True, text=True)
    assert done.returncode in (0, 3), done.stderr
    return done.stdout


class Compared:
    """One step in one budget, planned and solved; times in microseconds."""

    def __init__(self, folder, seed, layers, share):
        step = Step(seed, layers)
        self.ids = step.write(folder / "step.jsonl")
        self.trace, self.card = folder / "step.spt", folder / "card.json"
        tool("import", folder / "step.jsonl", "-o", self.trace)
        self.card.write_text(json.dumps({"like": "h200", "name": "test", "out_gb_s": LINK_GB_S, "in_gb_s": LINK_GB_S, "copy_latency_us": LATENCY_US,
                                         "slower_beside_out": OUT_PRICE, "slower_beside_in": IN_PRICE}))  # fmt: skip
        self.name = f"seed {seed}, {len(step.ops)} ops"
        self.budget = (step.floor() + int((step.peak() - step.floor()) * share)) // 8 * 8 + 8
        self.first, self.hybrid = self.plan("--by-bytes"), self.plan("--tries", TRIES)
        self.step, self.folder = step, folder

    def solve(self):
        each = MIB / LINK_GB_S / 1e3
        oracle = Oracle(self.step, Link(each, each, each * OUT_PRICE, each * IN_PRICE, LATENCY_US), self.budget)
        self.bound = oracle.solve(NODES)
        (self.folder / "choices.json").write_text(json.dumps(oracle.choices(self.ids)))
        self.judged = self.plan("--choices", self.folder / "choices.json")
        return self

    def plan(self, *words):
        told = json.loads(tool("plan", self.trace, "--budget", self.budget * MIB, "--card", self.card, "--json", *words))["budgets"][0]
        return {"time": told["time_ns"] / 1e3, "over": told["shortfall_bytes"]}

    def off(self, plan):
        return plan["time"] / self.bound - 1


def compare(tmp_path, cases):
    found = [Compared(tmp_path, *case).solve() for case in cases]
    for one in found:
        print(f"{one.name}: first {one.off(one.first):+.1%}, hybrid {one.off(one.hybrid):+.1%}, the optimum's choices {one.off(one.judged):+.1%}")
    return found


def hold_to_the_bounds(found):
    for one in found:
        assert one.first["over"] == one.hybrid["over"] == 0, one.name
        assert -BETTER <= one.off(one.hybrid) < 0.15, one.name
        assert -BETTER <= one.off(one.judged) or one.judged["over"] > 0, one.name
    assert sum(one.off(one.hybrid) for one in found) / len(found) < 0.05
    real = [one for one in found if one.judged["over"] == 0 and one.off(one.judged) < 0.01]
    assert len(real) * 2 > len(found)  # mostly the optimum is one that can be carried out


HARD = 27  # its optimum takes longer to find than those of all the others together


def small(seeds):
    return [(seed, 5 + seed % 4, 0.4 + 0.1 * (seed % 5)) for seed in seeds]


def test_hybrid_is_near_the_optimum_of_small_steps(tmp_path):
    hold_to_the_bounds(compare(tmp_path, small(seed for seed in range(20, 32) if seed != HARD)))


@pytest.mark.long
def test_hybrid_is_near_the_optimum_of_a_small_step_that_is_hard_to_solve(tmp_path):
    hold_to_the_bounds(compare(tmp_path, small([HARD])))


@pytest.mark.long
def test_hybrid_is_near_the_optimum_of_many_steps_of_up_to_forty_ops(tmp_path):
    hold_to_the_bounds(compare(tmp_path, [(seed, 4 + seed % 10, 0.3 + 0.1 * (seed % 6)) for seed in range(100, 136)]))


def test_a_tenth_of_the_way_from_the_floor_to_the_peak_a_plan_is_found(tmp_path):
    plans = [Compared(tmp_path, seed, 4 + seed % 6, 0.1) for seed in range(60)]
    assert [one.name for one in plans if one.hybrid["over"] > 0] == []


def test_choices_that_are_not_the_steps_are_bad_input(tmp_path):
    one = Compared(tmp_path, 3, 4, 0.5)
    for wrong, told in (([{"storage": 10**6, "begin": 1, "end": 2, "remedy": "move", "fetch_at": 1}], "no such gap"), ([{}], "is expected"), (
        [{"storage": 0, "begin": 0, "end": 0, "remedy": "hide", "fetch_at": 0}], "choose keep, move or drop")):  # fmt: skip
        (tmp_path / "wrong.json").write_text(json.dumps(wrong))
        done = subprocess.run([native.TOOL, "plan", one.trace, "--budget", "1GiB", "--choices", tmp_path / "wrong.json"], capture_output=True, text=True)
        assert done.returncode == 2 and told in done.stderr
