"""What torch's own allocator settings mean under Spillway: honoured, told about, or refused.

`judge` reads the environment variables with which torch's CUDA allocator is set up. A setting that still does what it
says passes in silence; one that has no effect on memory under the budget is answered by a line that says so; one that
would let memory escape the budget, or that torch does not know, is a ValueError. Pure: nothing is read but what is given.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

READ_BY_TORCH = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")  # for torch the first that is set counts
UNREAD = "PYTORCH_HIP_ALLOC_CONF"
NO_CACHING = "PYTORCH_NO_CUDA_MEMORY_CACHING"

# Of torch's pinned host memory, which Spillway leaves alone, and of graphs, whose memory stays torch's.
_HONOURED = {
    "pinned_use_background_threads", "pinned_use_cuda_host_register", "pinned_use_hip_host_register",
    "pinned_num_register_threads", "pinned_reserve_segment_size_mb", "graph_capture_record_stream_reuse",
}  # fmt: skip

# What each would have changed, and why there is nothing to change.
_WITHOUT_EFFECT = {
    "expandable_segments": "all of it lies in one range that grows and shrinks already",
    "max_split_size_mb": "blocks of any size are split and merged again",
    "max_non_split_rounding_mb": "a block is never larger than asked for, rounded to 512 bytes",
    "roundup_power2_divisions": "sizes are rounded to 512 bytes only",
    "large_segment_size_mb": "there are no segments",
    "garbage_collection_threshold": "free memory is given back when the budget needs it",
    "release_lock_on_cudamalloc": "cudaMalloc is not called",
    "release_lock_on_hipmalloc": "hipMalloc is not called",
}
_FRACTION = "per_process_memory_fraction"
_KNOWN = {*_HONOURED, *_WITHOUT_EFFECT, "backend", _FRACTION}


class AllocatorWarning(UserWarning):
    """A setting of torch's allocator that has no effect here."""


@dataclass(frozen=True)
class Verdict:
    notices: list[str] = field(default_factory=list)
    fraction: float | None = None  # of the card: no budget above it


def judge(environment: Mapping[str, str], allocator: str) -> Verdict:
    """What the environment's settings mean for memory on a card that `allocator` places."""
    if NO_CACHING in environment:
        raise ValueError(f"{NO_CACHING} is set: torch does not count what it takes that way, so no budget could hold it; "
                         "unset it")  # fmt: skip
    notices = [f"{UNREAD} has no effect: torch for CUDA does not read it"] if UNREAD in environment else []
    fraction = None
    variable = next((name for name in READ_BY_TORCH if name in environment), None)
    for key, value in () if variable is None else _settings(environment[variable]):
        if key not in _KNOWN:
            raise ValueError(f"{variable} has the unknown setting '{key}': torch knows {', '.join(sorted(_KNOWN))}")
        if key == "backend":
            _check_backend(variable, value)
        elif key == _FRACTION:
            fraction = _read_fraction(variable, value)
        elif allocator == "spillway" and key in _WITHOUT_EFFECT and value.lower() != "false":
            notices.append(f"{key} in {variable} has no effect on memory under the budget: {_WITHOUT_EFFECT[key]}")
    return Verdict(notices, fraction)


def _settings(text: str) -> Iterator[tuple[str, str]]:
    """`a:1,b:[256:1,>:2]` as ("a", "1") and ("b", "[256:1,>:2]")."""
    depth, piece = 0, ""
    for letter in text + ",":
        depth += (letter == "[") - (letter == "]")
        if letter != "," or depth > 0:
            piece += letter
            continue
        key, _, value = piece.strip().partition(":")
        if key.strip():
            yield key.strip(), value.strip()
        piece = ""


def _check_backend(variable: str, value: str) -> None:
    if value != "native":
        raise ValueError(
            f"{variable} asks for backend:{value}, in whose place Spillway would stand: take that setting away, "
            "or choose --allocator native without it"
        )


def _read_fraction(variable: str, value: str) -> float:
    try:
        fraction = float(value)
    except ValueError:
        fraction = -1.0
    if not 0 < fraction <= 1:
        raise ValueError(f"{variable} has {_FRACTION}:{value}, which is no share of a card: write a number from 0 to 1")
    return fraction
