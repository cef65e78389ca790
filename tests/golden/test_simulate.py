"""A recorded step on simulated cards and in plans, through the command line."""

import json
import pathlib
import re
import subprocess

import pytest

from spillway import native

HERE = pathlib.Path(__file__).resolve().parent
TRACES = HERE.parent.parent / "traces"


def tool(*arguments, code=0):
    done = subprocess.run([native.TOOL, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return done.stdout if code in (0, 3) else done.stderr


@pytest.fixture(scope="module")
def vgg(tmp_path_factory):
    trace = tmp_path_factory.mktemp("traces") / "vgg16_b128.spt"
    tool("import", TRACES / "vgg16_b128.json.gz", "-o", trace)
    return trace


@pytest.mark.parametrize("name, arguments", [
    ("vgg16_b128.lru.txt", ["simulate", "--card", "v100", "--recorded-on", "h200", "--budget", "4GiB", "--policy", "lru", "--steps", "3"]),
    ("vgg16_b128.hybrid.txt", ["simulate", "--budget", "80%"]),
    ("vgg16_b128.plan.txt", ["plan"]),
    ("vgg16_b128.plan_runs.txt", ["plan", "--runs"]),
    ("vgg16_b128.plan_80.txt", ["plan", "--budget", "80%"]),
])
def test_what_is_told_is_the_reviewed_text(vgg, name, arguments):
    assert tool(arguments[0], vgg, *arguments[1:]) == (HERE / name).read_text()


def test_the_same_trace_gives_the_same_bytes(vgg, tmp_path):
    arguments = ["simulate", vgg, "--budget", "60%", "--json", "--trace"]
    told = [tool(*arguments, tmp_path / name) for name in ("one.spt", "other.spt")]
    assert told[0] == told[1]
    assert (tmp_path / "one.spt").read_bytes() == (tmp_path / "other.spt").read_bytes()


def test_a_plan_is_searched_for_in_as_many_rounds_as_are_asked_for(vgg):
    def simulate(*words):
        return tool("simulate", vgg, "--budget", "60%", "--json", *words)

    assert simulate("--rounds", "1") == simulate()
    none, one, as_a_run = (json.loads(simulate("--rounds", rounds))["steps"][-1]["time_ns"] for rounds in (0, 1, 12))
    assert as_a_run < one <= none


@pytest.mark.parametrize("model", ["vgg16_b128", "resnet50_b256"])
@pytest.mark.parametrize("budget", ["80%", "60%", "43%"])
def test_a_plan_tells_of_a_run_in_its_budget_what_simulate_tells(tmp_path, model, budget):
    trace = tmp_path / "step.spt"
    tool("import", TRACES / f"{model}.json.gz", "-o", trace)
    planned = json.loads(tool("plan", trace, "--budget", budget, "--json"))
    played = json.loads(tool("simulate", trace, "--budget", budget, "--json"))
    run = planned["budgets"][0]["run"]
    assert run["fits"] and run["planned"]
    assert abs(run["time_ns"] - played["steps"][-1]["time_ns"]) < 0.01 * played["plain_time_ns"]


def test_a_run_is_planned_for_in_as_many_rounds_as_are_asked_for(vgg):
    one, more = (json.loads(tool("plan", vgg, "--budget", "60%", "--json", "--rounds", rounds))["budgets"][0] for rounds in (1, 12))
    assert more["run"]["time_ns"] < one["run"]["time_ns"]
    assert {**more, "run": None} == {**one, "run": None}


def test_a_run_above_the_floor_trains_where_no_plan_fits(vgg):
    arguments = ["plan", vgg, "--budget", "60%", "--policy", "tensile"]
    told = json.loads(tool(*arguments, "--json", code=3))["budgets"][0]
    assert told["shortfall_bytes"] > 0 and told["run"]["fits"]
    text = tool(*arguments, code=3)
    assert "; a run +" in text and "above the floor it trains" in text


@pytest.mark.parametrize("words", [["--by-bytes"], ["--tries", "0"]])
def test_bytes_alone_need_no_run(vgg, words):
    assert json.loads(tool("plan", vgg, "--budget", "80%", "--json", *words))["budgets"][0]["run"] is None
    told = tool("plan", vgg, "--budget", "80%", *words)
    assert "by bytes alone" in told and "a run" not in told


def test_a_run_in_more_than_the_card_has_is_not_played(vgg, tmp_path):
    (tmp_path / "card.json").write_text('{"like": "v100", "name": "tiny", "memory": "4GiB"}')
    assert "fits; more than the card has\n" in tool("plan", vgg, "--card", tmp_path / "card.json", "--budget", "80%")


def test_a_simulated_trace_is_a_lawful_trace_of_the_same_step(vgg, tmp_path):
    tool("simulate", vgg, "--budget", "60%", "--policy", "dtr", "--trace", tmp_path / "run.spt")
    told = tool("export", "--summary", tmp_path / "run.spt")
    assert "unlawful" not in told
    again = json.loads(tool("simulate", tmp_path / "run.spt", "--budget", "100%", "--policy", "dtr", "--json"))
    first = json.loads(tool("simulate", vgg, "--budget", "100%", "--policy", "dtr", "--json"))
    assert again["plain_time_ns"] == first["plain_time_ns"]
    assert abs(again["plain_peak_bytes"] - first["plain_peak_bytes"]) < 1e-3 * first["plain_peak_bytes"]


def test_simulated_json_says_whether_it_fits(vgg):
    told = json.loads(tool("simulate", vgg, "--budget", "4GiB", "--policy", "dtr", "--json"))
    assert told["fits"] and told["shortfall_bytes"] == 0 and told["violations"] == 0
    assert told["peak_reserved_bytes"] <= told["budget_bytes"] == 4 << 30
    assert len(told["steps"]) == 12 and told["steps"][-1]["time_ns"] > told["plain_time_ns"]


@pytest.mark.parametrize("command", ["simulate", "plan"])
def test_a_budget_that_cannot_be_met_is_told_with_its_shortfall(vgg, command):
    assert "lacks" in tool(command, vgg, "--budget", "1GiB", code=3)
    told = json.loads(tool(command, vgg, "--budget", "1GiB", "--json", code=3))
    shortfall = told["shortfall_bytes"] if command == "simulate" else told["budgets"][0]["shortfall_bytes"]
    assert shortfall > 1 << 30  # the floor is 2.55 GiB


def models_and_policies():
    for model in ("vgg16_b128", "resnet50_b16_fp32", "densenet121_b128", "gpt2m_16x1024"):
        for policy in ("hybrid", "dtr", "lru"):
            slow = policy == "hybrid" and model in ("densenet121_b128", "gpt2m_16x1024")  # plans near the floor take half a minute
            yield pytest.param(model, policy, marks=[pytest.mark.long] if slow else [])


@pytest.mark.parametrize("model, policy", list(models_and_policies()))
def test_the_budget_that_would_do_does(tmp_path, model, policy):
    trace, words = tmp_path / "step.spt", ["--policy", policy, "--steps", "3"]
    tool("import", TRACES / f"{model}.json.gz", "-o", trace)
    told = tool("simulate", trace, "--budget", "1%", *words, code=3)
    enough = re.search(r"a budget of (.*?) would do", told).group(1)
    fits = tool("simulate", trace, "--budget", enough, *words)
    assert f"budget {enough};" in fits and "does not fit" not in fits


def test_a_card_that_is_too_small_for_every_budget_is_told(vgg, tmp_path):
    (tmp_path / "card.json").write_text('{"like": "v100", "name": "tiny", "memory": "2GiB"}')
    arguments = ["simulate", vgg, "--card", tmp_path / "card.json", "--policy", "lru"]
    assert "the card has too little memory for any budget that would do" in tool(*arguments, code=3)
    assert json.loads(tool(*arguments, "--json", code=3))["enough_bytes"] is None


@pytest.mark.parametrize("arguments, told", [
    (["--card", "k80"], "unknown card 'k80'; known are k40c"),
    (["--policy", "best"], "policy 'best'"),
    (["--budget", "much"], "much"),
    (["--budget", "0"], "0"),
    (["--budget", "-3GiB"], "-3GiB"),
    (["--steps", "0"], "--steps"),
    (["--rounds", "-1"], "--rounds"),
    (["--rounds", "12", "--again"], "--rounds"),
    (["--budget", "2TiB"], "more than the H200 has"),
])
def test_bad_words_are_bad_input(vgg, arguments, told):
    assert told in tool("simulate", vgg, *arguments, code=2)


@pytest.mark.parametrize("command", ["simulate", "plan"])
def test_bad_traces_are_bad_input(vgg, tmp_path, command):
    cut, foreign, empty = (tmp_path / name for name in ("cut.spt", "foreign.spt", "empty.spt"))
    cut.write_bytes(vgg.read_bytes()[:-1])
    foreign.write_text("not a trace")
    assert "cut short" in tool(command, cut, code=2)
    assert "foreign.spt" in tool(command, foreign, code=2)
    assert "missing.spt" in tool(command, tmp_path / "missing.spt", code=2)
    tool("export", vgg, "-o", tmp_path / "all.jsonl")
    lines = [line for line in (tmp_path / "all.jsonl").read_text().splitlines() if '"step_end"' not in line]
    (tmp_path / "open.jsonl").write_text("\n".join(lines) + "\n")
    tool("import", tmp_path / "open.jsonl", "-o", empty)
    assert "no step" in tool(command, empty, code=2)
    (tmp_path / "nothing.spt").write_bytes(b"")
    assert "holds nothing" in tool(command, tmp_path / "nothing.spt", code=2)


@pytest.fixture(scope="module")
def three_steps(vgg, tmp_path_factory):
    """The same step three times."""
    folder = tmp_path_factory.mktemp("steps")
    tool("simulate", vgg, "--budget", "20GiB", "--steps", "3", "--trace", folder / "three.spt")
    tool("export", folder / "three.spt", "-o", folder / "three.jsonl")
    return folder / "three.jsonl"


@pytest.mark.parametrize("command", ["simulate", "plan"])
def test_a_step_may_be_chosen_and_a_larger_one_is_told(three_steps, tmp_path, command):
    lines = [json.loads(line) for line in three_steps.read_text().splitlines()]
    largest = max((line for line in lines if line.get("event") == "op" and line["step"] == 1), key=lambda op: op["transient"])
    largest["transient"] += 8 << 30
    (tmp_path / "larger.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    trace = tmp_path / "larger.spt"
    tool("import", tmp_path / "larger.jsonl", "-o", trace)
    assert "this is step 2; step 1 takes more" in tool(command, trace)
    assert "takes more" not in tool(command, trace, "--step", "1")
    assert "step 7 has no ops in it or is not whole; there are 0, 1, 2" in tool(command, trace, "--step", "7", code=2)


@pytest.mark.parametrize("command", ["simulate", "plan"])
def test_the_step_that_was_chosen_is_the_one_that_is_planned_and_played(three_steps, tmp_path, command):
    lines = [json.loads(line) for line in three_steps.read_text().splitlines()]
    for op in lines:
        if op.get("event") == "op" and op["step"] == 1:
            op["duration"] *= 2
    (tmp_path / "slower.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    tool("import", tmp_path / "slower.jsonl", "-o", tmp_path / "slower.spt")
    first, second, last = (json.loads(tool(command, tmp_path / "slower.spt", "--step", step, "--budget", "90%", "--json")) for step in (0, 1, 2))
    assert second["plain_time_ns"] == 2 * first["plain_time_ns"] == 2 * last["plain_time_ns"]
    played = [told["steps"][0]["kernels_ns"] if command == "simulate" else told["budgets"][0]["run"]["time_ns"] for told in (first, second)]
    assert played[1] > 1.8 * played[0]


@pytest.mark.parametrize("command", ["simulate", "plan"])
def test_help_and_errors_say_that_a_percentage_is_of_the_traces_peak(vgg, command):
    assert "60% of the trace's peak" in " ".join(tool(command, "--help").split())
    assert "60% of the trace's peak" in tool(command, vgg, "--budget", "8gigs", code=2)


@pytest.fixture
def recorded_on(vgg, tmp_path):
    def make(device):
        tool("export", vgg, "-o", tmp_path / "all.jsonl")
        head, *events = (tmp_path / "all.jsonl").read_text().splitlines()
        fact = json.dumps({"event": "fact", "key": "device", "value": device})
        (tmp_path / "all.jsonl").write_text("\n".join([head, fact, *events]) + "\n")
        tool("import", tmp_path / "all.jsonl", "-o", tmp_path / "told.spt")
        return tmp_path / "told.spt"

    return make


@pytest.mark.parametrize("device, card, elsewhere", [
    ("host", "h200", "recorded on the CPU: op times are from there, the link's figures those of H200 (--card chooses)\n"),
    ("NVIDIA GeForce RTX 3090", "v100", "recorded on NVIDIA GeForce RTX 3090: op times are from there, the link's figures those of V100 (--card chooses)\n"),
    ("NVIDIA GeForce RTX 3090", "rtx3090", ""),
    ("NVIDIA H200", "h200", ""),
])  # fmt: skip
def test_a_trace_from_elsewhere_says_whose_figures_are_used(recorded_on, device, card, elsewhere):
    trace = recorded_on(device)
    for command in (["plan"], ["simulate", "--policy", "lru", "--steps", "1"]):
        told = tool(*command, trace, "--card", card, "--budget", "90%")
        assert told.endswith(elsewhere) and ("recorded on" in told) == bool(elsewhere)
    assert json.loads(tool("plan", trace, "--card", card, "--budget", "90%", "--json"))["recorded_on"] == device


def test_times_scaled_from_the_card_they_were_recorded_on_need_no_word(recorded_on):
    told = tool("simulate", recorded_on("NVIDIA H200"), "--card", "v100", "--recorded-on", "h200", "--policy", "lru", "--steps", "1", "--budget", "90%")
    assert "recorded on" not in told


def test_a_card_of_ones_own_is_read_from_a_file(vgg, tmp_path):
    (tmp_path / "card.json").write_text('{"like": "v100", "name": "slow", "in_gb_s": 1.0, "out_gb_s": 1.0}')
    arguments = ["--budget", "80%", "--policy", "lru", "--json"]
    slow, v100 = (json.loads(tool("simulate", vgg, "--card", card, *arguments)) for card in (tmp_path / "card.json", "v100"))
    assert slow["steps"][-1]["stall_fetch_ns"] > 5 * v100["steps"][-1]["stall_fetch_ns"]


# As a card's trace has them: a batch norm from its statistics, and what changes its result in place in the same pass.
LEAN = {"aten.native_batch_norm.default": 2 / 5, "aten.relu_.default": 1e-6}


@pytest.fixture(scope="module")
def resnets(tmp_path_factory):
    """The same step without and with lean times."""
    folder = tmp_path_factory.mktemp("resnets")
    plain, lines, lean = folder / "plain.spt", folder / "all.jsonl", folder / "lean.spt"
    tool("import", TRACES / "resnet50_b256.json.gz", "-o", plain)
    tool("export", plain, "-o", lines)
    head, *events = map(json.loads, lines.read_text().splitlines())
    for event in events:
        if event["event"] == "op" and event["name"] in LEAN:
            event["lean"] = max(int(event["duration"] * LEAN[event["name"]]), 1)
    lines.write_text("".join(json.dumps(line) + "\n" for line in [head, *events]))
    tool("import", lines, "-o", lean)
    return plain, lean


def test_a_plan_of_a_step_with_lean_times_foretells_less(resnets):
    plain, lean = (json.loads(tool("plan", trace, "--budget", "43%", "--json"))["budgets"][0] for trace in resnets)
    assert plain["shortfall_bytes"] == lean["shortfall_bytes"] == 0
    told = json.loads(tool("plan", resnets[0], "--budget", "43%", "--json"))["plain_time_ns"]
    assert lean["time_ns"] - told < 0.8 * (plain["time_ns"] - told)


def test_simulated_rebuilds_take_the_lean_times_that_the_plan_foretold(resnets):
    plain, lean = (json.loads(tool("simulate", trace, "--budget", "43%", "--json")) for trace in resnets)
    assert lean["fits"] and lean["violations"] == 0
    over = [told["steps"][-1]["time_ns"] - told["plain_time_ns"] for told in (plain, lean)]
    assert over[1] < 0.9 * over[0]
    last = lean["steps"][-1]
    assert abs(last["time_ns"] / last["predicted_ns"] - 1) < 0.02
