"""A loan of memory ends with whoever took it: until then the tensor stays, afterwards it is as evictable as any other."""

import functools
import pathlib
import subprocess

import pytest
from harness import run_python

SCRIPT = pathlib.Path(__file__).with_name("loans.py")
HOOK = {"numpy": "numpy", "asarray": "numpy", "dlpack": "dlpack", "capsule": "dlpack"}


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return run_python(SCRIPT, *words)


@functools.cache
def plain(how: str) -> str:
    return run(how, "plain").stdout


@pytest.mark.parametrize("policy", ["lru", "dtr"])
@pytest.mark.parametrize("how", HOOK)
def test_what_was_lent_stays_and_then_leaves_with_what_was_written(how, policy):
    done = run(how, policy)

    assert done.returncode == 0, done.stderr
    assert done.stdout == plain(how) != ""


@pytest.mark.parametrize("how", HOOK)
def test_without_the_hook_it_does_not(how):
    done = run(how, "dtr", HOOK[how], *(["numpy"] if how == "capsule" else []))

    assert done.returncode != 0 or done.stdout != plain(how)
