"""`spillway bench`: small models on the CPU through the whole driver; its search, its tables and its choice of cells alone."""

import json
import sys

import pytest

from spillway import bench
from spillway.bench import cells, table


@pytest.fixture
def measure(run, tmp_path):
    def measured(*words):
        command = (sys.executable, "-m", "spillway", "bench", "--device", "cpu", "--tiny", "--out", tmp_path, *words)
        done = run(*command)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return measured


def read(folder, row, name):
    return json.loads((folder / row / f"{name}.json").read_text())


@pytest.mark.parametrize("policies", [["hybrid"], pytest.param(["dtr", "hybrid"], marks=pytest.mark.long)], ids="-".join)
def test_a_row_is_measured_kept_and_not_measured_again(measure, tmp_path, policies):
    said = measure("--only", "resnet50", "--methods", "checkpoint", "save_on_cpu", *policies, "--shares", "80", "floor")
    names = ["plain", "watch", "checkpoint", "save_on_cpu", *(f"{policy}-{share}" for policy in policies for share in ("80", "floor"))]
    assert sorted(path.stem for path in (tmp_path / "resnet50").glob("*.json")) == sorted(names)
    peak, floor = (read(tmp_path, "resnet50", "watch")[key] for key in ("plain_peak_bytes", "floor_bytes"))
    for name in names[4:]:
        cell = read(tmp_path, "resnet50", name)
        assert "failed" not in cell, cell
        assert cell["bits"] and cell["violations"] == 0
        assert cell["budget_bytes"] == (int(peak * 0.8) if "80" in name else int(floor * 1.1))
        assert cell["engine_peak_bytes"] <= cell["budget_bytes"]
    assert read(tmp_path, "resnet50", "checkpoint")["bits"]
    assert (tmp_path / "resnet50.spt").exists()
    assert "| hybrid 80 % |" in said and "failed" not in said
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/*.json")}
    assert measure("--only", "resnet50", "--methods", "checkpoint", "hybrid", "--shares", "80") in said
    assert before == {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/*.json")}


@pytest.mark.long
@pytest.mark.parametrize("row", ["gpt2", "vit", "densenet", "vgg16"])
def test_every_other_model_runs_in_a_budget_to_the_same_bits(measure, tmp_path, row):
    measure("--only", row, "--methods", "hybrid", "--shares", "80")
    cell = read(tmp_path, row, "hybrid-80")
    assert cell.get("bits") and cell["violations"] == 0, cell


def test_the_largest_batch_in_an_amount_is_found(measure, tmp_path):
    said = measure("--only", "batch-vgg16", "--methods", "hybrid", "--budget", "0.004")
    cell = read(tmp_path, "batch-vgg16", "hybrid")
    assert 4 < cell["most"] <= cell["allows"] and cell["allows"] * 0.9 < cell["most"]
    assert f"| {cell['most']} |" in said and cell["bits"] is True
    assert not any(trial["violations"] for trial in cell["trials"].values())


def test_a_budget_nobody_can_meet_is_a_result(measure, tmp_path):
    cells.Cell(tmp_path, "vgg16", "watch", None).write({"ms": 1, "over_plain": 0, "bits": True, "plain_peak_bytes": 1 << 20})
    said = measure("--only", "vgg16", "--methods", "dtr", "--shares", "10", "9")
    assert all("OutOfMemoryError" in read(tmp_path, "vgg16", name)["failed"] for name in ("dtr-10", "dtr-9"))
    assert "failed: OutOfMemoryError" in said


def test_a_process_that_dies_is_kept_as_the_failure_of_its_cell(tmp_path):
    driver = bench.Driver(tmp_path, "cpu", tiny=True, deadline=0)
    driver.run_process("vgg16", {"cells": [("dtr", "60"), ("dtr", "50")], "no": "task"}, 60)
    assert "code 1" in read(tmp_path, "vgg16", "dtr-60")["failed"]
    assert not (tmp_path / "vgg16" / "dtr-50.json").exists()


def test_nothing_starts_after_its_time(measure):
    assert "out of time before plain" in measure("--only", "vgg16", "--minutes", "1e-9")


def test_bad_words_are_refused_with_code_2(run):
    refused = run(sys.executable, "-m", "spillway", "bench", "--only", "resnet51")
    assert refused.returncode == 2 and "resnet51" in refused.stderr


def trial(size, limit, need=100):
    return {"failed": None if size <= limit else "no", "needs_bytes": need * size + 70}


def searched(limit, start, end=1 << 20, allowed=None, need=100):
    """Sizes up to `limit` train in a budget whose needs would allow `allowed`."""
    tried, budget = {}, need * (allowed or limit) + 70
    while (size := cells.next_size(tried, start, end, budget)) is not None:
        assert size not in tried and 0 < size <= end
        tried[size] = trial(size, limit, need)
    return tried


@pytest.mark.parametrize("limit", [1, 2, 37, 100, 1000, 4999])
@pytest.mark.parametrize("start", [1, 64, 3000])
@pytest.mark.parametrize("allowed", [1.0, 1.2, 2.0])  # what its need allows, over what trains
def test_the_search_ends_near_the_largest_that_fits(limit, start, allowed):
    tried = searched(limit, start, allowed=int(limit * allowed))
    assert max(size for size, found in tried.items() if found["failed"] is None) in range(limit - max(2, limit // 30), limit + 1)
    assert len(tried) < 25


def test_the_search_takes_four_tries_where_needs_lie_on_a_line():
    assert list(searched(1200, 384, allowed=1201)) == [384, 481, 1080, 1164]


def test_the_search_goes_no_farther_than_told_nor_far_beyond_what_trained():
    assert list(searched(1 << 20, 960, end=6000, need=1)) == [960, 1201, 3002, 6000]
    assert list(searched(5, 5, end=5)) == [5]


def test_the_size_a_need_allows_lies_on_the_line_of_the_needs():
    trials = {10: {"failed": None, "needs_bytes": 1000}, 20: {"failed": None, "needs_bytes": 1500}, 40: {"failed": "no", "needs_bytes": 2400}}
    assert cells.allows(trials, 2000) == 30
    assert cells.allows({}, 2000) is None


def test_a_search_is_told_with_its_bits(tmp_path):
    facts = {"budget_bytes": 12 << 30, "most": 40, "allows": 44, "plain_ms": 3.0, "bits": True, "trials": {40: {"failed": None, "ms": 7.0}}}
    cells.Cell(tmp_path, "batch-vgg16", "hybrid", None).write(facts)
    assert "| batch-vgg16 | hybrid | 12.00 | 40 | 44 | 7 | 3 | equal |" in table.markdown(tmp_path)


def test_shares_asked_for_replace_the_rows_own():
    row = bench.ROWS["gpt2"]
    assert bench.wanted_cells(row, ["hybrid", "lru"], ["71"]) == [("plain", None), ("watch", None), ("hybrid", "71"), ("lru", "71")]
    everything = bench.wanted_cells(row, None, None)
    assert ("hybrid", "48") in everything and ("capuchin", "60") in everything and ("compile-0.5", None) in everything


def planned(folder, share, peak_off, time_off):
    plan = {"peak_bytes": 10**9 * peak_off, "step_seconds": 0.1 * time_off, "plain_step_seconds": 0.09}
    cells.Cell(folder, "gpt2", "hybrid", share).write({"ms": 100.0, "over_plain": 0.1, "bits": True, "peak_bytes": 10**9, "budget_bytes": 10**9, "plan": plan})


def test_truth_holds_predictions_to_one_and_five_percent(tmp_path):
    planned(tmp_path, "60", 0.995, 1.04)
    assert table.truth(tmp_path)[1]
    planned(tmp_path, "50", 1.02, 1.0)
    planned(tmp_path, "40", 1.0, 0.94)
    text, good = table.truth(tmp_path)
    assert not good and text.count("| NO |") == 2
