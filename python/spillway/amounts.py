"""Byte amounts as people write them, and what a percentage is a percentage of.

`8GiB`, `8G` and `8g` are binary, `8GB` is decimal, a bare number is bytes, `60%` is a share of the card, or of RAM
under its cgroup limit. Everything here is a function from text and files to bytes; nothing touches a device except
`card_bytes`.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

_UNITS = {"": 1, "b": 1}
for _power, _letter in enumerate("kmgt", start=1):
    _UNITS[_letter] = _UNITS[_letter + "ib"] = 1024**_power
    _UNITS[_letter + "b"] = 1000**_power

_AMOUNT = re.compile(r"(?P<number>\d+(?:\.\d*)?|\.\d+)\s*(?P<unit>%|[a-z]*)", re.IGNORECASE)
_ACCEPTED = "write bytes, or a number with KiB/MiB/GiB/TiB (8G is 8GiB) or kB/MB/GB/TB"
_LARGEST = 2**63 - 1  # what a signed 64-bit byte count holds


def parse_bytes(amount: int | str, whole: int | None = None, what: str = "budget", of: str | None = None) -> int:
    """The bytes `amount` stands for; `whole` is what a percentage refers to, `of` what people call that.

    ValueError names the text and the cure.
    """
    accepted = _ACCEPTED if of is None else f"{_ACCEPTED}, or a percentage such as 60% (of {of})"
    if isinstance(amount, bool) or not isinstance(amount, int | str):
        raise ValueError(f"cannot read {what} {amount!r}: {accepted}")
    match = _AMOUNT.fullmatch(str(amount).strip())
    unit = match["unit"].lower() if match else None
    if match is None or (unit != "%" and unit not in _UNITS):
        raise ValueError(f"cannot read {what} '{amount}': {accepted}")
    value = _share(match["number"], whole, what, of) if unit == "%" else _scaled(match["number"], _UNITS[unit])
    if value < 1:
        raise ValueError(f"{what} '{amount}' is less than one byte: {accepted}")
    if value > _LARGEST:
        raise ValueError(f"{what} '{amount}' is more than any machine has: {accepted}")
    return value


def _scaled(number: str, unit: int) -> int:
    # Integers stay exact; a fraction is rounded down to whole bytes.
    return int(number) * unit if number.isdigit() else int(float(number) * unit)


def _share(number: str, whole: int | None, what: str, of: str | None) -> int:
    if whole is None:
        raise ValueError(f"cannot read {what} '{number}%': a percentage has no meaning here; {_ACCEPTED}")
    if not 0 < float(number) <= 100:
        raise ValueError(f"cannot read {what} '{number}%': a percentage{f' of {of}' if of else ''} lies between 0 and 100")
    return int(whole * float(number) / 100)


def ram_bytes(root: Path = Path("/")) -> int:
    """RAM this process may use: the machine's, or less where a cgroup says so."""
    limit = cgroup_limit(root)
    total = machine_ram(root)
    return total if limit is None else min(total, limit)


def machine_ram(root: Path = Path("/")) -> int:
    meminfo = read_text(root / "proc/meminfo") or ""
    match = re.search(r"^MemTotal:\s+(\d+) kB", meminfo, re.MULTILINE)
    return int(match[1]) * 1024 if match else os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def cgroup_limit(root: Path = Path("/")) -> int | None:
    """The tightest memory limit on the way from this process's cgroup to the top, version 1 or 2; None without one."""
    limits = [limit for file in _limit_files(root) if (limit := _read_limit(file)) is not None]
    return min(limits, default=None)


def _limit_files(root: Path) -> list[Path]:
    files = []
    for line in (read_text(root / "proc/self/cgroup") or "").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers == "":
            base, name = root / "sys/fs/cgroup", "memory.max"
        elif "memory" in controllers.split(","):
            base, name = root / "sys/fs/cgroup/memory", "memory.limit_in_bytes"
        else:
            continue
        # Inside a container the path may be the host's and not exist here; then only the mounted top counts.
        here = base / path.strip("/")
        files += [folder / name for folder in (here, *here.parents) if folder == base or base in folder.parents]
    return files


def _read_limit(file: Path) -> int | None:
    text = (read_text(file) or "").strip()
    # Version 1 writes "no limit" as the largest multiple of a page in 63 bits, version 2 as the word max.
    return int(text) if text.isdigit() and int(text) < 2**62 else None


def read_text(file: Path) -> str | None:
    try:
        return file.read_text()
    except OSError:
        return None


def card_bytes(index: int) -> int:
    """Memory of one card, as torch reports it."""
    import torch

    return int(torch.cuda.get_device_properties(index).total_memory)


def to_text(amount: int) -> str:
    """`7.92 GiB`: three digits and a binary unit, as the native tool writes it."""
    size, units = abs(amount), ("B", "KiB", "MiB", "GiB", "TiB")
    power = 0
    while power + 1 < len(units) and round(size / 1024**power) >= 1024:
        power += 1
    value = size / 1024**power
    decimals = 0 if power == 0 or value >= 99.95 else 1 if value >= 9.995 else 2
    return f"{'-' if amount < 0 else ''}{value:.{decimals}f} {units[power]}"
