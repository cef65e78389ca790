"""Switching Spillway on and off inside a program: `enable`, `disable`, `step`, `stats`, `budget`, `set_budget`,
`resident`.

The words are those of the command line. One engine per process; `enable` may come at any time, after CUDA is initialised
and in a notebook too. While it is on, backward runs on the calling thread, because replays must share the forward's
thread-local library plans; `disable` restores the setting.
"""

from __future__ import annotations

import contextlib
import gc
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from spillway import alloc_conf, already, card, hooks, kept_steps, native, rates, roles, spill
from spillway.amounts import card_bytes, parse_bytes, ram_bytes, to_text
from spillway.steps import StepWatcher

DEFAULT_POLICY = "hybrid"
REACTIVE = ("dtr", "lru")  # they record nothing
WORKSPACES = ("plain", "adaptive")
ALLOCATORS = ("spillway", "native")


class _Job:
    """What Python holds of a job besides the engine: the watcher of steps, the hooks, the setting to restore."""

    def __init__(self, library: native.Library, options: dict[str, Any], words: dict[str, Any]) -> None:
        self.library = library
        self.options = options
        self.words = words  # of enable(), as they were given
        self.watcher = StepWatcher(self._step, self._set_phase, self._tell_roles)
        self.there_before: frozenset[int] = frozenset()  # storages on the CPU that are not ours
        self._cache_is_new = "cache_dir" in options
        self._multithreading_before = True
        self._undo_card: Any = None

    def start(self) -> None:
        import torch

        self._multithreading_before = torch._C._is_multithreading_enabled()
        torch._C._set_multithreading_enabled(False)
        try:
            hooks.install(self.library)
            self.watcher.start()
            if self.options["device"] != "cpu":
                self._undo_card = card.budget_terms()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        import torch

        self.watcher.stop()
        hooks.remove()
        if self._undo_card is not None:
            self._undo_card()
        torch._C._set_multithreading_enabled(self._multithreading_before)

    def _step(self) -> None:
        self.library.step()
        if self._cache_is_new:  # what is wrong with it is known when the first step ends
            self._cache_is_new = False
            kept_steps.tell_problem(self.library.stats())

    def _tell_roles(self, optimizer: object, has_stepped: bool) -> None:
        if self.options["trace"] is not None:
            roles.tell(self.library, optimizer, has_stepped)

    def _set_phase(self, is_optimizer: bool) -> None:
        self.library.phase(native.OPTIMIZER_PHASE if is_optimizer else native.AUTOMATIC_PHASE)


_job: _Job | None = None
_last_stats: dict[str, Any] | None = None  # of the last job, once it is over


def enable(
    budget: int | str | None = None,
    device: str = "auto",
    policy: str = DEFAULT_POLICY,
    host_limit: int | str | None = None,
    spill_dir: str | os.PathLike[str] | None = None,
    workspace: str = "plain",
    trace: str | os.PathLike[str] | None = None,
    allocator: str = "spillway",
    poison: bool = False,
    min_evict: int | str | None = None,
    trace_steps: int | None = None,
    cache: bool | str | os.PathLike[str] = True,
) -> None:
    """Holds this process's training inside `budget`; without one it only watches.

    `budget`, `host_limit` and `min_evict` are bytes or texts such as "8GiB"; `budget` may be "60%" of the card, or of
    RAM on the CPU. It is used in whole pieces (4 to 64 KiB on the CPU, 2 to 16 MiB on a card, by its size); a rest is
    left unused. Tensors made before on a card count against it. On the CPU they do not, because nobody tells when they
    die, but a budget below them is refused. What a planned run records, and the plan it settles in, are kept in the folder `cache`
    (True: one under the user's cache folder; False: nowhere), so that the next run of the same script has a plan in its first step.
    Bad input is a ValueError, and then nothing was changed.
    """
    global _job
    words = dict(locals())
    if _job is not None:
        raise ValueError("Spillway is already on: use set_budget() to change the budget, or disable() first")
    library = native.load()
    options = read_options(budget, device, policy, host_limit, spill_dir, workspace, trace, allocator, poison, min_evict, trace_steps, cache)
    if options["device"] == "cpu":  # a card is asked by the library
        _refuse_below_what_is_there(options["budget_bytes"], library)
    if _plans(options):
        options |= _what_plans_reckon_with(options)
    library.enable(options)
    job = _Job(library, options, words)
    job.there_before = frozenset(already.cpu_storages(library.storage_is_ours)) if options["device"] == "cpu" else frozenset()
    try:
        job.start()
    except BaseException:
        library.disable()
        raise
    _job = job


def _plans(options: dict[str, Any]) -> bool:
    return options["budget_bytes"] is not None and options["policy"] not in REACTIVE


