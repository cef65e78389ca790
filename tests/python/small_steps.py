"""Random small training steps, and what a planner may know of one: accesses, gaps, rebuilds. Same seed, same step.

Layers in a chain with skips and in-place ops, some with a weight and its momentum; the backward reads what was saved; the
optimizer writes weights last. Written as JSON lines for `spillway import`; op numbers are those of one step.
"""

from __future__ import annotations

import dataclasses
import json
import random
from pathlib import Path

MIB = 1 << 20


@dataclasses.dataclass
class Op:
    name: str
    takes: int  # microseconds
    reads: list[str]
    makes: list[str] = dataclasses.field(default_factory=list)
    writes: list[str] = dataclasses.field(default_factory=list)
    workspace: int = 0  # MiB beyond what it makes
    replayable: bool = True
    phase: str = "forward"

    def touches(self) -> list[str]:
        return [*self.reads, *self.writes, *self.makes]


@dataclasses.dataclass(frozen=True)
class Gap:
    storage: str
    begin: int
    end: int  # from the op count on: of the next step
    version: int


class Step:
    def __init__(self, seed: int, layers: int) -> None:
        self.dice = random.Random(seed)
        self.ops: list[Op] = []
        self.sizes: dict[str, int] = {}  # MiB
        self.lasting: list[str] = []
        self._build(layers)
        self.touched = {name: [at for at, op in enumerate(self.ops) if name in op.touches()] for name in self.sizes}
        self.writers = {name: [at for at, op in enumerate(self.ops) if name in op.writes + op.makes] for name in self.sizes}

    # ---- making ----

    def _build(self, layers: int) -> None:
        self._new("x", lasting=True)
        saved: list[list[str]] = []
        weights = [self.dice.random() < 0.4 for _ in range(layers)]
        for at in range(layers):
            saved.append(self._layer(at, weights[at]))
        self._new("d")
        self.ops.append(Op("loss", 200, [f"a{layers - 1}"], ["d"], phase="backward", replayable=False))
        before = "d"
        for at in reversed(range(layers)):
            made = [self._new(f"e{at}")] + ([self._new(f"g{at}")] if weights[at] else [])
            reads = [before, *saved[at]] + ([f"w{at}"] if weights[at] else [])
            self.ops.append(Op(f"back{at}", self._time(), reads, made, phase="backward", replayable=False, workspace=self._workspace()))
            before = f"e{at}"
        for at in range(layers):
            if weights[at]:
                self.ops.append(Op(f"update{at}", 300, [f"g{at}"], writes=[f"w{at}", f"m{at}"], phase="optimizer", replayable=False))

    def _layer(self, at: int, has_weight: bool) -> list[str]:
        """What its backward reads."""
        chance, last = self.dice.random, "x" if at == 0 else f"a{at - 1}"
        reads = [last] + ([f"a{at - 3}"] if at > 2 and chance() < 0.25 else [])
        saved = [last] if chance() < 0.7 else []
        if has_weight:
            reads += [self._new(f"w{at}", lasting=True)]
            self._new(f"m{at}", lasting=True)
        self.ops.append(Op(f"layer{at}", self._time(), reads, [self._new(f"a{at}")], replayable=chance() < 0.8, workspace=self._workspace()))
        if chance() < 0.2:
            self.ops.append(Op(f"inplace{at}", 100 + self.dice.randrange(300), [], writes=[f"a{at}"]))
            return [*saved, f"a{at}"]
        return [*saved, f"a{at}"] if chance() < 0.7 or not saved else saved

    def _new(self, name: str, lasting: bool = False) -> str:
        self.sizes[name] = 8 * self.dice.randint(1, 6)
        if lasting:
            self.lasting.append(name)
        return name

    def _time(self) -> int:
        return 100 + self.dice.randrange(2500)

    def _workspace(self) -> int:
        return 8 * self.dice.randint(0, 2)

    def write(self, file: Path) -> dict[str, int]:
        """Two steps; the storages of the second by name."""
        lines: list[dict] = [{"trace": "spillway", "version": 1, "times": "ns", "sizes": "bytes"}]
        ids: dict[str, int] = {}
        count, now = iter(range(10**6)), 0

        def birth(name: str) -> None:
            kind = {"w": "parameter", "m": "optimizer_state", "x": "input", "g": "gradient"}.get(name[0], "activation")
            ids[name] = next(count)
            lines.append({"event": "birth", "storage": ids[name], "size": self.sizes[name] * MIB, "kind": kind, "job": 0, "at": now, "tier": "device"})

        for name, op in enumerate(self.ops):
            lines.append({"event": "name", "id": name, "text": op.name})
        for name in self.lasting:
            birth(name)
        for step in range(2):
            lines.append({"event": "step_begin", "step": step, "job": 0, "at": now, "signature": None})
            for at, op in enumerate(self.ops):
                for name in op.makes:
                    birth(name)
                lines.append({"event": "op", "index": step * len(self.ops) + at, "name": op.name, "phase": op.phase, "job": 0, "step": step, "stream": 0,
                              "start": now, "duration": op.takes * 1000, "transient": self.transient(at) * MIB, "workspace": op.workspace * MIB,
                              "replayable": op.replayable, "why_not": None, "inputs": [ids[name] for name in op.reads],
                              "outputs": [ids[name] for name in op.makes], "mutated": [ids[name] for name in op.writes], "aliased": []})  # fmt: skip
                now += op.takes * 1000
                for name in self.sizes:
                    if name not in self.lasting and self.touched[name][-1] == at:
                        lines.append({"event": "death", "storage": ids[name], "at": now})
            lines.append({"event": "step_end", "step": step, "job": 0, "at": now})
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return ids

    # ---- reading ----

    def transient(self, at: int) -> int:
        return self.ops[at].workspace + sum(self.sizes[name] for name in self.ops[at].makes)

    def is_alive(self, name: str, at: int) -> bool:
        return name in self.lasting or self.touched[name][0] <= at <= self.touched[name][-1]

    def beside(self, at: int) -> int:
        """MiB that are there while the op runs when nothing ever leaves, without what it takes for itself."""
        return sum(size for name, size in self.sizes.items() if self.is_alive(name, at) and name not in self.ops[at].makes)

    def peak(self) -> int:
        return max(self.beside(at) + self.transient(at) for at in range(len(self.ops)))

    def floor(self) -> int:
        return max(sum(self.sizes[name] for name in {*op.reads, *op.writes}) + self.transient(at) for at, op in enumerate(self.ops))

    def version(self, name: str, at: int) -> int:
        return sum(writer < at for writer in self.writers[name])

    def gaps(self) -> list[Gap]:
        found = []
        for name, touched in self.touched.items():
            following = touched[1:] + ([touched[0] + len(self.ops)] if name in self.lasting else [])
            found += [Gap(name, a + 1, b, self.version(name, a + 1)) for a, b in zip(touched, following) if b > a + 1]
        return sorted(found, key=lambda gap: gap.begin)

    def rebuild(self, name: str, at: int) -> Rebuild | None:
        """Of a storage before op `at`; nothing where it cannot be made again."""
        found = Rebuild()
        return found if name not in self.lasting and self._add(found, name, at, dead=False) else None

    def _add(self, found: Rebuild, name: str, at: int, dead: bool) -> bool:
        made, written = False, self.writers[name][: self.version(name, at)]
        if dead:
            found.dead.append(name)
        for writer in written:
            op = self.ops[writer]
            if not op.replayable:
                return False
            for other in [] if name in op.writes else op.reads:
                if self.version(other, at) != self.version(other, writer):
                    return False
                if self.is_alive(other, at):
                    found.alive.add(other)
                elif other not in found.dead and not self._add(found, other, at, dead=True):
                    return False
            found.takes += op.takes
            found.peak = max(found.peak, found.held + self.transient(writer))
            if not made:
                found.held += self.sizes[name]
            made = True
        return bool(written)


@dataclasses.dataclass
class Rebuild:
    """Reruns take so long; at their most they hold so many MiB, all dead ancestors at once, and read these living ones."""

    takes: int = 0
    peak: int = 0
    held: int = 0
    alive: set[str] = dataclasses.field(default_factory=set)
    dead: list[str] = dataclasses.field(default_factory=list)
