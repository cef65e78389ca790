"""The best plan of a small step, by a mixed-integer programme (HiGHS): a bound that plans do not beat but by what it knows less of, and a plan that comes near it.

Time stands still at op boundaries and stalls are continuous. For each op o: T, its begin; K, when its kernel starts after waits and
rebuilds; E = K + its time. T of the next op is E plus the price of the copies that begin to leave in between. We minimise T of the end.

For each gap [b, e) of a storage of s MiB, binaries: move, drop, the op f in [b, e] before which its way back is enqueued, and the op
before which it is rebuilt (e, or earlier when another's rebuild reads it). For each op inside: out, whether its way out has ended
by K; given, whether a way in that was enqueued meanwhile got its place, and then starts behind that way out.

  memory     at each kernel, and at each rebuild with its dead ancestors: what is alive, less what is out, given or dropped, plus what
             is on its way in from the op that enqueued it, plus what the op takes for itself <= budget
  link out   for all ops p <= q: copies that begin to leave after p and are out by K(q) fit between E(p - 1) and K(q)
  link in    for all ops p <= q: copies enqueued at p or later and needed at q or earlier fit between T(p) and K(q)
  a copy     is needed no earlier than its way out and its way in take, one after the other
  rebuilds   take the time of their ops; living ingredients are there or are rebuilt as well
  clean      a storage that left before and was not written since leaves at once and at no cost
  steps      repeat: what leaves over the step's end is leaving when the step begins

Where the execution is more particular, we are not: copies may be cut and reordered between their release and their need, and copies
enqueued at the op that needs them cost no slowdown. So the optimum here is a lower bound of every plan; what its choices really
take is for the timeline to say (`spillway plan --choices`), and the truth is between the two. The engine's rule that a rebuild with its dead
ancestors takes at most a quarter of the budget is kept.
"""

from __future__ import annotations

import collections
import dataclasses

import highspy
from small_steps import Gap, Step

REBUILD_PART = 4  # of the budget


@dataclasses.dataclass(frozen=True)
class Link:
    """Microseconds a MiB takes each way, what compute loses by it, and what every copy takes besides."""

    out: float
    back: float
    out_price: float
    back_price: float
    each: float


class Programme:
    """Columns and rows, named by what they stand for; an expression is a mapping from column to factor, None its constant."""

    def __init__(self) -> None:
        self.highs = highspy.Highs()
        self.highs.setOptionValue("output_flag", False)
        self.count = 0

    def column(self, low: float = 0, high: float = highspy.kHighsInf, whole: bool = False, cost: float = 0) -> dict:
        self.highs.addCol(cost, low, high, 0, [], [])
        if whole:
            self.highs.changeColIntegrality(self.count, highspy.HighsVarType.kInteger)
        self.count += 1
        return {self.count - 1: 1.0}

    def flag(self) -> dict:
        return self.column(0, 1, whole=True)

    def at_most(self, left: dict, right: dict) -> None:
        row = plus(left, times(-1, right))
        constant = row.pop(None, 0.0)
        names = [name for name, factor in row.items() if factor]
        self.highs.addRow(-highspy.kHighsInf, -constant, len(names), names, [row[name] for name in names])

    def equal(self, left: dict, right: dict) -> None:
        self.at_most(left, right)
        self.at_most(right, left)

    def solve(self, nodes: int, gap: float) -> None:
        for name, value in (("mip_max_nodes", nodes), ("mip_rel_gap", gap), ("threads", 1), ("random_seed", 1)):
            self.highs.setOptionValue(name, value)
        self.highs.run()
        self.bound = self.highs.getInfo().mip_dual_bound
        self.best = self.highs.getInfo().objective_function_value
        self.values = self.highs.getSolution().col_value

    def value(self, expression: dict) -> float:
        return sum(factor * (1 if name is None else self.values[name]) for name, factor in expression.items())


def plus(*parts: dict) -> dict:
    total: dict = collections.defaultdict(float)
    for part in parts:
        for name, factor in part.items():
            total[name] += factor
    return dict(total)


def times(factor: float, part: dict) -> dict:
    return {name: factor * value for name, value in part.items()}


def number(value: float) -> dict:
    return {None: float(value)}


