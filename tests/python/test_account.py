"""`bench/account`: its parts add up, and what it names is what the simulated run did."""

import importlib.machinery
import importlib.util
import json
import os
import re
import sys
from pathlib import Path

import pytest
from small_steps import Step

from spillway import native

pytestmark = pytest.mark.skipif(not native.LIBRARY.exists(), reason=f"{native.LIBRARY} is not built")


@pytest.fixture
def account(root, run):
    def told(trace, *words):
        environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        done = run(root / "bench" / "account", trace, *words, env=environment)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return told


def parts(text: str) -> dict[str, tuple[float, str]]:
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| ")]
    return {row[0]: (float(row[1]), row[3]) for row in rows if re.fullmatch(r"[\d.]+", row[1])}


def test_the_parts_add_up_and_are_made_of_what_is_named(account, root):
    found = parts(account(root / "traces" / "vgg16_b128.json.gz", "--shares", "46"))
    added = found.pop("all")[0]
    assert sum(ms for ms, _ in found.values()) == pytest.approx(added, abs=0.03)
    rebuilds, by = found["rebuilds"]
    assert sum(float(ms) for ms in re.findall(r"([\d.]+) \(\d+ x\)", by)) == pytest.approx(rebuilds, rel=0.03)
    waits, by = found["waits for copies home"]
    assert waits > 1 and "_foreach_mul_" in by and "optimizer state" in by


def test_what_lies_there_at_the_fullest_op_fits_and_is_told_in_full(account, root):
    text = account(root / "traces" / "vgg16_b128.json.gz", "--shares", "60", "46")
    for taken, budget, shares in re.findall(r"^most.*: ([\d.]+) of ([\d.]+) GiB: (.*)$", text, re.MULTILINE):
        assert 0.85 * float(budget) < float(taken) <= float(budget)
        assert sum(float(size) for size in re.findall(r"([\d.]+) [a-z]", shares)) == pytest.approx(float(taken), rel=0.05)


def test_lean_times_shorten_the_step(account, root):
    lean = ["--rebuild", "native_batch_norm=0.24", "relu_=0.05", "add_=0.12"]
    slow, fast = (parts(account(root / "traces" / "resnet50_b256.json.gz", "--shares", "43", *more))["all"][0] for more in ([], lean))
    assert 0 < fast < 0.9 * slow


def test_a_budget_that_cannot_be_met_is_told(account, tmp_path):
    made = Step(3, 6)
    made.write(tmp_path / "step.jsonl")
    assert "does not fit" in account(tmp_path / "step.jsonl", "--shares", "1")


def test_the_step_is_drawn_in_the_card_s_time(account, root, tmp_path):
    """Its ops follow each other, wait for the copies that are late, and take as long as the simulated step did."""
    text = account(root / "traces" / "vgg16_b128.json.gz", "--shares", "46", "--pages", tmp_path)
    assert (tmp_path / "vgg16_b128-46.html").stat().st_size > 50_000

    loader = importlib.machinery.SourceFileLoader("account", str(root / "bench" / "account"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("account", loader))
    loader.exec_module(module)
    module.tool("import", root / "traces" / "vgg16_b128.json.gz", "-o", tmp_path / "step.spt")
    words = ("--budget", "46%", "--steps", 14, "--trace", tmp_path / "run.spt", "--json")
    last = json.loads(module.tool("simulate", tmp_path / "step.spt", *words))["steps"][-1]
    lines = module.Step(module.export(tmp_path / "run.spt"), {}).on_the_card(last)
    begin = next(line["at"] for line in reversed(lines) if line.get("event") == "step_begin")
    ran = [line for line in lines if line.get("event") in ("op", "recompute") and line["start"] >= begin]
    assert all(one["start"] + one["duration"] <= next_one["start"] + 1 for one, next_one in zip(ran, ran[1:]))
    assert lines[-1]["at"] - begin == pytest.approx(last["time_ns"], rel=0.01)
    assert f"{last['time_ns'] / 1e6:.1f} ms beside" in text
