"""Two records of the same script, and the first thing in which they differ. Functions from text to values.

A fact is a line `[kind, step, index, name, [[description, digest], ...]]` as spillway.recorder writes it. `Difference` names the
fact; `find_element` looks into the bytes of its tensors, once they were dumped.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import struct
from collections.abc import Iterable
from typing import Any

_FORMATS = {"float32": "f", "float64": "d", "float16": "e", "int64": "q", "int32": "i", "int16": "h", "int8": "b", "uint8": "B", "bool": "?"}

# An op is known by what it gave; one that gives no tensor (item(), equal(), tolist()) by what it was given.
_OPS = {"op": "output", "read": "input"}


@dataclasses.dataclass(frozen=True)
class Fact:
    kind: str
    step: int
    index: int
    name: str
    tensors: tuple[tuple[str, int | None], ...]

    @staticmethod
    def read(line: str) -> Fact:
        kind, step, index, name, tensors = json.loads(line)
        return Fact(kind, step, index, name, tuple((text, value) for text, value in tensors))

    def text(self) -> str:
        """`step 3, op 41 aten.mm.default`, `step 3, gradient of Net.fc.weight`."""
        if self.kind in _OPS:
            return f"step {self.step}, op {self.index} {self.name}"
        return {"loss": f"step {self.step}, the loss", "raised": f"step {self.step}, {self.name}",
                "end": f"step {self.step}, the end of the script"}.get(self.kind, f"step {self.step}, {self.kind} {self.name}")  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Difference:
    """The first fact in which two records differ: its number, both versions (None: that record has ended)."""

    number: int
    left: Fact | None
    right: Fact | None

    def same_event(self) -> bool:
        return self.left is not None and self.right is not None and _event(self.left) == _event(self.right)

    def tensor(self) -> int | None:
        """Which of the fact's tensors differs first."""
        if not self.same_event():
            return None
        pairs = zip(self.left.tensors, self.right.tensors)
        return next((place for place, (left, right) in enumerate(pairs) if left != right), None)

    def text(self) -> str:
        if self.same_event():
            place = self.tensor()
            return self.left.text() + (f", {_tensor_name(self.left, place)}" if place is not None else "")
        left, right = (fact.text() if fact else "nothing more" for fact in (self.left, self.right))
        return f"one run has {left}, the other {right}"


def _event(fact: Fact) -> tuple[Any, ...]:
    return fact.kind, fact.step, fact.index, fact.name, len(fact.tensors)


def _tensor_name(fact: Fact, place: int) -> str:
    text = fact.tensors[place][0]
    return f"{_OPS[fact.kind]} {place} ({text})" if fact.kind in _OPS else text


def find_difference(left: Iterable[str], right: Iterable[str], ignored: frozenset[str] = frozenset()) -> Difference | None:
    """The first difference; of ops named in `ignored` only their shapes are compared."""
    for number, (one, other) in enumerate(itertools.zip_longest(left, right)):
        if one == other:
            continue
        facts = [None if line is None else Fact.read(line) for line in (one, other)]
        if not (ignored and None not in facts and _equal_but_for_ignored(facts[0], facts[1], ignored)):
            return Difference(number, facts[0], facts[1])
    return None


def _equal_but_for_ignored(left: Fact, right: Fact, ignored: frozenset[str]) -> bool:
    def shapes(fact: Fact) -> list[str]:
        return [text for text, _ in fact.tensors]

    return left.kind in _OPS and left.name in ignored and _event(left) == _event(right) and shapes(left) == shapes(right)


def find_noise(left: Iterable[str], right: Iterable[str]) -> frozenset[str] | None:
    """Ops whose tensors differ between two runs that are otherwise equal; None when more than op outputs differ.

    Such outputs hold bytes nobody wrote, or that nobody reads: if they mattered, a loss or a parameter would differ too.
    """
    names = set()
    for one, other in itertools.zip_longest(left, right):
        if one == other:
            continue
        if one is None or other is None:
            return None
        facts = Fact.read(one), Fact.read(other)
        if not _equal_but_for_ignored(*facts, frozenset([facts[0].name])):
            return None
        names.add(facts[0].name)
    return frozenset(names)


@dataclasses.dataclass(frozen=True)
class Element:
    index: list[int]
    left: str
    right: str
    count: int  # how many elements of the tensor differ

    def text(self) -> str:
        more = f", and {self.count - 1} more" if self.count > 1 else ""
        return f"element {self.index}: {self.left} instead of {self.right}{more}"


_PIECE = 1 << 16  # elements compared at once before looking at single ones


def find_element(dtype: str, shape: list[int], left: bytes, right: bytes) -> Element | None:
    """The first element in which two tensors' bytes differ; `left` is what was found, `right` what should be."""
    size = len(left) // max(1, _product(shape))
    if len(left) != len(right) or size == 0:
        return None
    differing = _differing(size, left, right)
    if not differing:
        return None
    first = differing[0]
    values = [_value(dtype, raw[first * size : (first + 1) * size]) for raw in (left, right)]
    return Element(_unravel(first, shape), *values, len(differing))


def _differing(size: int, left: bytes, right: bytes) -> list[int]:
    numbers: list[int] = []
    for begin in range(0, len(left), _PIECE * size):
        end = min(begin + _PIECE * size, len(left))
        if left[begin:end] != right[begin:end]:
            numbers += [at // size for at in range(begin, end, size) if left[at : at + size] != right[at : at + size]]
    return numbers


def _product(shape: list[int]) -> int:
    result = 1
    for size in shape:
        result *= size
    return result


def _unravel(flat: int, shape: list[int]) -> list[int]:
    index = []
    for size in reversed(shape):
        flat, place = divmod(flat, size)
        index.insert(0, place)
    return index


def _value(dtype: str, raw: bytes) -> str:
    if dtype == "bfloat16":
        dtype, raw = "float32", b"\0\0" + raw
    bits = f"0x{int.from_bytes(raw, 'little'):0{2 * len(raw)}x}"
    return f"{struct.unpack('<' + _FORMATS[dtype], raw)[0]!r} ({bits})" if dtype in _FORMATS else bits


def read_dump(content: bytes) -> tuple[dict[str, Any], list[bytes]]:
    """What spillway.recorder.dump wrote: a head, and each tensor's bytes."""
    line, _, rest = content.partition(b"\n")
    head, parts, at = json.loads(line), [], 0
    for size in head["sizes"]:
        parts.append(rest[at : at + size])
        at += size
    return head, parts