class Choice:
    """The columns of one gap. Ops of `back` count on over the step's end; those of `out` and `given` do not."""

    def __init__(self, to: Programme, gap: Gap, ops: int, may_drop: bool) -> None:
        self.gap, self.wraps = gap, gap.end >= ops
        self.move = to.flag()
        self.drop = to.flag() if may_drop else number(0)
        self.back = {op: to.flag() for op in range(gap.begin, gap.end + 1)}
        self.rebuilt = {op: to.flag() for op in range(gap.begin, gap.end + 1)} if may_drop else {}
        self.clean = to.column(0, 1)
        inside = [op for op in range(gap.begin, gap.end) if op < ops]
        self.head = [op - ops for op in range(gap.begin, gap.end) if op >= ops]  # of the step that follows, which is this one
        self.out = {op: to.flag() for op in [*inside, *self.head]}
        self.given = {op: to.flag() for op in [*inside, *self.head]}
        self.over_the_end = plus(*(self.back[op] for op in self.back if op >= ops)) if self.wraps else number(0)
        to.at_most(plus(self.move, self.drop), number(1))
        to.equal(plus(*self.back.values()), self.move)
        to.equal(plus(number(0), *self.rebuilt.values()), self.drop)
        for part, most in ((inside, plus(self.move, times(-1, self.clean))), (self.head, self.over_the_end)):
            for before, op in zip([None, *part], part):
                to.at_most(plus(self.out[op], self.given[op]), most)
                if before is not None:
                    to.at_most(plus(self.out[before], self.given[before]), plus(self.out[op], self.given[op]))

    def returned(self, op: int, ops: int) -> dict:
        """Whether its way back is enqueued, or it is rebuilt, by this op of this step."""
        head = op in self.head
        back = [flag for at, flag in self.back.items() if (ops <= at <= op + ops if head else at <= min(op, ops - 1))]
        return plus(number(0), *back, *(flag for at, flag in self.rebuilt.items() if at <= op and not head))

    def saves(self, op: int, ops: int) -> dict:
        """The part of its size that is not taken while this op runs; negative when it is taken twice."""
        away = plus(self.out[op], self.given[op], times(-1, self.returned(op, ops)))
        return away if op in self.head else plus(away, self.clean, self.drop)


