"""The folder below memory: which file system it is on, and whether moved bytes may go there."""

from __future__ import annotations

import errno
import os
import re
import tempfile
from pathlib import Path

from spillway.amounts import read_text

_LEAST_ROOM = 1 << 20  # with less nothing can leave; allocated and given back, because quotas are not in any table
_IN_MEMORY = ("tmpfs", "ramfs", "devtmpfs", "hugetlbfs")


def find_filesystem(path: Path, mounts: str | None = None) -> str:
    """The type of the file system a folder is on (`ext4`, `tmpfs`), by the longest mount point above it."""
    mounts = (read_text(Path("/proc/self/mountinfo")) or "") if mounts is None else mounts
    where = os.path.realpath(path)
    best, kind = -1, "unknown"
    for line in mounts.splitlines():
        left, _, right = line.partition(" - ")
        point = _unescaped(left.split()[4])
        inside = where == point or where.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= best:  # of two mounts on one point the later one is seen
            best, kind = len(point), right.split()[0]
    return kind


def _unescaped(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def is_in_memory(path: Path) -> bool:
    return find_filesystem(path) in _IN_MEMORY


def check_folder(path: Path) -> Path:
    """The folder itself, or a ValueError saying why nothing can be spilled there."""
    if not path.is_dir():
        raise ValueError(f"the spill directory {path} does not exist or is not a directory")
    if is_in_memory(path):
        raise ValueError(f"the spill directory {path} is on {find_filesystem(path)}, which is memory: choose one on a disk")
    try:
        with tempfile.TemporaryFile(dir=path) as file:
            os.posix_fallocate(file.fileno(), 0, _LEAST_ROOM)
            return path
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        why = f"has no room for {_LEAST_ROOM >> 20} MiB" if full else "cannot be written"
        raise ValueError(f"the spill directory {path} {why}: {error.strerror}") from error


def find_default() -> Path | None:
    """The system's temporary folder, or /var/tmp where that one is memory; None when neither is usable."""
    for candidate in (tempfile.gettempdir(), "/var/tmp"):
        try:
            return check_folder(Path(candidate))
        except ValueError:
            continue
    return None
