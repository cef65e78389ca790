"""A read that Spillway did not see is told with operator and tensor; the fault itself goes its plain way."""

import signal
from pathlib import Path

import pytest

FAULTY = Path(__file__).with_name("faulty.py").read_text()
FAULTHANDLER = ["never", "before", "after", "off_again"]


@pytest.fixture(scope="module")
def end_of(real_server, tmp_path_factory):
    """Runs one case of faulty.py in a process of its own."""
    folder = tmp_path_factory.mktemp("faults")

    def run(case, faulthandler="never", host_limit="64MiB"):
        return real_server.execute(f"import sys\nsys.argv[1:] = {[case, faulthandler, host_limit]}\n{FAULTY}", folder)

    return run


@pytest.mark.parametrize("faulthandler", FAULTHANDLER)
def test_an_unseen_read_is_told_once_with_its_tensor_and_ends_as_without_us(end_of, faulthandler):
    done = end_of("reads_an_evicted_tensor", faulthandler)

    assert done.returncode == -signal.SIGSEGV
    assert done.stderr.count("spillway: memory at 0x") == 1, done.stderr
    assert "262144 bytes, made by aten::sin (operator 2, step 0); touched at byte 40\n" in done.stderr
    assert "reader   code outside torch's operators" in done.stderr
    assert "spillway.resident(tensor)" in done.stderr
    assert ("Fatal Python error: Segmentation fault" in done.stderr) == (faulthandler in ("before", "after"))
    assert done.stderr.count("Fatal Python error") <= 1


@pytest.mark.parametrize(
    "case, host_limit, words",
    [
        ("reads_an_evicted_tensor", "64MiB", "its bytes are in host memory"),
        ("reads_an_evicted_tensor", None, "its bytes are in the spill file"),
        ("reads_a_tensor_that_came_home", "64MiB", "its bytes have come home since"),
        ("reads_a_dead_tensor", "64MiB", "it has died since"),
        ("reads_where_a_tensor_was", "64MiB", "the address was kept from when its bytes were at home"),
        ("reads_inside_an_operator", "64MiB", "reader   faulty::peek"),
    ],
)
def test_the_report_tells_where_the_bytes_are_and_who_reads(end_of, case, host_limit, words):
    done = end_of(case, host_limit=host_limit)

    assert done.returncode == -signal.SIGSEGV
    assert words in done.stderr


@pytest.mark.parametrize("faulthandler", FAULTHANDLER)
@pytest.mark.parametrize("case", ["reads_null", "sends_itself_the_signal"])
def test_another_fault_is_not_claimed(end_of, case, faulthandler):
    done = end_of(case, faulthandler)

    assert done.returncode == -signal.SIGSEGV
    assert "spillway: memory" not in done.stderr


def test_a_tensor_kept_resident_may_be_read_by_anybody(end_of):
    done = end_of("asks_for_residence")

    assert (done.returncode, done.stdout) == (0, "answer b'\\x00'\n"), done.stderr
