"""A run recorded on the CPU, played again by the simulator: every eviction, return and recomputation is the same."""

import json
import subprocess

import pytest
from harness import run_program

from spillway import native

BUDGETS = {"mlp": 10 << 20, "convnet": 6 << 20}  # 12.6 and 7 MiB are what they take without one
SEEDS = (1, 17, 58)  # of odd.py: optimizers of several kinds, views, and ops that run once more in an empty house


def again(trace, *arguments, code=0):
    done = subprocess.run([native.TOOL, "simulate", str(trace), "--again", "--json", *arguments], capture_output=True, text=True)
    assert done.returncode == code, (done.stdout, done.stderr)
    return json.loads(done.stdout) if code in (0, 4) else done.stderr


def record(tmp_path, model, policy, **options):
    trace = tmp_path / "run.spt"
    stats = run_program("again", model, json.dumps({"budget": BUDGETS[model], "policy": policy, "trace": str(trace)} | options))
    return trace, stats


def actions(trace):
    lines = subprocess.run([native.TOOL, "export", str(trace)], capture_output=True, text=True, check=True).stdout.splitlines()[1:]
    return [event for event in map(json.loads, lines) if event["event"] in ("move", "recompute")]


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
def test_another_budget_or_policy_is_a_difference(tmp_path, policy):
    trace, _ = record(tmp_path, "mlp", policy)
    other = {"lru": "dtr", "dtr": "lru"}[policy]
    for arguments in (["--budget", str(BUDGETS["mlp"] * 9 // 10)], ["--policy", other]):
        told = again(trace, *arguments, code=4)
        assert not told["same"] and told["same_actions"] < told["actions"]
        assert told["difference"]["recorded"] != told["difference"]["played"]


def test_an_edited_action_is_the_first_difference(tmp_path):
    trace, _ = record(tmp_path, "convnet", "dtr")
    lines = subprocess.run([native.TOOL, "export", str(trace)], capture_output=True, text=True, check=True).stdout.splitlines()
    moves = [at for at, line in enumerate(lines) if '"event":"move"' in line]
    event = json.loads(lines[moves[3]])
    edited = event | {"trigger": event["trigger"] + 1}
    lines[moves[3]] = json.dumps(edited)
    (tmp_path / "edited.jsonl").write_text("\n".join(lines) + "\n")
    subprocess.run([native.TOOL, "import", str(tmp_path / "edited.jsonl"), "-o", str(tmp_path / "edited.spt")], check=True)
    told = again(tmp_path / "edited.spt", code=4)
    assert told["difference"]["recorded"]["op"] == edited["trigger"]
    assert told["difference"]["played"]["op"] == event["trigger"]
    assert told["difference"]["played"]["storage"] == event["storage"]


def test_a_budget_that_changes_in_the_run_is_played(tmp_path):
    trace, _ = record(tmp_path, "mlp", "dtr", then=9 << 20)
    told = again(trace)
    assert told["same"] and told["whole"]
    constant = record(tmp_path, "mlp", "dtr")[0]
    assert told["actions"] > again(constant)["actions"]


@pytest.mark.parametrize("policy", ["lru", "dtr"])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_program_a_little_above_its_floor_goes_the_same_way_again(tmp_path, seed, policy):
    floor = run_program("odd", str(seed), "4", json.dumps({"budget": None}))["stats"]["floor_bytes"]
    options = {"budget": floor * 11 // 10, "policy": policy, "trace": str(tmp_path / "run.spt"), "trace_steps": 100}
    stats = run_program("odd", str(seed), "4", json.dumps(options))["stats"]
    told = again(tmp_path / "run.spt")
    assert told["same"], told
    assert stats["moved_out_bytes"] > 0 and told["actions"] > 50


def test_a_planned_run_is_refused_with_the_reason(tmp_path):
    trace, _ = record(tmp_path, "mlp", "hybrid")
    assert "goes by plans" in again(trace, code=2)


def test_a_trace_that_only_watched_is_refused(tmp_path):
    trace, _ = record(tmp_path, "mlp", "lru", budget=None)
    assert "cannot be played again" in again(trace, code=2)
