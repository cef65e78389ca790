"""A recorded step through the command line: imported, summarized, exported, and back."""

import pathlib
import re
import subprocess

import pytest

from spillway import native

HERE = pathlib.Path(__file__).resolve().parent
TRACES = HERE.parent.parent / "traces"
MODELS = ["resnet50_b256", "vgg16_b128"]


def tool(*arguments):
    done = subprocess.run([native.TOOL, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(params=MODELS)
def imported(request, tmp_path):
    """(model, its trace file)"""
    trace = tmp_path / f"{request.param}.spt"
    tool("import", TRACES / f"{request.param}.json.gz", "-o", trace)
    return request.param, trace


def test_the_summary_of_a_recorded_step_is_the_reviewed_table(imported):
    model, trace = imported
    assert tool("export", "--summary", trace) == (HERE / f"{model}.summary.txt").read_text()


def test_the_peak_live_of_a_recorded_step_is_torchs_within_a_percent(imported):
    _, trace = imported
    table = tool("export", "--summary", trace)
    keys = ("peak live", "plain_peak_bytes")
    ours, torchs = (int(re.search(rf"^{key}\s+(\d+)", table, re.MULTILINE)[1]) for key in keys)
    assert abs(ours - torchs) <= 0.01 * torchs


def test_an_exported_trace_is_imported_to_the_same_bytes(imported, tmp_path):
    _, trace = imported
    tool("export", trace, "-o", tmp_path / "lines.jsonl")
    tool("import", tmp_path / "lines.jsonl", "-o", tmp_path / "again.spt")
    assert (tmp_path / "again.spt").read_bytes() == trace.read_bytes()


def test_a_cut_trace_is_exported_up_to_its_last_whole_block(imported, tmp_path):
    _, trace = imported
    cut = tmp_path / "cut.spt"
    cut.write_bytes(trace.read_bytes()[:-1])
    done = subprocess.run([native.TOOL, "export", cut], capture_output=True, text=True)
    assert done.returncode == 0
    assert f"{cut} ends in the middle of a block; what is whole ends at byte " in done.stderr


def test_a_foreign_file_is_refused_in_one_sentence(tmp_path):
    foreign = tmp_path / "x.spt"
    foreign.write_text("not a trace at all")
    done = subprocess.run([native.TOOL, "export", foreign], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == f'spillway: {foreign}: byte 0: expected a Spillway trace, which begins with "SPILLWAY"\n'


def test_a_full_disk_is_told_in_one_sentence():
    command = [native.TOOL, "import", TRACES / "vgg16_b128.json.gz", "-o", "/dev/full"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == "spillway: /dev/full: the trace cannot be written: No space left on device\n"