def _what_plans_reckon_with(options: dict[str, Any]) -> dict[str, Any]:
    device, folder = options["device"], options.get("cache_dir")
    found: dict[str, Any] = {}
    if folder is None and device == "cpu":
        return found
    writer = kept_steps.writer(device)  # not where options are read, because asking a card for its name initialises CUDA
    if folder is not None:
        found["cache_writer"] = writer
    if device != "cpu":
        known = rates.find_rates(folder, writer, lambda: rates.measure_card(device))
        found |= {"rates": known} if known else {}
    return found


def _refuse_below_what_is_there(budget: int | None, library: native.Library, among: frozenset[int] | None = None) -> None:
    # From the second enable() on, some of what is there is ours and can leave. `among`: nobody else counts.
    def there_now() -> int:
        sizes = already.cpu_storages(library.storage_is_ours)
        return sum(size for storage, size in sizes.items() if among is None or storage in among)

    if budget is None or there_now() <= budget:
        return
    gc.collect()  # a notebook's old cells are cycles nobody has collected yet
    if (there := there_now()) > budget:
        raise ValueError(f"a budget of {to_text(budget)} is below what is allocated already: tensors made before hold "
                         f"{to_text(there)}; free them first, or choose more")  # fmt: skip


def read_options(
    budget: int | str | None,
    device: str,
    policy: str,
    host_limit: int | str | None,
    spill_dir: str | os.PathLike[str] | None,
    workspace: str,
    trace: str | os.PathLike[str] | None,
    allocator: str,
    poison: bool,
    min_evict: int | str | None,
    trace_steps: int | None = None,
    cache: bool | str | os.PathLike[str] = False,
) -> dict[str, Any]:
    """The words of enable() as the native library takes them. Touches nothing; ValueError names what is wrong."""
    device = find_device(device)
    options: dict[str, Any] = {
        "budget_bytes": None if budget is None else _read_budget(budget, device),
        "device": device,
        "policy": policy,
        "host_limit_bytes": None if host_limit is None else parse_bytes(host_limit, ram_bytes(), "host limit", of="RAM"),
        "spill_dir": _find_spill_folder(spill_dir, device, watching=budget is None),
        "workspace": _one_of("workspace", workspace, WORKSPACES),
        "trace": None if trace is None else os.fspath(trace),
        "allocator": _one_of("allocator", allocator, ALLOCATORS),
        "poison": bool(poison),
    }
    if _plans(options) and (folder := kept_steps.find_folder(cache)) is not None:
        options["cache_dir"] = folder
    if min_evict is not None:
        options["min_evict_bytes"] = parse_bytes(min_evict, what="min_evict")
    if trace_steps is not None:
        options["trace_steps"] = _count("trace_steps", trace_steps)
    if device != "cpu":
        _mind_torchs_settings(options)
    return options


