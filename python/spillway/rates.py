"""How fast a card is, measured once per machine and kept in the cache folder: what operators take is estimated from it before any ran.

A file that is missing or damaged is measured anew; one that cannot be written does no harm, nor does a card too full to be measured.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from pathlib import Path

FILE = "rates.json"
NAMES = ("bytes_per_nano", "half_flops_per_nano", "single_flops_per_nano")
COPIED, WIDTH, ROUNDS = 128 << 20, 4096, 5  # larger than any cache on a card; wide enough for dense arithmetic

Rates = dict[str, float]


def find_rates(folder: str, machine: str, measure: Callable[[], Rates]) -> Rates | None:
    """Those of this machine from the folder's file, measured and added to it where there are none. None: they cannot be had."""
    file = Path(folder) / FILE
    known = _read(file)
    if not _is_whole(known.get(machine)):
        try:
            known[machine] = measure()
        except RuntimeError:  # torch's word for a card without room
            return None
        _write(file, known)
    return known[machine]


def _is_whole(rates: object) -> bool:
    return isinstance(rates, dict) and all(isinstance(rates.get(name), float) and rates[name] > 0 for name in NAMES)


def _read(file: Path) -> dict[str, Rates]:
    try:
        known = json.loads(file.read_text())
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def _write(file: Path, known: dict[str, Rates]) -> None:
    unfinished = file.with_suffix(f".{os.getpid()}.part")
    try:
        unfinished.write_text(json.dumps(known, indent=1) + "\n")
        os.replace(unfinished, file)
    except OSError:
        with contextlib.suppress(OSError):
            unfinished.unlink()


def measure_card(device: str) -> Rates:
    """A copy and two matrix products, before there is a budget; what they took is given back."""
    import torch

    def fastest(work: Callable[[], object]) -> float:
        times = []
        for _ in range(ROUNDS):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            work()
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end) * 1e6)
        return min(times)

    def product(dtype: torch.dtype) -> float:
        left = torch.ones(WIDTH, WIDTH, device=device, dtype=dtype)
        into = torch.empty_like(left)
        return 2.0 * WIDTH**3 / fastest(lambda: torch.mm(left, left, out=into))

    def copy() -> float:
        source = torch.ones(COPIED, device=device, dtype=torch.uint8)
        into = torch.empty_like(source)
        return 2.0 * COPIED / fastest(lambda: into.copy_(source))

    with torch.cuda.device(device):
        rates = dict(zip(NAMES, (copy(), product(torch.bfloat16), product(torch.float32)), strict=True))
        torch._C._cuda_clearCublasWorkspaces()
        torch.cuda.empty_cache()
    return rates
