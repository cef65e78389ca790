"""bench/dynamic, bench/first_step and bench/tensile: small models on the CPU through the drivers; their tables alone."""

import json
import pathlib
import sys

import pytest

from spillway.bench import dynamic, first_step, tensile
from spillway.bench.cells import Cell

ROOT = pathlib.Path(__file__).resolve().parents[2]


def measure(run, driver, folder, *words):
    done = run(sys.executable, ROOT / "bench" / driver, "--device", "cpu", "--small", "--out", folder, *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def read(folder, row, name):
    cell = json.loads((folder / row / f"{name}.json").read_text())
    assert "failed" not in cell, cell
    return cell


@pytest.mark.long
def test_steps_of_changing_size_are_measured_in_a_budget(run, tmp_path):
    said = measure(run, "dynamic", tmp_path, "--only", "bert-qqp", "--methods", "mimose", "--shares", "60")
    cell, peak = read(tmp_path, "bert-qqp", "mimose-60"), read(tmp_path, "bert-qqp", "watch")["plain_peak_bytes"]
    assert cell["bits"] and cell["violations"] == 0 and cell["varying_steps"] > 0
    assert cell["engine_peak_bytes"] <= cell["budget_bytes"] == int(peak * 0.6)
    assert "| mimose 60 % |" in said and "failed" not in said


@pytest.mark.long
@pytest.mark.parametrize("row", dynamic.ROWS)
def test_every_stream_is_measured_in_every_way(run, tmp_path, row):
    said = measure(run, "dynamic", tmp_path, "--only", row, "--shares", "80")
    for method in dynamic.METHODS:
        assert read(tmp_path, row, f"{method}-80")["bits"]
    static = read(tmp_path, row, "checkpoint-80")
    assert static["largest_peak_bytes"] <= static["static_budget_bytes"] or "OVER" in said


@pytest.mark.long
@pytest.mark.parametrize("row", tensile.ROWS)
def test_tensiles_models_are_measured(run, tmp_path, row):
    said = measure(run, "tensile", tmp_path, "--only", row, "--shares", "90")
    assert read(tmp_path, row, "hybrid-90")["bits"] and read(tmp_path, row, "tensile-90")["bits"]
    assert "failed" not in said


@pytest.mark.long
@pytest.mark.parametrize("row", first_step.ROWS)
def test_first_steps_are_measured(run, tmp_path, row):
    said = measure(run, "first_step", tmp_path, "--only", row, "--shares", "90")
    found = read(tmp_path, row, "hybrid-90")
    assert found["bits"] and found["violations"] == 0 and all(found[f"{which}_ms"] > 0 for which in ("first", "again", "fresh_first", "fresh_plain_first"))
    assert f"| {row} | 90 % |" in said and "failed" not in said


def cell(folder, row, method, share, **facts):
    kept = {"ms": 100.0, "plain_ms": 100.0, "over_plain": 0.0, "bits": True, "moved_out_bytes_a_step": 0, "dropped_bytes_a_step": 0}
    Cell(folder, row, method, share).write(kept | facts)


def test_the_table_compares_at_equal_budgets(tmp_path):
    cell(tmp_path, "t5-qqp", "checkpoint", "60", over_plain=0.5, static_budget_bytes=6 << 30, largest_peak_bytes=7 << 30, checkpointed_blocks=3)
    cell(tmp_path, "t5-qqp", "hybrid", "60", over_plain=0.25, budget_bytes=6 << 30, engine_peak_live_bytes=5 << 30)
    plans = {"foreseen_steps": 70, "varying_steps": 75, "reused_plans": 4, "planning_share": 0.0004}
    cell(tmp_path, "t5-qqp", "hybrid", "80", over_plain=0.02, budget_bytes=8 << 30, engine_peak_live_bytes=5 << 30, **plans)
    text = dynamic.markdown(tmp_path)
    assert "| checkpoint 60 % | 6.00 | 7.00 OVER |" in text
    assert "hybrid against checkpoint: +20.0% on average of 1" in text
    assert "hybrid against plain at 80 %: +2.0%" in text
    assert "hybrid, planning and learning after ten steps: at most 0.04% of a run" in text


@pytest.mark.parametrize(("peak", "over", "met"), [(66, 0.12, "yes"), (68, 0.12, "no"), (66, 0.14, "no")])
def test_both_of_tensiles_numbers_must_be_met(tmp_path, peak, over, met):
    cell(tmp_path, "tensile-vgg16", "plain", None, peak_bytes=100 << 20)
    cell(tmp_path, "tensile-vgg16", "hybrid", "67", over_plain=over, engine_peak_bytes=peak << 20)
    assert f"| 0.13 | {met} |" in tensile.markdown(tmp_path)


def test_a_first_step_is_judged_against_the_steady_one(tmp_path):
    first = {"first_ms": 320.0, "again_ms": 240.0, "plain_first_ms": 200.0, "first_moved_bytes": 3 << 30, "first_dropped_bytes": 1 << 30,
             "fresh_first_ms": 1500.0, "fresh_plain_first_ms": 1000.0}  # fmt: skip
    cell(tmp_path, "vit", "hybrid", "60", ms=120.0, steady_moved_bytes=1 << 30, steady_dropped_bytes=2 << 30, **first)
    cell(tmp_path, "vit", "hybrid", "45", ms=110.0, steady_moved_bytes=1 << 30, steady_dropped_bytes=1 << 30, **first)
    cell(tmp_path, "gpt2", "hybrid", "80", ms=100.0, steady_moved_bytes=0, steady_dropped_bytes=0, **first)

    lines = [line.strip("| ").split(" | ") for line in first_step.markdown(tmp_path).splitlines()]

    assert lines[2][:2] == ["gpt2", "80 %"]  # in the order of the rows
    assert lines[2][10] == ""  # nothing to compare with
    assert lines[3] == ["vit", "60 %", "1000 / 100.0", "+50.0 %", "+60.0 %", "+20.0 %", "+20.0 %", "1.25", "3.00 / 1.00", "1.00 / 2.00", "1.33", "equal"]
    assert lines[4][7] == "1.36 MISSED" and lines[4][10] == "2.00 MISSED"


def test_nothing_measured_is_said_so_for_first_steps(tmp_path):
    assert first_step.markdown(tmp_path) == f"nothing measured yet in {tmp_path}"
