"""`spillway doctor`: facts of this machine, and each problem it knows of, provoked."""

import resource
import types

import pytest
import torch

from fake_library import FakeLibrary
from spillway import doctor, native, spill


@pytest.fixture(autouse=True)
def library(monkeypatch):
    monkeypatch.setattr(native, "load", FakeLibrary)


def rows_of(check):
    return {row.what: row for row in doctor.guarded(check)}


def test_a_healthy_machine_gives_exit_code_zero_and_a_table(capsys, monkeypatch):
    monkeypatch.setattr(doctor, "checks", lambda spill_dir, quick: [lambda: iter([doctor.Row("torch", "2.11.0")])])
    assert doctor.main([]) == 0
    assert capsys.readouterr().out == "  torch  2.11.0\nnothing is wrong\n"


def test_a_problem_is_marked_repeated_and_gives_exit_code_one(capsys, monkeypatch):
    monkeypatch.setattr(doctor, "checks", lambda spill_dir, quick: [lambda: iter([doctor.Row("disk", "full", "delete something")])])
    assert doctor.main([]) == 1
    assert capsys.readouterr().out == "! disk  full\nproblem: disk: delete something\n1 problem found\n"


def test_this_machine_is_described(capsys, tmp_path):
    assert doctor.main(["--quick", "--spill-dir", str(tmp_path)]) in (0, 1)
    out = capsys.readouterr().out
    for what in ("torch", "native library", "RAM", "cgroup limit", "locked memory", "spill folder", "cards" if not torch.cuda.is_available() else "cuda:0"):
        assert what in out
    assert torch.__version__ in out


def test_torch_of_another_version_is_a_problem(monkeypatch):
    monkeypatch.setattr(torch, "__version__", "2.12.0")
    assert "built for torch 2.11.x" in rows_of(doctor.software)["torch"].problem


def test_a_library_that_does_not_load_is_a_problem(monkeypatch):
    def fail():
        raise RuntimeError("the native library is missing (somewhere)")

    monkeypatch.setattr(native, "load", fail)
    assert "missing" in rows_of(doctor.library)["native library"].problem


def test_a_check_that_breaks_is_a_finding():
    def broken():
        yield doctor.Row("first", "fine")
        raise OSError("driver gone")

    rows = rows_of(broken)
    assert rows["first"].problem is None
    assert rows["broken"].problem == "OSError: driver gone"


def test_a_limited_address_space_is_a_problem(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda number: (1 << 30, 1 << 30))
    rows = rows_of(doctor.limits)
    assert "ulimit -v unlimited" in rows["address space"].problem
    assert rows["locked memory"].value == "1.00 GiB"


def test_a_small_shared_memory_is_a_problem(monkeypatch):
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda path: types.SimpleNamespace(total=64 << 20, free=0))
    assert "--shm-size" in rows_of(doctor.limits)["/dev/shm"].problem


@pytest.mark.parametrize("folder, says", [("/nowhere/at/all", "does not exist"), ("/dev/shm", "memory")])
def test_an_unusable_spill_folder_is_a_problem(folder, says):
    assert says in rows_of(lambda: doctor.spill_folder(folder, quick=True))["spill folder"].problem


def test_no_spill_folder_at_all_is_a_problem(monkeypatch):
    monkeypatch.setattr(spill, "find_default", lambda: None)
    assert "--spill-dir" in rows_of(lambda: doctor.spill_folder(None, quick=True))["spill folder"].problem


def test_a_full_disk_is_a_problem(monkeypatch, tmp_path):
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda path: types.SimpleNamespace(total=1 << 40, free=1 << 20))
    assert "1.00 MiB free" in rows_of(lambda: doctor.spill_folder(str(tmp_path), quick=False))["spill folder"].problem


def test_rates_of_the_spill_folder_are_measured(tmp_path):
    wrote, read, _ = doctor.measure_file(tmp_path, 8 << 20)
    assert wrote > 0 and read > 0
    assert list(tmp_path.iterdir()) == []


def test_a_slow_disk_is_a_problem(monkeypatch, tmp_path):
    monkeypatch.setattr(doctor, "measure_file", lambda folder, size: (50e6, 3e9, True))
    (row,) = doctor.file_rates(tmp_path)
    assert row.value == "0.05 GB/s written, 3.00 GB/s read" and "dominate" in row.problem


def test_a_driver_torch_cannot_use_is_a_problem(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(doctor.os.path, "exists", lambda path: True)
    assert "cannot use it" in rows_of(doctor.cards)["cards"].problem


def test_bad_flags_are_one_sentence_and_exit_code_two(capsys):
    with pytest.raises(SystemExit) as end:
        doctor.main(["--no-such-flag"])
    assert end.value.code == 2
    assert capsys.readouterr().err.startswith("spillway doctor: ")
