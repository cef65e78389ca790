"""`spillway doctor`: what this machine offers Spillway, and what is wrong with it.

Every check is a function that answers rows (what, value, problem or nothing); the table is printed, problems are repeated at
the end with what would help. Exit code 0 when nothing is wrong, 1 otherwise. Rates are measured with short copies; `--quick`
leaves them out.
"""

from __future__ import annotations

import dataclasses
import mmap
import os
import platform
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from spillway import __version__, flags, native, spill
from spillway.amounts import cgroup_limit, machine_ram, read_text, to_text

_FILE_BYTES = 256 << 20  # long enough to leave a disk's own cache behind, short enough to wait for
_LINK_BYTES = 256 << 20
_BLOCK = 4 << 20
_SMALL_SPILL = 10 << 30  # less free disk than this is used up by one mid-sized model
_SLOW_DISK = 200e6  # bytes a second: a hard disk; a moved gigabyte would take five seconds
_FEW_MAPS = 65530  # the kernel's default; an arena in granules of 2 MiB needs one map each when fragmented


@dataclasses.dataclass(frozen=True)
class Row:
    what: str
    value: str
    problem: str | None = None


def main(arguments: Sequence[str]) -> int:
    parser = flags.Parser(prog="spillway doctor", description="What this machine offers Spillway, and what is wrong with it.")
    parser.add_argument("--spill-dir", metavar="DIR", help="the folder to look at (default: the one a run would take)")
    parser.add_argument("--quick", action="store_true", help="measure no rates")
    given = parser.parse_args(arguments)
    rows = [row for check in checks(given.spill_dir, given.quick) for row in guarded(check)]
    print(table(rows))
    problems = [row for row in rows if row.problem]
    for row in problems:
        print(f"problem: {row.what}: {row.problem}")
    print(f"{len(problems)} problem{'s' * (len(problems) != 1)} found" if problems else "nothing is wrong")
    return 1 if problems else 0


def checks(spill_dir: str | None, quick: bool) -> list[Callable[[], Iterator[Row]]]:
    found = [software, library, memory, limits, lambda: spill_folder(spill_dir, quick), cards]
    return found if quick else [*found, links]


def guarded(check: Callable[[], Iterator[Row]]) -> list[Row]:
    """A check that fails is a finding, not the end."""
    rows: list[Row] = []
    try:
        for row in check():
            rows.append(row)
    except Exception as error:  # whatever a broken driver or library throws is what the user came to hear
        name = getattr(check, "__name__", "check").strip("<>").replace("lambda", "spill folder")
        rows.append(Row(name, "failed", f"{type(error).__name__}: {error}"))
    return rows


def table(rows: Sequence[Row]) -> str:
    width = max(len(row.what) for row in rows)
    return "\n".join(f"{'!' if row.problem else ' '} {row.what:<{width}}  {row.value}" for row in rows)


def software() -> Iterator[Row]:
    yield Row("spillway", f"{__version__}, Python {platform.python_version()}, Linux {platform.release()}")
    try:
        import torch
    except ImportError as error:
        yield Row("torch", "missing", f"{error}; install it with: python -m pip install 'torch=={native.TORCH_SERIES}.*'")
        return
    yield Row("torch", torch.__version__, _problem(lambda: native.check_torch(torch.__version__)))


def library() -> Iterator[Row]:
    yield Row("native library", str(native.LIBRARY), _problem(native.load))


def _problem(act: Callable[[], Any]) -> str | None:
    try:
        act()
    except (ValueError, RuntimeError, ImportError) as error:
        return str(error)
    return None


def memory() -> Iterator[Row]:
    info = dict(line.split(":", 1) for line in (read_text(Path("/proc/meminfo")) or "").splitlines() if ":" in line)

    def bytes_of(name: str) -> int:
        return int(info.get(name, "0 kB").split()[0]) * 1024

    limit = cgroup_limit()
    yield Row("RAM", f"{to_text(machine_ram())}, {to_text(bytes_of('MemAvailable'))} available, swap {to_text(bytes_of('SwapTotal'))}")
    yield Row("cgroup limit", "none" if limit is None else to_text(limit))
    pages = read_text(Path("/sys/kernel/mm/transparent_hugepage/enabled")) or ""
    never = "host memory is pinned faster in huge pages: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"
    yield Row("huge pages", pages.strip() or "unknown", never if "[never]" in pages else None)


