"""Who was dropped comes back before what it is made from changes, even where that does not fit beside the op's arguments."""

import pathlib
import subprocess
import sys

SCRIPT = pathlib.Path(__file__).with_name("heirs.py")


def digest(*words: str) -> tuple[str, int]:
    done = subprocess.run([sys.executable, str(SCRIPT), *words], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    text, again = done.stdout.split()
    return text, int(again)


def test_an_heir_that_does_not_fit_beside_the_arguments_is_rebuilt_before_them():
    found, again = digest("dtr")

    assert found == digest()[0]
    assert again > 0
