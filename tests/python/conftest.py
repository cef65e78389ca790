import os
import pathlib
import subprocess

import fork_server
import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

# A run must not depend on those before it: where nothing can be kept, nothing is.
os.environ["SPILLWAY_CACHE_DIR"] = "/dev/null/steps"


@pytest.fixture(scope="session")
def root():
    """The top of the project."""
    return ROOT


@pytest.fixture(scope="session")
def real_server():
    """Forks of one process that has torch and the native library loaded."""
    server = fork_server.Server("real")
    yield server
    server.stop()


@pytest.fixture(scope="session")
def fake_server():
    """The same with a stand-in for the native library."""
    server = fork_server.Server("fake")
    yield server
    server.stop()


@pytest.fixture
def write_tree(tmp_path):
    """Writes {path: text} below a fresh folder and returns that folder."""

    def write(files):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path

    return write


@pytest.fixture
def run():
    """Runs a command and returns it finished, with its output as text."""

    def run_command(*command, **options):
        return subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)

    return run_command