def _count(name: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 2**32:
        raise ValueError(f"{name} must be a whole number above 0, not {value!r}")
    return value


def _mind_torchs_settings(options: dict[str, Any]) -> None:
    verdict = alloc_conf.judge(os.environ, options["allocator"])
    for notice in verdict.notices:
        warnings.warn(notice, alloc_conf.AllocatorWarning, stacklevel=4)  # whoever called enable()
    if verdict.fraction is not None and options["budget_bytes"] is not None:
        share = int(verdict.fraction * card_bytes(int(options["device"].partition(":")[2])))
        options["budget_bytes"] = min(options["budget_bytes"], share)


def find_device(device: str) -> str:
    """`auto`, `cpu`, `cuda` or `cuda:N` as `cpu` or `cuda:N`; a rank of several takes its own card."""
    import torch

    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    kind, _, index = device.partition(":")
    if device == "cpu":
        return device
    if kind != "cuda" or (":" in device and not index.isdigit()):
        raise ValueError(f"unknown device '{device}': write auto, cpu, cuda or cuda:N")
    cards = torch.cuda.device_count()
    if cards == 0:
        raise ValueError(f"device '{device}' is not here: torch sees no CUDA card")
    number = int(index) if index else _card_of_rank(cards)
    if number >= cards:
        raise ValueError(f"device '{device}' is not here: torch sees {cards} card{'s' * (cards > 1)}, counted from 0")
    return f"cuda:{number}"


def _card_of_rank(cards: int) -> int:
    rank = os.environ.get("LOCAL_RANK", "0")
    return int(rank) if rank.isdigit() and int(rank) < cards else 0


def _read_budget(budget: int | str, device: str) -> int:
    of = _whole_of(device)
    if not isinstance(budget, str) or "%" not in budget:  # only a percentage needs the card's size, and asking for it initialises CUDA
        return parse_bytes(budget, of=of)
    return parse_bytes(budget, ram_bytes() if device == "cpu" else card_bytes(int(device.partition(":")[2])), of=of)


def _whole_of(device: str) -> str:
    return "RAM" if device == "cpu" else "the card's memory"


def _find_spill_folder(given: str | os.PathLike[str] | None, device: str, watching: bool) -> str | None:
    if given is not None:
        return str(spill.check_folder(Path(given)))
    folder = spill.find_default()
    if folder is None and device == "cpu" and not watching:  # on a card, host memory comes first and may be enough
        raise ValueError("the system's temporary folder is memory or cannot be written: name a folder on a disk with --spill-dir")
    return None if folder is None else str(folder)


def _one_of(what: str, given: str, accepted: tuple[str, ...]) -> str:
    if given not in accepted:
        raise ValueError(f"unknown {what} '{given}': choose {' or '.join(accepted)}")
    return given


def disable() -> None:
    """Brings everything home and lets go. What the budget has no room for comes home beyond it: nobody is held to it afterwards.

    If it does not fit into all of the memory either, says what does not, and Spillway stays on in its budget.
    """
    global _job, _last_stats
    job = _active()
    stats_before = job.library.stats()
    try:
        job.library.disable()
    except ValueError:
        if job.options["budget_bytes"] is None:
            raise
        _disable_beyond_the_budget(job)
    _last_stats = stats_before
    job.stop()
    _job = None


def _disable_beyond_the_budget(job: _Job) -> None:
    before, device = job.options["budget_bytes"], job.options["device"]
    whole = max(before, _read_budget("100%", device))
    job.library.set_budget(whole)
    try:
        job.library.disable()
    except ValueError as error:
        job.library.set_budget(before)
        raise ValueError(f"even a budget of all of {_whole_of(device)} ({to_text(whole)}) is too small to switch off: {error}") from None


def end_trace() -> None:
    """Closes the trace, where one is written; what happens from here on is not in it."""
    if _job is not None:
        _job.library.end_trace()


def is_enabled() -> bool:
    return _job is not None


def step() -> None:
    """A training step ends here. From the first call on, nothing else ends one; one that ended by itself before it is not ended twice."""
    _active().watcher.by_hand()


def stats() -> dict[str, Any]:
    """What happened so far, with the keys `spillway run --stats` writes; after disable(), what had happened until then.

    `floor_op` is what the floor was found at: its inputs, outputs, memory needed on the way and bytes that cannot leave
    beside it add up to `floor_bytes`.
    """
    if _job is None and _last_stats is not None:
        return dict(_last_stats)
    return _active().library.stats()


def resident(*tensors: Any) -> None:
    """Brings tensors (also inside lists, tuples and dicts) home and keeps them there for life.

    For code that reads memory where Spillway cannot see it: call it before such code takes an address.
    """
    _refuse_what_is_no_tensor(tensors)
    if _job is not None:
        hooks.materialize_all(tensors, native.HOLDS)


def _refuse_what_is_no_tensor(things: Any) -> None:
    import torch

    if isinstance(things, dict | list | tuple):
        for thing in things.values() if isinstance(things, dict) else things:
            _refuse_what_is_no_tensor(thing)
    elif not isinstance(things, torch.Tensor):
        raise TypeError(f"spillway.resident takes tensors, and lists, tuples and dicts of them, not {type(things).__name__}")


def set_budget(budget: int | str) -> None:
    """Another budget from here on, read, rounded and refused as enable() does; a smaller one takes effect before this returns."""
    job = _active()
    amount = _read_budget(budget, job.options["device"])
    if job.there_before:
        _refuse_below_what_is_there(amount, job.library, among=job.there_before)
    job.library.set_budget(amount)
    job.options["budget_bytes"] = amount


@contextlib.contextmanager
def budget(amount: int | str, **options: Any) -> Iterator[None]:
    """`with spillway.budget("2GiB"):` switches on and off again, or, where it is on already, changes the budget inside.

    Other words are those of enable(); where it is on already, they must say what it is on with. An error inside comes out as it is: what
    keeps Spillway from switching off then, tensors that the error still holds, say, is a warning.
    """
    if _job is None:
        enable(amount, **options)
        with _at_the_end(disable):
            yield
        return
    if other := [name for name, value in options.items() if not _is_on_with(_job, name, value)]:
        raise ValueError(f"Spillway is already on: only the budget can change inside, not {', '.join(other)}")
    before = _job.options["budget_bytes"]
    if before is None:
        raise ValueError("Spillway is on without a budget: disable() it before setting one")
    set_budget(amount)
    with _at_the_end(lambda: set_budget(before)):
        yield


@contextlib.contextmanager
def _at_the_end(act: Callable[[], None]) -> Iterator[None]:
    try:
        yield
    except BaseException:
        try:
            act()
        except Exception as why:
            warnings.warn(str(why), RuntimeWarning, stacklevel=4)
        raise
    act()


def _is_on_with(job: _Job, name: str, value: Any) -> bool:
    return find_device(value) == job.options["device"] if name == "device" else name in job.words and job.words[name] == value


def _active() -> _Job:
    if _job is None:
        raise RuntimeError("Spillway is not on: call spillway.enable(budget) first, or use `spillway run`")
    return _job