class Oracle:
    def __init__(self, step: Step, link: Link, budget: int) -> None:
        self.step, self.link, self.budget, self.ops = step, link, budget, len(step.ops)
        self.to = Programme()
        self.longest = 5.0 * sum(op.takes for op in step.ops) + 3 * sum((link.out + link.back) * size for size in step.sizes.values())
        self.gaps = [Choice(self.to, gap, self.ops, self.may_drop(gap)) for gap in step.gaps()]
        self.begin = [self.to.column() for _ in range(self.ops)] + [self.to.column(cost=1)]
        self.kernel = [self.to.column() for _ in range(self.ops)]
        self.end = [plus(kernel, number(op.takes)) for kernel, op in zip(self.kernel, step.ops)]
        self.gone = [self.to.column() for _ in self.gaps]  # when its way out has ended
        self.say_clean()
        self.say_times()
        self.say_memory()
        self.say_rebuilds()
        self.say_links()
        self.say_given()
        self.say_order()

    def may_drop(self, gap: Gap) -> bool:
        if gap.end >= self.ops:
            return False
        rebuild = self.step.rebuild(gap.storage, gap.end)
        held = self.size(gap) + sum(self.step.sizes[name] for name in rebuild.dead) if rebuild else 0
        return rebuild is not None and held * REBUILD_PART <= self.budget

    def size(self, gap: Gap) -> int:
        return self.step.sizes[gap.storage]

    def way_out(self, gap: Gap) -> float:
        return self.link.each + self.link.out * self.size(gap)

    def way_back(self, gap: Gap) -> float:
        return self.link.each + self.link.back * self.size(gap)

    def copies(self, choice: Choice) -> dict:
        return plus(choice.move, times(-1, choice.clean))

    def unless(self, *flags: dict) -> dict:
        """So large, unless all of the flags are set, that a row with it on its larger side says nothing."""
        return times(self.longest, plus(number(len(flags)), *(times(-1, flag) for flag in flags)))

    def say_clean(self) -> None:
        for choice in self.gaps:
            same = [other for other in self.gaps if other.gap.storage == choice.gap.storage]
            earlier = [other.move for other in same if other.gap.version == choice.gap.version and other.gap.begin < choice.gap.begin]
            if choice.gap.version == 0:
                earlier += [other.over_the_end for other in same if other.wraps]
            self.to.at_most(choice.clean, plus(number(0), *earlier))
            self.to.at_most(choice.clean, choice.move)

    def say_times(self) -> None:
        self.to.equal(self.begin[0], number(0))
        for op in range(self.ops):
            back = [times(self.link.back_price * self.size(choice.gap), flag) for choice in self.gaps
                    for at, flag in choice.back.items() if at % self.ops == op and at != choice.gap.end]  # fmt: skip
            again = [times(self.step.rebuild(choice.gap.storage, op).takes, choice.rebuilt[op]) for choice in self.gaps if op in choice.rebuilt]
            self.to.at_most(plus(self.begin[op], *back, *again), self.kernel[op])
            prices = [times(self.link.out_price * self.size(choice.gap), self.copies(choice)) for choice in self.gaps if choice.gap.begin == op + 1]
            self.to.equal(plus(self.end[op], *prices), self.begin[op + 1])

    def there(self, op: int) -> dict:
        """MiB beside what the op takes for itself."""
        saved = [times(-self.size(choice.gap), choice.saves(op, self.ops)) for choice in self.gaps if op in choice.out]
        return plus(number(self.step.beside(op)), *saved)

    def say_memory(self) -> None:
        for op in range(self.ops):
            self.to.at_most(plus(self.there(op), number(self.step.transient(op))), number(self.budget))

    def say_rebuilds(self) -> None:
        for op in range(self.ops):
            rebuilt = {choice.gap.storage: choice for choice in self.gaps if op in choice.rebuilt}
            made_again = {name: times(self.step.sizes[name], choice.rebuilt[op]) for name, choice in rebuilt.items()}
            order = self.step.ops[op].reads + self.step.ops[op].writes
            needed_by: dict[str, list[dict]] = collections.defaultdict(list)
            for name, choice in rebuilt.items():
                rebuild = self.step.rebuild(name, op)
                sooner = set(order[: order.index(name)]) if name in order else set()
                here = plus(*(times(-1, part) for other, part in made_again.items() if other not in rebuild.alive | sooner), self.there(op))
                self.to.at_most(plus(here, times(rebuild.peak, choice.rebuilt[op])), number(self.budget))
                for other in rebuild.alive:
                    needed_by[other].append(choice.rebuilt[op])
                    self.say_ingredient(op, other, choice.rebuilt[op])
            for name, choice in rebuilt.items():
                if op < choice.gap.end:  # nobody rebuilds before it is needed
                    self.to.at_most(choice.rebuilt[op], plus(number(0), *needed_by[name]))

    def say_ingredient(self, op: int, name: str, rebuilt: dict) -> None:
        """It is there when the rebuild before this op reads it."""
        for choice in self.gaps:
            if choice.gap.storage != name or op not in choice.out:
                continue
            self.to.at_most(plus(rebuilt, choice.drop), plus(number(1), choice.returned(op, self.ops)))
            leaves = choice.over_the_end if op in choice.head else choice.move
            self.to.at_most(plus(rebuilt, leaves), plus(number(1), choice.returned(op, self.ops)))
            for at, flag in choice.back.items():
                here = at - self.ops if op in choice.head else at
                if 0 <= here <= op:
                    self.to.at_most(plus(self.begin[here], number(self.way_back(choice.gap))), plus(self.kernel[op], self.unless(rebuilt, flag)))

    def say_links(self) -> None:
        for last in range(self.ops):
            for first in range(last + 1):
                since = self.end[first - 1] if first > 0 else number(0)
                out = [times(self.way_out(c.gap), c.out[last]) for c in self.gaps if last in c.out and (first == 0 if last in c.head else c.gap.begin >= first)]
                self.to.at_most(plus(since, *out), self.kernel[last])
                back = [times(self.way_back(c.gap), flag) for c in self.gaps if c.gap.end % self.ops <= last for at, flag in c.back.items()
                        if (at < self.ops) == (c.gap.end < self.ops) and at % self.ops >= first]  # fmt: skip
                self.to.at_most(plus(self.begin[first], *back), self.kernel[last])
        self.say_round_trips()

    def say_round_trips(self) -> None:
        """When each way out ends, behind those that left before it; the way back comes after."""
        for place, choice in enumerate(self.gaps):
            wrapped = plus(number(0), *(times(self.way_out(c.gap), c.over_the_end) for c in self.gaps[: place + 1]))
            if choice.wraps:
                self.to.at_most(plus(wrapped, number(self.way_back(choice.gap))), plus(self.kernel[choice.gap.end - self.ops], self.unless(choice.over_the_end)))
                continue
            for first in range(choice.gap.begin + 1):
                since = self.end[first - 1] if first > 0 else wrapped
                queue = [times(self.way_out(c.gap), self.copies(c)) for c in self.gaps[: place + 1] if c.gap.begin >= first]
                self.to.at_most(plus(since, *queue), plus(self.gone[place], self.unless(self.copies(choice))))
            self.to.at_most(plus(self.gone[place], number(self.way_back(choice.gap))), plus(self.kernel[choice.gap.end], self.unless(self.copies(choice))))

    def say_given(self) -> None:
        """A place is given to ways in that are enqueued at that op, and they start when it is free."""
        free = [self.to.column() for _ in range(self.ops)]
        for op in range(self.ops):
            here = [(choice, flag) for choice in self.gaps for at, flag in choice.back.items() if at % self.ops == op]
            for place, choice in enumerate(self.gaps):
                if op not in choice.given:
                    continue
                now = plus(choice.given[op], times(-1, choice.given.get(op - 1, number(0)) if (op - 1 in choice.head) == (op in choice.head) else number(0)))
                self.to.at_most(now, plus(number(0), *(flag for other, flag in here if other is not choice)))
                if op not in choice.head:
                    self.to.at_most(self.gone[place], plus(free[op], self.unless(now)))
            for other, flag in here:
                if (other.gap.end < self.ops) == (op >= other.gap.begin):
                    self.to.at_most(plus(free[op], number(self.way_back(other.gap))), plus(self.kernel[other.gap.end % self.ops], self.unless(flag)))

    def say_order(self) -> None:
        """The link out is first in, first out, and places are given in that order."""
        for place, later in enumerate(self.gaps):
            for earlier in self.gaps[:place]:
                for op in later.out.keys() & earlier.out.keys():
                    leaves = earlier.over_the_end if op in earlier.head else self.copies(earlier)
                    if (op in later.head) <= (op in earlier.head):
                        self.to.at_most(plus(later.out[op], later.given[op], leaves), plus(earlier.out[op], earlier.given[op], number(1)))

    def solve(self, nodes: int, gap: float = 0.002) -> float:
        """A lower bound of the time, after at most so many nodes. Of the plans as fast as the best found, one whose ways back are
        enqueued late is kept."""
        self.to.solve(nodes, gap)
        bound, best = self.to.bound, self.to.best
        self.to.at_most(self.begin[self.ops], number(best + 1))
        self.to.highs.changeColCost(next(iter(self.begin[self.ops])), 0)
        for choice in self.gaps:
            for at, flag in choice.back.items():
                self.to.highs.changeColCost(next(iter(flag)), (choice.gap.end - at) * self.size(choice.gap))
        self.to.solve(nodes // 4, 0.05)
        return bound

    def choices(self, ids: dict[str, int]) -> list[dict]:
        """As `spillway plan --choices` reads them."""
        told = []
        for choice in self.gaps:
            remedy = "move" if self.to.value(choice.move) > 0.5 else "drop" if self.to.value(choice.drop) > 0.5 else "keep"
            if remedy == "keep":
                continue
            back = [at for at, flag in choice.back.items() if self.to.value(flag) > 0.5] or [choice.gap.end]
            told.append({"storage": ids[choice.gap.storage], "begin": choice.gap.begin, "end": choice.gap.end, "remedy": remedy, "fetch_at": back[0]})
        return told
