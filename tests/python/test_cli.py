"""The `spillway` command as a user calls it, in the Python that runs the tests."""

import importlib.metadata
import pathlib
import signal
import subprocess
import sys
import sysconfig

import pytest

import made_up_run
import spillway
from spillway import cli, native


@pytest.fixture
def command():
    return pathlib.Path(sysconfig.get_path("scripts")) / "spillway"


def test_version_names_spillway_and_torch(run, command):
    done = run(command, "--version")
    assert done.returncode == 0
    assert done.stdout == f"spillway {spillway.__version__} (torch {importlib.metadata.version('torch')})\n"


def test_python_m_spillway_is_the_same_command(run, command):
    assert run(sys.executable, "-m", "spillway", "--version").stdout == run(command, "--version").stdout


def test_the_native_tool_has_the_same_version(run):
    assert run(native.TOOL, "--version").stdout.strip() == spillway.__version__


def test_help_is_the_native_tools(run, command):
    done = run(command, "--help")
    assert done.returncode == 0
    assert done.stdout == run(native.TOOL, "--help").stdout
    assert "Usage: spillway" in done.stdout
    for command_name in ("run", "verify", "bench", "doctor", "export", "import"):
        assert f"\n  {command_name} " in done.stdout


@pytest.mark.parametrize("name", cli.IN_PYTHON)
def test_the_native_tool_sends_commands_that_need_python_to_the_package(run, name):
    done = run(native.TOOL, name, "--budget", "8GiB", "train.py")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"spillway: '{name}' needs Python: use the spillway command of the package, or python -m spillway\n"


@pytest.mark.parametrize("arguments, says", [([], "which command?"), (["no-such-command"], "no-such-command"),
                                             (["--no-such-flag"], "--no-such-flag")])
def test_bad_input_is_one_sentence_and_exit_code_two(run, command, arguments, says):
    done = run(command, *arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("spillway: ") and says in done.stderr


def test_the_tool_replaces_the_python_process(tmp_path, monkeypatch):
    """A signal that ends the tool is what the caller sees, and arguments arrive as they were given."""
    stand_in = tmp_path / "tool"
    stand_in.write_text('#!/bin/sh\nprintf "%s|" "$@"\nkill -TERM $$\n')
    stand_in.chmod(0o755)
    script = f"import pathlib, spillway.native as n; n.TOOL = pathlib.Path({str(stand_in)!r}); import spillway.cli as c; c.main()"
    done = subprocess.run([sys.executable, "-c", script, "plan", "two words", "--x=1"], capture_output=True, text=True)
    assert done.stdout == "plan|two words|--x=1|"
    assert done.returncode == -signal.SIGTERM


def test_a_missing_tool_is_told_with_what_would_help(run):
    script = "import pathlib, spillway.native as n; n.TOOL = pathlib.Path('/nowhere/tool'); import spillway.cli as c; raise SystemExit(c.main())"
    done = run(sys.executable, "-c", script)
    assert done.returncode == 1
    assert "/nowhere/tool is missing" in done.stderr and "make setup" in done.stderr


@pytest.mark.parametrize("layers, unit", [(6, "MiB"), (48, "GiB")])
def test_a_plan_is_told_in_the_unit_of_its_peak(run, command, tmp_path, layers, unit):
    made_up_run.MadeUpRun(layers).write(tmp_path / "run.jsonl", steps=2)
    assert run(command, "import", tmp_path / "run.jsonl", "-o", tmp_path / "run.spt").returncode == 0
    peak, head, first = run(command, "plan", tmp_path / "run.spt", "--budget", "100%").stdout.splitlines()[:3]
    assert head.split()[0] == unit and f"moved {unit}" in head
    assert f"peak {float(first.split()[0]):.3g} {unit}" in peak


@pytest.fixture
def trace_of_equal_steps(run, tmp_path):
    """Forty of them, in several blocks."""
    made_up_run.MadeUpRun().write(tmp_path / "run.jsonl", steps=40)
    assert run(native.TOOL, "import", tmp_path / "run.jsonl", "-o", tmp_path / "run.spt").returncode == 0
    return tmp_path / "run.spt"


@pytest.mark.parametrize("words", [["export"], ["export", "--summary"], ["forecast"], ["report", "-o", "page.html"]])
def test_what_is_whole_in_a_trace_cut_short_is_shown_with_a_warning(run, trace_of_equal_steps, tmp_path, words):
    cut = tmp_path / "cut.spt"
    cut.write_bytes(trace_of_equal_steps.read_bytes()[:-1])
    done = run(native.TOOL, *words, cut, cwd=tmp_path)
    assert done.returncode == 0 and done.stdout != ""
    assert done.stderr.startswith(f"spillway: {cut} ends in the middle of a block; ") and len(done.stderr.splitlines()) == 1


def test_a_forecast_counts_the_sizes_that_were_seen_before_and_not_the_steps(run, trace_of_equal_steps):
    done = run(native.TOOL, "forecast", trace_of_equal_steps)
    head, *steps = done.stdout.partition("\n\n")[0].splitlines()
    sizes = head.split().index("sizes")
    assert [step.split()[sizes] for step in steps] == ["0"] + ["1"] * 39
    assert "no step was told after 10 different sizes had been seen" in done.stdout
