"""Nothing is rebuilt from a tensor whose address somebody outside has: the bytes may have changed unseen."""

import pathlib

import pytest
from harness import run_python

SCRIPT = pathlib.Path(__file__).with_name("outside_writes.py")


def digest(*words: str) -> tuple[str, int]:
    done = run_python(SCRIPT, *words)
    assert done.returncode == 0, done.stderr
    text, left = done.stdout.split()
    return text, int(left)


@pytest.mark.parametrize("how", ["numpy", "dlpack", "to_dlpack", "data_ptr"])
def test_what_was_made_before_an_outside_write_keeps_its_bits(how):
    found, left = digest(how, "dtr")

    assert found == digest(how)[0]
    assert left > 0
