"""`pip install .` from a clean copy into a new environment: the same package and command as the staged build."""

import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig

import pytest

import spillway
from spillway import native

pytestmark = pytest.mark.long


def copy_sources(root, target):
    """What a clone would hold once the working tree is committed, and nothing that was built."""
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                            cwd=root, check=True, capture_output=True, text=True).stdout
    for name in filter(None, listed.split("\0")):
        if (root / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, target / name)


@pytest.fixture(scope="module")
def installed(tmp_path_factory, root):
    """A fresh environment that sees the packages of this one through a .pth file, with a copy installed in it."""
    folder = tmp_path_factory.mktemp("install")
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}

    def run(*command):
        subprocess.run([str(part) for part in command], check=True, env=environment, cwd=folder)

    copy_sources(root, folder / "copy")
    run(sys.executable, "-m", "venv", folder / "venv")
    python = folder / "venv/bin/python"
    packages = pathlib.Path(sysconfig.get_path("purelib", vars={"base": str(folder / "venv")}))
    (packages / "outer.pth").write_text(sysconfig.get_path("purelib") + "\n")
    run(python, "-m", "pip", "install", "--quiet", "--no-build-isolation", "--no-deps", folder / "copy")
    return python


def test_the_command_is_there_and_has_the_same_version(installed, run):
    done = run(installed.parent / "spillway", "--version", cwd="/")
    assert done.returncode == 0
    assert done.stdout.startswith(f"spillway {spillway.__version__} (torch 2.11.")


def test_the_package_holds_the_same_native_parts_as_the_staged_one(installed, run):
    ask = "from spillway import native; print(native.TOOL, native.TOOL.exists(), native.LIBRARY.exists())"
    tool, has_tool, has_library = run(installed, "-c", ask, cwd="/").stdout.split()
    assert pathlib.Path(tool).is_relative_to(installed.parent.parent)
    assert (has_tool, has_library) == (str(native.TOOL.exists()), str(native.LIBRARY.exists()))


def test_its_native_tool_lists_the_same_commands(installed, run):
    assert run(installed.parent / "spillway", "--help", cwd="/").stdout == run(native.TOOL, "--help").stdout
