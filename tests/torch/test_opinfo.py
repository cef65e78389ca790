"""The operator sweep: torch's own database, everything evicted after every op, by move and by replay: same bits as plain.

`make test` takes every tenth operator; SPILLWAY_TEST_LONG=1 takes all of them, more samples and more dtypes.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SWEEP = Path(__file__).with_name("opinfo_sweep.py")
LONG = bool(os.environ.get("SPILLWAY_TEST_LONG"))

# Every operator of the database that the float32 sweep may leave out, and why.
UNINITIALISED = "its result is uninitialised memory"
NEEDS_A_CARD = "its samples or its kernels exist for CUDA alone"
LEFT_OUT = {
    **dict.fromkeys(["empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"], UNINITIALISED),
    "torch._scaled_mm": NEEDS_A_CARD,
    "torch._scaled_mm_v2": NEEDS_A_CARD,
    "torch.ops.aten._flash_attention_forward": NEEDS_A_CARD,
    "torch.ops.aten._efficient_attention_forward": NEEDS_A_CARD,
    "nn.functional.batch_norm.without_cudnn": NEEDS_A_CARD,
    "jiterator_unary": NEEDS_A_CARD,
    "jiterator_binary": NEEDS_A_CARD,
    "jiterator_4inputs_with_extra_args": NEEDS_A_CARD,
    "jiterator_binary_return_by_ref": NEEDS_A_CARD,
    "jiterator_2inputs_2outputs": NEEDS_A_CARD,
}
LEAST_REPLAYED = 470  # distinct operators, over all dtypes of the long run
DTYPES = ["float32", "bfloat16", "complex64", "int64"] if LONG else ["float32"]


@functools.cache
def sweep(mode: str, dtype: str) -> tuple[list[dict], dict]:
    """All results; an operator that ends the process is a result ("crash") and the rest goes on in a new one."""
    samples, every = (12, 1) if LONG else (3, 10)
    results, first = [], 0
    while True:
        command = [sys.executable, str(SWEEP), "--mode", mode, "--dtype", dtype, "--samples", str(samples), "--every", str(every), "--first", str(first)]
        command += ["--any-dtype"] if dtype == "float32" else []
        done = subprocess.run(command, capture_output=True, text=True, timeout=3000, check=False)
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        results += [line for line in lines if "op" in line]
        if done.returncode == 0:
            return results, next(line["stats"] for line in lines if "stats" in line)
        begun = [line for line in lines if "begin" in line]
        assert begun, f"the sweep did not start: {done.stderr[-2000:]}"
        results.append({"op": begun[-1]["begin"], "status": "crash", "samples": 0, "backward": 0, "why": f"exit {done.returncode}"})
        first = begun[-1]["index"] + 1


@pytest.mark.parametrize("mode", ["move", "replay"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_operator_gives_the_same_bits_with_everything_evicted_after_every_op(mode: str, dtype: str) -> None:
    results, stats = sweep(mode, dtype)
    bad = [result for result in results if result["status"] not in ("equal", "none")]
    equal = [result for result in results if result["status"] == "equal"]
    left_out = {result["op"] for result in results if result["status"] == "none"}
    replayed = len(stats.get("replayed_operators", []))
    print(f"{dtype} by {mode}: {len(equal)} operators equal, {sum(r['samples'] for r in equal)} samples, "
          f"{sum(r['backward'] for r in equal)} backward runs; {stats['moved_out_bytes']} bytes moved, "
          f"{stats['recomputed_ops']} ops replayed, {replayed} distinct operators")  # fmt: skip
    assert not bad, "\n".join(f"{r['op']}: {r['status']} {r['why']}" for r in bad)
    assert len(equal) >= (300 if LONG else 40)
    assert stats["recomputed_ops"] > 0 if mode == "replay" else stats["moved_out_bytes"] > 0
    if dtype == "float32":
        assert left_out <= set(LEFT_OUT)
    if LONG and dtype == "float32":
        assert left_out == set(LEFT_OUT)


@pytest.mark.long
def test_the_sweep_really_replays_most_operators():
    replayed = set().union(*(sweep("replay", dtype)[1]["replayed_operators"] for dtype in DTYPES))
    print(f"{len(replayed)} distinct operators replayed")
    assert len(replayed) >= LEAST_REPLAYED
