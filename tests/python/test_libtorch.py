"""A libtorch program of its own project finds Spillway with find_package, trains inside a budget, and has the plain bits."""

import re
import subprocess

import pytest

import spillway


@pytest.fixture(scope="module")
def build(root):
    """Builds a CMake project over the package in use; the folder stays, so that the second time takes no time."""

    def configure_and_build(project, target):
        folder = root / "build" / "libtorch" / target
        package = f"-Dspillway_ROOT={spillway.__path__[0]}"
        for command in (["cmake", "-S", root / project, "-B", folder, "-G", "Ninja", package], ["cmake", "--build", folder]):
            done = subprocess.run(command, capture_output=True, text=True)
            assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
        return folder / target

    return configure_and_build


def test_the_example_trains_inside_its_budget_to_the_plain_bits(run, build):
    done = run(build("examples/libtorch", "libtorch_train"))

    assert done.returncode == 0, done.stdout + done.stderr
    budget, peak, plain = map(int, re.search(r"budget (\d+), peak (\d+), plain peak (\d+)", done.stdout).groups())
    assert peak <= budget < plain / 3
    assert done.stdout.endswith("0 of 22 tensors differ\n")


def test_the_public_header_keeps_its_promises(run, build):
    done = run(build("tests/libtorch", "checks"))

    assert (done.returncode, done.stdout) == (0, "0 failures\n"), done.stderr
