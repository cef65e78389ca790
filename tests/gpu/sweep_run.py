"""The operator sweep of tests/torch on a card, in several processes at once.

    sweep_run.py [--mode move replay] [--at-once 12] [--samples 3] [--seconds 200]

Prints counts for each mode and every operator that did not come out equal. One that ends its process is a result
("crash"); those that were not reached in time are counted.
"""

import argparse
import collections
import json
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SWEEP = Path(__file__).parents[1] / "torch" / "opinfo_sweep.py"


def shard(mode, offset, options, deadline):
    """The results of every n-th operator, and what the last process counted."""
    results, stats, first = [], {}, 0
    while time.time() < deadline:
        command = [sys.executable, str(SWEEP), "--device", "cuda", "--mode", mode, "--samples", str(options.samples),
                   "--every", str(options.at_once), "--offset", str(offset), "--first", str(first)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env=os.environ | {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"})
        killer = threading.Timer(max(deadline - time.time(), 1), process.kill)
        killer.start()
        said, errors = process.communicate()
        killer.cancel()
        lines = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
        results += [line for line in lines if "op" in line]
        begun = [line for line in lines if "begin" in line]
        if process.returncode == 0 or not begun:
            stats = next((line["stats"] for line in lines if "stats" in line), {"error": errors[-500:]})
            break
        if time.time() < deadline:
            crash = {"op": begun[-1]["begin"], "status": "crash", "samples": 0, "backward": 0, "why": errors[-300:]}
            results.append(crash)
        first = begun[-1]["index"] + 1
    return results, stats


def sweep(mode, options):
    deadline = time.time() + options.seconds
    with ThreadPoolExecutor(options.at_once) as pool:
        shards = list(pool.map(lambda offset: shard(mode, offset, options, deadline), range(options.at_once)))
    results = [result for found, _ in shards for result in found]
    counts = collections.Counter(result["status"] for result in results)
    replayed = sum(stats.get("recomputed_ops", 0) for _, stats in shards)
    print(f"float32 by {mode}: {dict(counts)}, {sum(r['samples'] for r in results)} samples, "
          f"{sum(r['backward'] for r in results)} backward runs, {replayed} ops replayed", flush=True)
    for result in sorted(results, key=lambda result: result["status"]):
        if result["status"] not in ("equal", "none"):
            print(f"  {result['status']:8} {result['op']}: {result['why']}")
    for _, stats in shards:
        if "error" in stats:
            print("  a shard ended:", stats["error"])
    return counts["differs"] + counts["crash"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mode", nargs="+", default=["move", "replay"])
    parser.add_argument("--at-once", type=int, default=12)
    parser.add_argument("--samples", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=200, help="for each mode")
    options = parser.parse_args()
    return 1 if sum(sweep(mode, options) for mode in options.mode) else 0


if __name__ == "__main__":
    sys.exit(main())
