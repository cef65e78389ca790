"""How fast a card and its link are, measured once per machine and kept in the cache folder: what operators take is estimated from it
before any ran, and plans reckon with what copies take, and with what they cost the kernels beside them.

A file that is missing or damaged is measured anew; one that cannot be written does no harm, nor does a card too full to be measured.
Where nothing is kept every process measures once: 0.13 s on an H200 (`measure_card("cuda")` a second time), and the first time as much
again and more for libraries that the program would have loaded a little later.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from pathlib import Path

FILE = "rates.json"
NAMES = ("bytes_per_nano", "half_flops_per_nano", "single_flops_per_nano", "out_bytes_per_nano", "in_bytes_per_nano", "out_price", "in_price")
COPIED, WIDTH, ROUNDS = 128 << 20, 4096, 5  # larger than any cache on a card; wide enough for dense arithmetic
BESIDE = 8  # pairs of kernels beside copies: some milliseconds
LEAST_PRICE = 1e-6  # nanoseconds of compute a byte: what is not seen is little, not nothing

Rates = dict[str, float]

_measured_here: dict[str, Rates] = {}  # by this process: the file may not be there the next time, or never


def find_rates(folder: str | None, machine: str, measure: Callable[[], Rates]) -> Rates | None:
    """Those of this machine from the folder's file, measured and added to it where there are none. None: they cannot be had.
    Where the folder keeps nothing they are kept as long as the process."""
    file = None if folder is None else Path(folder) / FILE
    known = {} if file is None else _read(file)
    if _is_whole(known.get(machine)):
        return known[machine]
    if machine not in _measured_here:
        try:
            _measured_here[machine] = measure()
        except RuntimeError:  # torch's word for a card without room
            return None
    if file is not None:
        _write(file, known | {machine: _measured_here[machine]})
    return _measured_here[machine]


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
    """Before there is a budget; what it takes is given back."""
    import torch

    with torch.cuda.device(device):
        rates = _measure_kernels(device) | _measure_link(device)
        torch._C._cuda_clearCublasWorkspaces()
        torch.cuda.empty_cache()
    return rates


def _fastest(work: Callable[[], object], before: Callable[[], object] = lambda: None) -> float:
    import torch

    times = []
    for _ in range(ROUNDS):
        torch.cuda.synchronize()
        before()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        work()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e6)
    return min(times)


def _measure_kernels(device: str) -> Rates:
    """A copy and two matrix products."""
    import torch

    def product(dtype: torch.dtype) -> float:
        left = torch.ones(WIDTH, WIDTH, device=device, dtype=dtype)
        into = torch.empty_like(left)
        return 2.0 * WIDTH**3 / _fastest(lambda: torch.mm(left, left, out=into))

    source = torch.ones(COPIED, device=device, dtype=torch.uint8)
    into = torch.empty_like(source)
    copied = 2.0 * COPIED / _fastest(lambda: into.copy_(source))
    return dict(zip(NAMES[:3], (copied, product(torch.bfloat16), product(torch.float32)), strict=True))


def _measure_link(device: str) -> Rates:
    """Copies to and from pinned memory, alone; then kernels, alone and beside them."""
    import torch

    here, there = torch.ones(COPIED, dtype=torch.uint8), torch.ones(COPIED, device=device, dtype=torch.uint8)
    left = torch.linspace(-1, 1, WIDTH * WIDTH, device=device).view(WIDTH, WIDTH).bfloat16()  # no draw: the program's random stream is its own
    product, copy, aside = torch.empty_like(left), torch.empty_like(there), torch.cuda.Stream()
    runtime = torch.cuda.cudart()
    torch.cuda.check_error(int(runtime.cudaHostRegister(here.data_ptr(), COPIED, 0)))

    def kernels() -> None:
        for _ in range(BESIDE):
            torch.mm(left, left, out=product)
            copy.copy_(there)

    def price(move: Callable[[], object], rate: float) -> float:
        def enqueue() -> None:
            with torch.cuda.stream(aside):
                for _ in range(int(2 * alone * rate / COPIED) + 1):  # more than enough to outlast the kernels
                    move()

        return max((_fastest(kernels, enqueue) - alone) / (alone * rate), LEAST_PRICE)

    try:
        moves = (lambda: here.copy_(there, non_blocking=True), lambda: there.copy_(here, non_blocking=True))
        rates = [COPIED / _fastest(move) for move in moves]
        kernels()
        alone = _fastest(kernels)
        return dict(zip(NAMES[3:], (*rates, *(price(move, rate) for move, rate in zip(moves, rates, strict=True))), strict=True))
    finally:
        torch.cuda.synchronize()
        runtime.cudaHostUnregister(here.data_ptr())
