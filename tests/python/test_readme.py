"""What README.md tells people to type does what it says. A block nobody here knows how to run fails the test."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from spillway import native

ROOT = Path(__file__).resolve().parent.parent.parent
BIN = Path(sys.executable).parent
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)

pytestmark = pytest.mark.skipif(not native.LIBRARY.exists(), reason=f"{native.LIBRARY} is not built")

TRAINS = """
import torch
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    model(torch.randn(32, 64)).square().mean().backward()
    optimizer.step()
"""


def commands(block: str) -> list[str]:
    """Lines to type, without comments; in a transcript those behind a dollar sign."""
    lines = block.splitlines()
    typed = [line[2:] for line in lines if line.startswith("$ ")] or lines
    return [line.split("#")[0].strip() for line in typed if line.split("#")[0].strip()]


def shell_blocks():
    return [block for language, block in BLOCKS if language == "sh" or block.startswith("$ ")]


COMMANDS = [(command, block) for block in shell_blocks() for command in commands(block)]


def shell(command: str, folder: Path) -> subprocess.CompletedProcess:
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(command, shell=True, cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=300)


@pytest.fixture
def folder(tmp_path):
    """Where a reader would be: their script beside the project's examples."""
    (tmp_path / "train.py").write_text(TRAINS)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    return tmp_path


def shape(text: str) -> list[str]:
    """A transcript without its figures, which are a machine's own."""
    return [re.sub(r"\s+", " ", re.sub(r"[\d.,]+ ?(?:[KMG]iB|s\b|%)?", "#", line)).strip() for line in text.splitlines()]


def names_of(lines: list[str]) -> list[str]:
    """Whether there is a plan after a few steps depends on how busy the machine is."""
    return [name for line in lines if (name := line.split(" ")[0]) != "plan"]


@pytest.mark.parametrize("command, block", [pytest.param(*each, id=each[0]) for each in COMMANDS])
def test_a_command_of_the_readme_works(command, block, folder):
    if command.startswith("make"):
        # What it runs is this very test, or long: that the goal exists and its first step can be found is shown here.
        done = shell(f"{command.replace('/path/to/python', sys.executable)} --dry-run", ROOT)
        assert done.returncode == 0, done.stderr
        assert "tools/setup" in done.stdout
        return
    assert command.startswith("spillway "), f"nobody knows how to run {command!r}"
    done = shell(command, folder)

    assert done.returncode == 0, done.stderr
    if block.startswith("$ "):
        told = [line for line in shape(block) if not line.startswith("$")]
        said = shape(done.stdout) + shape(done.stderr)
        assert names_of(said) == names_of(told)


def test_every_command_in_the_text_exists():
    named = set(re.findall(r"`spillway (\w+)", (ROOT / "README.md").read_text()))
    assert {"run", "verify", "doctor", "export"} <= named
    for name in sorted(named):
        done = subprocess.run([shutil.which("spillway", path=str(BIN)), name, "--help"], capture_output=True, text=True)
        assert done.returncode == 0, f"spillway {name}: {done.stderr}"


def test_the_functions_in_the_text_exist():
    import spillway

    for name in re.findall(r"`(?:with )?spillway\.(\w+)\(", (ROOT / "README.md").read_text()):
        assert callable(getattr(spillway, name))
