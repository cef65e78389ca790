"""A made-up training run as JSON lines: all three phases, copies, recomputation, stalls, a plan with its reasons.

Much like a real one under a budget, of any length, and the same bytes every time.
"""

from __future__ import annotations

import json
import random
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

MIB = 1 << 20
BUDGET = 960 * MIB
Events = Generator[dict[str, Any], None, Any]
LAYERS = ("aten::convolution", "aten::native_batch_norm", "aten::relu")


class MadeUpRun:
    """`layers` layers of three ops each; each step has about 22 events a layer."""

    def __init__(self, layers: int = 24, name: str = "") -> None:
        self._layers = layers
        self._extra_name = name  # a name of one op, however strange
        self._now = self._ops = 0
        self._dice = random.Random(0)
        self._sizes: list[int] = []  # by storage
        self._names: dict[str, int] = {}

    def lines(self, steps: int) -> Iterator[str]:
        for event in self._events(steps):
            yield json.dumps(event, separators=(",", ":"))

    def write(self, file: Path, steps: int) -> int:
        """How many events were written."""
        count = 0
        with open(file, "w") as out:
            out.write('{"trace":"spillway","version":1,"times":"ns","sizes":"bytes"}\n')
            for line in self.lines(steps):
                out.write(line + "\n")
                count += 1
        return count

    def _events(self, steps: int) -> Events:
        yield {"event": "fact", "key": "model", "value": "made-up network"}
        yield {"event": "fact", "key": "device", "value": "made-up card"}
        yield from self._name("hybrid")
        yield {"event": "budget", "budget": BUDGET, "job": 0, "at": 0}
        weights, moments = [], []
        for _ in range(self._layers):
            weights.append((yield from self._birth(4 * MIB, "parameter")))
            moments.append((yield from self._birth(8 * MIB, "optimizer_state")))
        for step in range(steps):
            yield from self._step(step, weights, moments)

    def _step(self, step: int, weights: list[int], moments: list[int]) -> Events:
        yield {"event": "step_begin", "step": step, "job": 0, "at": self._now, "signature": None}
        yield {"event": "plan", "policy": "hybrid", "job": 0, "step": step, "budget": BUDGET, "shortfall": 0,
               "predicted_peak": BUDGET - 9 * MIB, "predicted_time": 16_400_000, "took": 30_000, "at": self._now}
        kept: list[list[int]] = []
        self._away: set[int] = set()
        for layer in range(self._layers):
            kept.append((yield from self._forward(layer, step, weights[layer])))
        for layer in reversed(range(self._layers)):
            yield from self._backward(layer, step, weights[layer], kept[layer])
        for mutated in zip(weights, moments, strict=True):
            yield from self._op("aten::_fused_sgd_", "optimizer", step, mutated=list(mutated), took=30_000)
        yield {"event": "step_end", "step": step, "job": 0, "at": self._now}

    def _forward(self, layer: int, step: int, weight: int) -> Events:
        made: list[int] = []
        for name in LAYERS:
            made.append((yield from self._birth((12 + 4 * (layer % 3)) * MIB, "activation")))
            used = self._extra_name if self._extra_name and layer == 3 else name
            yield from self._op(used, "forward", step, [weight, *made[-2:-1]], made[-1:], extra=2 * MIB)
        if layer < self._layers * 2 // 3:
            yield from self._leave(made[0], "host", "idle for 38 ops, the copy hides behind two convolutions")
            yield from self._leave(made[1], "nowhere", "cheap to run again: 90 us for 16 MiB")
        return made

    def _leave(self, storage: int, to: str, why: str) -> Events:
        yield from self._name(why)
        action = "drop" if to == "nowhere" else "move_out"
        yield {"event": "decision", "storage": storage, "action": action, "at": self._ops - 1, "until": self._ops + 60,
               "reason": why, "job": 0, "planned": True}
        yield self._move(storage, "device", to, self._now, 0 if to == "nowhere" else 290_000)
        self._away.add(storage)

    def _backward(self, layer: int, step: int, weight: int, kept: list[int]) -> Events:
        if kept[0] in self._away:
            yield self._move(kept[0], "host", "device", max(0, self._now - 200_000), 290_000)
            yield {"event": "stall", "cause": "fetch" if layer % 4 else "room", "op": self._ops, "storage": kept[0],
                   "job": 0, "start": self._now, "duration": 40_000}
            self._now += 40_000
            yield {"event": "recompute", "storage": kept[1], "replayed": self._ops - 1, "needed_by": self._ops,
                   "start": self._now, "duration": 80_000}
            self._now += 80_000
        gradient = yield from self._birth(4 * MIB, "gradient")
        yield from self._op("aten::convolution_backward", "backward", step, [weight, *kept], [gradient], took=260_000,
                            extra=6 * MIB)
        for storage in [*kept, gradient]:
            yield {"event": "death", "storage": storage, "at": self._now}

    def _move(self, storage: int, source: str, to: str, start: int, took: int) -> dict[str, Any]:
        return {"event": "move", "storage": storage, "from": source, "to": to, "size": self._sizes[storage],
                "trigger": self._ops - 1, "start": start, "duration": took, "clean": False}

    def _birth(self, size: int, kind: str) -> Events:
        storage = len(self._sizes)
        self._sizes.append(size)
        yield {"event": "birth", "storage": storage, "size": size, "kind": kind, "job": 0, "at": self._now,
               "tier": "device"}
        return storage

    def _op(self, name: str, phase: str, step: int, inputs: Sequence[int] = (), outputs: Sequence[int] = (),
            mutated: Sequence[int] = (), took: int = 100_000, extra: int = 0) -> Events:
        yield from self._name(name)
        took += self._dice.randrange(took // 4)  # no two alike: real times do not compress well
        made = sum(self._sizes[storage] for storage in outputs)
        yield {"event": "op", "index": self._ops, "name": name, "phase": phase, "job": 0, "step": step, "stream": 0,
               "start": self._now, "duration": took, "transient": extra + made, "workspace": extra, "replayable": True,
               "why_not": None, "inputs": inputs, "outputs": outputs, "mutated": mutated, "aliased": []}
        self._ops += 1
        self._now += took

    def _name(self, text: str) -> Events:
        if text not in self._names:
            self._names[text] = len(self._names)
            yield {"event": "name", "id": self._names[text], "text": text}
