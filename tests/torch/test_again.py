"""A run recorded on the CPU, played again by the simulator: every eviction, return and recomputation is the same."""

import json
import subprocess

import pytest
from harness import run_program

from spillway import native

BUDGETS = {"mlp": 10 << 20, "convnet": 6 << 20}  # 12.6 and 7 MiB are what they take without one
VARIED = {"varied": 10 << 20}
SEEDS = (1, 17, 58)  # of odd.py: optimizers of several kinds, views, and ops that run once more in an empty house


def again(trace, *arguments, code=0):
    done = subprocess.run([native.TOOL, "simulate", str(trace), "--again", "--json", *arguments], capture_output=True, text=True)
    assert done.returncode == code, (done.stdout, done.stderr)
    return json.loads(done.stdout) if code in (0, 4) else done.stderr


def record(tmp_path, model, policy, **options):
    trace = tmp_path / "run.spt"
    stats = run_program("again", model, json.dumps({"budget": (BUDGETS | VARIED).get(model), "policy": policy, "trace": str(trace)} | options))
    return trace, stats


def lines_of(trace):
    return subprocess.run([native.TOOL, "export", str(trace)], capture_output=True, text=True, check=True).stdout.splitlines()


def actions(trace):
    return [event for event in map(json.loads, lines_of(trace)[1:]) if event["event"] in ("move", "recompute")]


def edit(trace, at, **fields):
    """Another trace, with one line changed."""
    lines = lines_of(trace)
    lines[at] = json.dumps(json.loads(lines[at]) | fields)
    (trace.parent / "edited.jsonl").write_text("\n".join(lines) + "\n")
    subprocess.run([native.TOOL, "import", str(trace.parent / "edited.jsonl"), "-o", str(trace.parent / "edited.spt")], check=True)
    return trace.parent / "edited.spt"


@pytest.mark.parametrize("policy", ["lru", "dtr"])
@pytest.mark.parametrize("model", BUDGETS)
def test_a_recorded_run_goes_the_same_way_again(tmp_path, model, policy):
    trace, stats = record(tmp_path, model, policy)
    told = again(trace)
    assert told["same"] and told["whole"] and told["difference"] is None
    assert told["steps"] == 6
    assert told["same_actions"] == told["actions"] == told["played_actions"] == len(actions(trace)) > 15
    assert stats["moved_out_bytes"] > 0


@pytest.mark.parametrize("policy", ["lru", "dtr"])
def test_another_budget_is_a_difference(tmp_path, policy):
    trace, _ = record(tmp_path, "mlp", policy)
    told = again(trace, "--budget", str(BUDGETS["mlp"] * 9 // 10), code=4)
    assert not told["same"] and (told["difference"] or told["problem"])


def test_an_edited_action_is_the_first_difference(tmp_path):
    trace, _ = record(tmp_path, "convnet", "dtr")
    lines = lines_of(trace)
    at = [at for at, line in enumerate(lines) if '"event":"move"' in line][3]
    event = json.loads(lines[at])
    told = again(edit(trace, at, trigger=event["trigger"] + 1), code=4)
    assert told["difference"]["recorded"]["op"] == event["trigger"] + 1
    assert told["difference"]["played"]["op"] == event["trigger"]
    assert told["difference"]["played"]["storage"] == event["storage"]


def test_a_budget_that_changes_in_the_run_is_played(tmp_path):
    trace, _ = record(tmp_path, "mlp", "lru", then=8 << 20)
    told = again(trace)
    assert told["same"] and told["whole"]
    (at,) = [at for at, line in enumerate(lines_of(trace)) if json.loads(line).get("words") == [(8 << 20) + 1]]
    assert again(edit(trace, at, words=[(9 << 20) + 1]), code=4)["difference"] is not None


@pytest.mark.parametrize("policy", ["lru", "dtr"])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_program_a_little_above_its_floor_goes_the_same_way_again(tmp_path, seed, policy):
    floor = record(tmp_path, str(seed), policy)[1]["floor_bytes"]
    trace, stats = record(tmp_path, str(seed), policy, budget=floor * 11 // 10)
    told = again(trace)
    assert told["same"] and told["whole"], told
    assert stats["moved_out_bytes"] > 0 and told["actions"] > 50


@pytest.mark.parametrize("model, policy", [("mlp", "hybrid"), ("convnet", "hybrid"), ("varied", "hybrid"), ("varied", "mimose"), ("convnet", "tensile")])
def test_a_planned_run_goes_the_same_way_again(tmp_path, model, policy):
    trace, stats = record(tmp_path, model, policy, steps=40)
    told = again(trace)
    assert told["same"] and told["whole"], told
    assert told["steps"] == 40
    assert told["actions"] == len(actions(trace)) > 100
    calls = {json.loads(line).get("kind") for line in lines_of(trace) if '"event":"call"' in line}
    assert {"before", "after", "begin_step"} <= calls
    if stats["planned_steps"] > 0:
        assert {"script", "join" if model == "varied" else "follow"} <= calls


@pytest.mark.parametrize("seed", SEEDS)
def test_a_program_by_plans_goes_the_same_way_again(tmp_path, seed):
    floor = record(tmp_path, str(seed), "hybrid")[1]["floor_bytes"]
    trace, _ = record(tmp_path, str(seed), "hybrid", budget=floor * 11 // 10, steps=12)
    told = again(trace)
    assert told["same"] and told["whole"], told
    assert told["actions"] > 50


def test_a_run_whose_first_step_goes_by_a_plan_goes_the_same_way_again(tmp_path):
    kept = {"cache": str(tmp_path / "kept"), "at_once": True}
    record(tmp_path, "convnet", "hybrid", **kept)
    trace, stats = record(tmp_path, "convnet", "hybrid", **kept)
    told = again(trace)
    assert told["same"] and told["whole"], told
    assert stats["cache"]["first_step_planned_ops"] > 0


def test_a_planned_run_whose_budget_changes_is_played(tmp_path):
    trace, _ = record(tmp_path, "mlp", "hybrid", then=8 << 20, steps=30)
    told = again(trace)
    assert told["same"] and told["whole"], told


def test_a_trace_that_only_watched_is_refused(tmp_path):
    trace, _ = record(tmp_path, "mlp", "lru", budget=None)
    assert "cannot be played again" in again(trace, code=2)
