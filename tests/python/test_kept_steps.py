"""The folder of kept steps: where it is, what happens where it cannot be, and that it stays small."""

import os

import pytest

from spillway import kept_steps


def test_the_folder_is_the_users_cache_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("SPILLWAY_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert kept_steps.find_folder(True) == str(tmp_path / "spillway")
    assert (tmp_path / "spillway").is_dir()


def test_no_folder_is_no_reason_to_stop_unless_it_was_asked_for(monkeypatch):
    monkeypatch.setenv("SPILLWAY_CACHE_DIR", "/dev/null/steps")
    assert kept_steps.find_folder(True) is None
    assert kept_steps.find_folder(False) is None
    with pytest.raises(ValueError, match="cannot keep steps in the folder /dev/null/x: Not a directory"):
        kept_steps.find_folder("/dev/null/x")


def test_the_oldest_files_go(tmp_path):
    for number in range(5):
        file = tmp_path / f"{number}.steps"
        file.write_text("")
        os.utime(file, (number, number))
    kept_steps.forget_oldest(tmp_path, most=2)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["3.steps", "4.steps"]


def test_a_problem_is_told_as_a_warning_and_nothing_is_not():
    with pytest.warns(kept_steps.CacheWarning, match="damaged"):
        kept_steps.tell_problem({"cache": {"warm": False, "problem": "it is damaged"}})
    kept_steps.tell_problem({"cache": {"warm": True, "problem": None}})
    kept_steps.tell_problem({})
