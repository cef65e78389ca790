"""Who was dropped comes back, even where what it is made from is about to change, or died, and does not fit all at once."""

import pathlib

from harness import run_python

SCRIPT = pathlib.Path(__file__).with_name("heirs.py")


def run(*words: str) -> tuple[str, int, int]:
    done = run_python(SCRIPT, *words)
    assert done.returncode == 0, done.stderr
    text, again, left = done.stdout.split()
    return text, int(again), int(left)


def test_an_heir_that_does_not_fit_beside_the_arguments_is_rebuilt_before_them():
    found, again, _ = run("overwritten", "dtr")

    assert found == run("overwritten")[0]
    assert again > 0


def test_a_chain_whose_dead_links_do_not_fit_at_once_comes_back_link_by_link():
    found, again, left = run("chain", "dtr")

    assert found == run("chain")[0]
    assert again > 0
    assert left < 1 << 16, "links nobody needs any more still have their memory"


def test_a_dispatch_mode_of_the_program_does_not_see_what_runs_again():
    found, again, _ = run("watched", "dtr")

    assert found == run("watched")[0]
    assert again > 0
