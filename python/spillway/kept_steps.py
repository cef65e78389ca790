"""The folder where planned runs keep what they recorded and their plans, for the next run of the same script. Safe to delete at any time."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

MOST_FILES = 64  # a few hundred kilobytes each; the oldest go


class CacheWarning(UserWarning):
    """What a run before left cannot be used, or this run can leave nothing."""


def find_folder(given: bool | str | os.PathLike[str]) -> str | None:
    """The folder, made if it was not there. ValueError for one that was asked for and cannot be written."""
    if given is False:
        return None
    folder = default_folder() if given is True else Path(given)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(13, "Permission denied")
        forget_oldest(folder)
    except (OSError, RuntimeError) as error:
        if given is True:  # a home that is not there, or not to be written, is no reason to stop
            return None
        raise ValueError(f"cannot keep steps in the folder {folder}: {getattr(error, 'strerror', None) or error}") from error
    return str(folder.absolute())


def default_folder() -> Path:
    """As SPILLWAY_CACHE_DIR says, or under the user's cache folder."""
    if named := os.environ.get("SPILLWAY_CACHE_DIR"):
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "spillway"


def forget_oldest(folder: Path, most: int = MOST_FILES) -> None:
    files = sorted(folder.glob("*.steps"), key=lambda file: file.stat().st_mtime)
    for file in files[: max(len(files) - most, 0)]:
        file.unlink(missing_ok=True)


def writer(device: str) -> str:
    """Who writes there: what others recorded is of other operators or other times."""
    import torch

    from spillway import __version__

    name = "the CPU" if device == "cpu" else torch.cuda.get_device_name(int(device.partition(":")[2]))
    return f"Spillway {__version__} with torch {torch.__version__} on {name}"


def tell_problem(stats: dict[str, Any]) -> None:
    if problem := (stats.get("cache") or {}).get("problem"):
        warnings.warn_explicit(problem, CacheWarning, filename="<spillway>", lineno=1)  # no line of the program has to do with it
