"""What a run did, in words: the table at the end, and the one live line on a terminal.

Both are functions of the statistics dictionary (`spillway.stats()`); a key the engine did not fill shows as a dash.
"""

from __future__ import annotations

from typing import Any

from spillway.amounts import to_text


def table(stats: dict[str, Any]) -> str:
    """The lines printed when the script has ended."""
    rows = _budget_rows(stats) if stats.get("budget_bytes") is not None else _watching_rows(stats)
    width = max(len(name) for name, _ in rows)
    return "\n".join([f"spillway on {stats.get('device', '-')}", *(f"  {name:<{width}}  {value}" for name, value in rows)])


def _budget_rows(stats: dict[str, Any]) -> list[tuple[str, str]]:
    peak, plain = stats.get("peak_bytes"), stats.get("plain_peak_bytes")
    rows = [
        ("budget", _budget(stats)),
        ("peak", _bytes(peak)),
        ("plain peak", _bytes(plain) + _share(peak, plain)),
        ("steps", _steps(stats, "outside this budget")),
        ("moved", f"{_bytes(stats.get('moved_out_bytes'))} out, {_bytes(stats.get('moved_in_bytes'))} in"),
        ("recomputed", f"{_count(stats.get('recomputed_ops'))} ops in {_seconds(stats.get('recompute_seconds'))}"),
        ("stalls", _stalls(stats.get("stall_seconds"))),
    ]
    if stats.get("plan"):
        rows.append(("plan", _plan(stats["plan"], stats.get("first_plan"), stats.get("budget_bytes"))))
    if stats.get("varying_steps"):
        rows.append(("sizes", _sizes(stats)))
    if (cache := stats.get("cache") or {}).get("warm"):
        left = "its plan" if cache.get("first_step_planned_ops") else "what it recorded"
        rows.append(("start", f"warm: a run before this one left {left}"))
    if cache.get("problem"):
        rows.append(("cache", cache["problem"]))
    if stats.get("violations"):
        rows.append(("VIOLATIONS", f"{_count(stats['violations'])} (a defect: the budget was crossed)"))
    return rows


def _budget(stats: dict[str, Any]) -> str:
    now, most = stats.get("budget_bytes"), stats.get("largest_budget_bytes")
    return _bytes(now) + (f" (at the end; the largest was {_bytes(most)})" if most and now is not None and most > now else "")


def _sizes(stats: dict[str, Any]) -> str:
    """Of a run whose steps change size: how many were foreseen, and how many of those needed no plan."""
    planned = stats.get("foreseen_steps", 0) - stats.get("fitting_steps", 0)
    return f"change: of {_count(stats['varying_steps'])} steps {_count(planned)} had a plan and {_count(stats.get('fitting_steps'))} had room as they were"


def _watching_rows(stats: dict[str, Any]) -> list[tuple[str, str]]:
    return [
        ("budget", "none (only watching)"),
        ("plain peak", _bytes(stats.get("plain_peak_bytes"))),
        ("floor", _bytes(stats.get("floor_bytes"))),
        ("floor's op", _floor_op(stats.get("floor_op"))),
        ("steps", _steps(stats, "not watched")),
        ("ops", _count(stats.get("ops"))),
    ]


def _floor_op(op: dict[str, Any] | None) -> str:
    if not op or not op.get("name"):
        return "-"
    parts = [
        f"{_bytes(op['input_bytes'])} of inputs",
        f"{_bytes(op['output_bytes'])} of outputs",
        f"{_bytes(op['transient_bytes'])} on the way",
        f"{_bytes(op['cannot_leave_bytes'])} that cannot leave",
    ]
    return f"{op['name']}: {', '.join(parts)}"


def live_line(stats: dict[str, Any], width: int) -> str:
    """Where the run stands, cut to the terminal."""
    parts = [f"step {_count(stats.get('steps'))}", f"peak {_bytes(stats.get('peak_bytes'))}"]
    if stats.get("budget_bytes") is not None:
        parts[1] += f" of {_bytes(stats['budget_bytes'])}"
        parts.append(f"moved {_bytes((stats.get('moved_out_bytes') or 0) + (stats.get('moved_in_bytes') or 0))}")
        parts.append(f"recomputed {_count(stats.get('recomputed_ops'))} ops")
    return ("spillway: " + ", ".join(parts))[: max(width - 1, 0)]


def _stalls(stalls: dict[str, float] | None) -> str:
    if not stalls:
        return "-"
    named = [f"{name.replace('_', ' ')} {_seconds(seconds)}" for name, seconds in stalls.items() if seconds > 0]
    return _seconds(sum(stalls.values())) + (f" ({', '.join(named)})" if named else "")


def _plan(plan: dict[str, Any], first: dict[str, Any] | None, budget: int | None) -> str:
    """What the plan in use promises, and what the first one did, which was there so soon."""

    def promise(one: dict[str, Any]) -> str:
        over = 100 * (one["step_seconds"] / one["plain_step_seconds"] - 1) if one["plain_step_seconds"] else 0.0
        lacks = one["peak_bytes"] - budget if budget is not None else 0
        held = f" (lacks {_bytes(lacks)}: the budget is held by reaction, which takes longer)" if lacks > 0 else ""
        return f"{1000 * one['step_seconds']:.1f} ms a step ({over:+.1f} %), peak {_bytes(one['peak_bytes'])}{held}"

    return promise(plan) + (f"; the first, made in {1000 * first['took_seconds']:.0f} ms: {promise(first)}" if first else "")


def _bytes(value: int | None) -> str:
    return "-" if value is None else to_text(value)


def _count(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _steps(stats: dict[str, Any], elsewhere: str) -> str:
    # True of a script that trains in processes of its own, and of one that does not train at all: we cannot tell them apart. One that
    # ended with an error has told why.
    count = stats.get("steps")
    unseen = count == 0 and stats.get("finished") is not False
    return _count(count) + (f" (none was seen in this process; child processes are {elsewhere})" if unseen else "")


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f} s"


def _share(peak: int | None, plain: int | None) -> str:
    # Memory is taken in whole pieces, so a run that needs no less than a plain one may take a little more.
    return f" (this run took {100 * peak / plain:.0f} % of it)" if peak and plain and peak < plain else ""