def limits() -> Iterator[Row]:
    for name, number in (("locked memory", resource.RLIMIT_MEMLOCK), ("address space", resource.RLIMIT_AS)):
        soft, _ = resource.getrlimit(number)
        unlimited = soft == resource.RLIM_INFINITY
        problem = None if unlimited or number != resource.RLIMIT_AS else "reserving addresses needs it unlimited: ulimit -v unlimited"
        yield Row(name, "unlimited" if unlimited else to_text(soft), problem)
    maps = int(read_text(Path("/proc/sys/vm/max_map_count")) or 0)
    yield Row("memory maps", f"{maps:,}", f"few; sysctl vm.max_map_count=1048576 gives more" if 0 < maps < _FEW_MAPS else None)
    shared = shutil.disk_usage("/dev/shm") if os.path.isdir("/dev/shm") else None
    small = "DataLoader workers pass batches through it: in a container, start it with a larger --shm-size"
    tight = shared is not None and shared.total < 1 << 30
    yield Row("/dev/shm", "missing" if shared is None else to_text(shared.total), small if tight else None)


def spill_folder(given: str | None, quick: bool) -> Iterator[Row]:
    folder = Path(given) if given is not None else spill.find_default()
    if folder is None:
        yield Row("spill folder", "none", "the temporary folder is memory or cannot be written: give runs a --spill-dir on a disk")
        return
    try:
        spill.check_folder(folder)
    except ValueError as error:
        yield Row("spill folder", str(folder), str(error))
        return
    free = shutil.disk_usage(folder).free
    little = f"only {to_text(free)} free: name a larger one with --spill-dir" if free < _SMALL_SPILL else None
    yield Row("spill folder", f"{folder} ({spill.find_filesystem(folder)}), {to_text(free)} free", little)
    if not quick and free > 2 * _FILE_BYTES:
        yield from file_rates(folder)


def file_rates(folder: Path) -> Iterator[Row]:
    wrote, read, direct = measure_file(folder, _FILE_BYTES)
    slow = "slower than a solid-state disk: moves to it will dominate a step" if min(wrote, read) < _SLOW_DISK else None
    yield Row("spill rates", f"{_rate(wrote)} written, {_rate(read)} read{'' if direct else ' (through the page cache)'}", slow)


def measure_file(folder: Path, size: int) -> tuple[float, float, bool]:
    """Bytes a second written and read, past the page cache where the file system allows."""
    block = mmap.mmap(-1, _BLOCK)  # page-aligned, as direct access asks
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        try:
            descriptor = os.open(file.name, os.O_RDWR | os.O_DIRECT)
            os.pwrite(descriptor, block, 0)
            direct = True
        except OSError:
            descriptor, direct = os.open(file.name, os.O_RDWR), False
        try:
            wrote = _timed(lambda: [os.pwrite(descriptor, block, at) for at in range(0, size, _BLOCK)] and os.fsync(descriptor))
            read = _timed(lambda: [os.preadv(descriptor, [block], at) for at in range(0, size, _BLOCK)])
        finally:
            os.close(descriptor)
    return size / wrote, size / read, direct


def _timed(act: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    act()
    return max(time.perf_counter() - begin, 1e-9)


def _rate(bytes_per_second: float) -> str:
    return f"{bytes_per_second / 1e9:.2f} GB/s"


def cards() -> Iterator[Row]:
    import torch

    yield Row("CUDA of torch", torch.version.cuda or "none (a CPU build)")
    if not torch.cuda.is_available():
        driver = "a driver is there, but torch cannot use it" if os.path.exists("/proc/driver/nvidia/version") else None
        yield Row("cards", "none: runs go to the CPU", driver)
        return
    version = torch._C._cuda_getDriverVersion()
    yield Row("driver", f"CUDA {version // 1000}.{version % 1000 // 10}")
    for index in range(torch.cuda.device_count()):
        card = torch.cuda.get_device_properties(index)
        free, total = torch.cuda.mem_get_info(index)
        used = total - free
        busy = f"{to_text(used)} of it are taken by others" if used > total // 10 else None
        yield Row(f"cuda:{index}", f"{card.name}, {to_text(total)}, capability {card.major}.{card.minor}", busy)


def links() -> Iterator[Row]:
    """Rates between pinned host memory and each card, each way; they decide whether moving beats recomputing."""
    import torch

    if not torch.cuda.is_available():
        return
    host = torch.empty(_LINK_BYTES, dtype=torch.uint8, pin_memory=True)
    for index in range(torch.cuda.device_count()):
        device = torch.empty(_LINK_BYTES, dtype=torch.uint8, device=f"cuda:{index}")
        out = _copy_rate(host, device)
        back = _copy_rate(device, host)
        slow = "slower than PCIe 3.0 x8: is the card in a narrow slot?" if min(out, back) < 6e9 else None
        yield Row(f"link of cuda:{index}", f"{_rate(back)} in, {_rate(out)} out", slow)


def _copy_rate(target: Any, source: Any) -> float:
    import torch

    def copy() -> None:
        target.copy_(source, non_blocking=True)
        torch.cuda.synchronize()

    copy()
    return source.numel() / min(_timed(copy) for _ in range(3))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
