"""tools/tally.py: counts of ctest's and pytest's result files, and the line that ends them."""

import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

CTEST = """<testsuite>
<testcase name="pool.Splits" classname="pool.Splits" status="run"/>
<testcase name="pool.Merges" classname="pool.Merges" status="fail"><failure message=""/><system-out>[ RUN      ] Pool.Merges
pool_test.cpp:9: Failure
Expected: (2) &lt; (1)</system-out></testcase>
<testcase name="gpu.Copies" classname="gpu.Copies" status="notrun"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/>
<system-out>gpu_test.cpp:7: Skipped
no card is visible

[  SKIPPED ] Gpu.Copies (0 ms)</system-out></testcase>
<testcase name="shrink" classname="shrink" status="notrun"><skipped message="x"/>
<system-out>[  SKIPPED ] shrink: RapidCheck is not installed</system-out></testcase>
</testsuite>"""

PYTEST = """<testsuites><testsuite>
<testcase classname="tests.python.test_cli" name="test_version"><properties>
<property name="told" value="bert: peak error 0.1 %"/><property name="other" value="nobody's"/></properties></testcase>
<testcase classname="tests.python.test_cli" name="test_help"><error message="fixture"/></testcase>
<testcase classname="tests.python.test_cli" name="test_runs"><failure message="AssertionError">def test_runs():
        code = run()
&gt;       assert code == 0
E       assert 7 == 0

test_cli.py:12: AssertionError</failure></testcase>
<testcase classname="tests.torch.test_card" name="test_copies"><skipped message="no card is visible"/></testcase>
</testsuite></testsuites>"""


@pytest.fixture
def tally(write_tree, run):
    return lambda files: run(sys.executable, ROOT / "tools/tally.py", write_tree({"README": "", **files}))


def test_the_last_line_is_the_totals_alone(tally):
    done = tally({"ctest-dev.xml": CTEST, "pytest.xml": PYTEST})
    assert done.stdout.splitlines()[-1] == "2 passed, 3 failed, 3 skipped"
    assert done.returncode == 1


def test_each_file_failure_and_reason_for_skipping_is_named(tally):
    said = tally({"ctest-dev.xml": CTEST, "pytest.xml": PYTEST}).stdout
    assert "ctest-dev: 1 passed, 1 failed, 2 skipped" in said
    assert "failed: pool.Merges\n" in said
    assert "failed: tests.python.test_cli.test_help" in said
    assert "skipped 1: no card is visible" in said
    assert "skipped 1: shrink: RapidCheck is not installed" in said


def test_what_did_not_hold_is_said(tally):
    said = tally({"ctest-dev.xml": CTEST, "pytest.xml": PYTEST}).stdout
    assert "pool.Merges\n    pool_test.cpp:9: Failure | Expected: (2) < (1)\n" in said
    assert "test_help\n    fixture\n" in said
    assert "test_runs\n    assert code == 0 | assert 7 == 0\n" in said


def test_what_a_test_told_is_said(tally):
    said = tally({"ctest-dev.xml": CTEST, "pytest.xml": PYTEST}).stdout
    assert "bert: peak error 0.1 %\n" in said
    assert "nobody's" not in said


def test_all_passed_is_success(tally):
    done = tally({"ctest-dev.xml": '<testsuite><testcase name="a" classname="a" status="run"/></testsuite>'})
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "1 passed, 0 failed, 0 skipped")


def test_nothing_run_is_a_failure(tally):
    assert tally({}).returncode == 1
