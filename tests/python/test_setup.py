"""tools/setup where something is missing: one sentence, the command that would help, exit code 1."""

import os
import pathlib
import stat
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture
def setup(run, tmp_path):
    """Runs bash with tools/setup's functions defined, its logs in a folder of their own, and nothing chosen."""

    def run_setup(script, **environment):
        chosen = {key: value for key, value in os.environ.items() if key not in ("PYTHON", "VIRTUAL_ENV", "SPILLWAY_CXX")}
        prepared = f'source "{ROOT}/tools/setup"; log_folder="{tmp_path}/log" refused="{tmp_path}/refused"; preset=dev python= compiler=g++\n{script}'
        return run("bash", "-c", prepared, env={**chosen, **environment})

    return run_setup


def program(folder, name, script):
    path = folder / name
    path.write_text(script)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def sentence(done):
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    return lines[0]


def test_missing_packages_without_root_ask_for_sudo(setup):
    said = sentence(setup('is_root() { false; }; is_there() { [[ $2 != cmake ]]; }; set_up_system'))
    assert said.endswith("sudo apt-get install -y cmake ")


def test_packages_that_cannot_be_installed_give_the_command_to_try(setup):
    done = setup('is_root() { true; }; is_there() { [[ $2 != cmake ]]; }; apt_install() { echo no network; false; }; set_up_system')
    assert "apt-get update && apt-get install -y cmake" in sentence(done)
    assert "  | no network" in done.stdout


def test_optional_packages_are_only_missed_and_asked_for_once(setup):
    script = 'is_root() { true; }; is_there() { [[ $2 != rapidcheck.h ]]; }; apt_install() { false; }; set_up_system'
    done = setup(script)
    assert done.returncode == 0
    assert "without librapidcheck-dev (optional): what needs them is skipped" in done.stdout
    again = setup(script)
    assert (again.returncode, again.stdout) == (0, "")


def test_nothing_missing_installs_nothing_and_says_nothing(setup):
    done = setup('is_there() { true; }; apt_install() { echo called; }; set_up_system')
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_an_old_compiler_is_refused_with_the_way_to_choose_another(setup, tmp_path):
    old = program(tmp_path, "g++-old", "#!/bin/sh\necho 11.4.0\n")
    said = sentence(setup("main", SPILLWAY_CXX=str(old)))
    assert "version 11.4.0" in said and "make CXX=g++-12 test" in said


def test_a_compiler_that_is_not_there_is_named(setup):
    assert "there is no compiler g++-nowhere" in sentence(setup("main", SPILLWAY_CXX="g++-nowhere"))


def test_too_little_disk_is_told_before_anything_is_fetched(setup):
    said = sentence(setup('df() { echo Avail; echo 3145728; }; check_disk 8 "torch with its CUDA libraries"'))
    assert "needs about 8 GiB and only 3 GiB are free" in said


def test_a_python_that_is_no_program_is_refused(setup):
    assert "PYTHON=/nowhere/python is not a program" in sentence(setup("set_up_python", PYTHON="/nowhere/python"))


def test_a_python_without_torch_is_refused_with_the_command_to_install_it(setup, tmp_path, run):
    assert run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare").returncode == 0
    bare = tmp_path / "bare/bin/python"
    said = sentence(setup("set_up_python", PYTHON=str(bare)))
    assert "has no torch" in said and f"{bare} -m pip install torch==2.11.0" in said


def with_torch(folder, version):
    """A Python whose torch is nothing but its version file."""
    package = folder / "packages" / "torch"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "version.py").write_text(f"__version__ = '{version}'\n")
    return program(folder, "python", f'#!/bin/sh\nPYTHONPATH={folder}/packages exec {sys.executable} "$@"\n')


def test_another_torch_is_refused_by_its_version(setup, tmp_path):
    assert "has torch 2.9.1+cu128" in sentence(setup("set_up_python", PYTHON=str(with_torch(tmp_path, "2.9.1+cu128"))))


def test_the_right_torch_is_used_and_nothing_is_installed(setup, tmp_path):
    python = with_torch(tmp_path, "2.11.0+cu130")
    done = setup('fill_venv() { echo called; }; set_up_python; echo "uses $python"', PYTHON=str(python))
    assert done.stdout == f"uses {python}\n"


def test_an_active_environment_with_the_right_torch_is_used(setup, tmp_path):
    (tmp_path / "bin").mkdir()
    python = with_torch(tmp_path, "2.11.0")
    python.rename(tmp_path / "bin/python")
    done = setup('fill_venv() { echo called; }; set_up_python; echo "uses $python"', VIRTUAL_ENV=str(tmp_path))
    assert done.stdout == f"uses {tmp_path}/bin/python\n"


def test_pip_failing_gives_the_end_of_its_log_and_the_way_out(setup):
    done = setup('own_python() { :; }; suits() { true; }; cmp() { false; }; fill_venv() { echo no route; false; }; set_up_python')
    assert "make PYTHON=/path/to/python test" in sentence(done)
    assert "  | no route" in done.stdout


def test_a_failing_phase_shows_the_last_twenty_lines_and_returns_the_exit_code(setup, tmp_path):
    done = setup("phase noisy 'making noise' bash -c 'seq 100; exit 7'")
    assert done.returncode == 7
    assert "  | 81\n" in done.stdout and "  | 80\n" not in done.stdout
    assert f"{tmp_path}/log/noisy.log" in done.stdout
