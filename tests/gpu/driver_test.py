"""Not by our own count: NVML, asked from another process every two milliseconds, sees no more than the budget.

    driver_test.py [--cold] [BUDGET_MIB ...]    trains in each budget (default 500 640 800) and tells what NVML saw;
                                                --cold: kernels that only the engine uses are loaded while it is watched

Alone on the card. The context is what the process holds once it has trained in the budget before: code of kernels is
memory of the card, too, and is loaded when first used. By how much the context has grown at the end is told.
"""

import ctypes
import json
import subprocess
import sys
import threading
import time

import torch
from checks import MIB, make_deterministic, train


class Memory(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulonglong) for name in ("total", "free", "used")]


class Watcher(threading.Thread):
    """The most that NVML ever told between start and stop."""

    def __init__(self):
        super().__init__(daemon=True)
        self.nvml = ctypes.CDLL("libnvidia-ml.so.1")
        self.nvml.nvmlInit_v2()
        self.card = ctypes.c_void_p()
        self.nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self.card))
        self.most, self.samples, self.over = 0, 0, threading.Event()

    def used(self):
        memory = Memory()
        assert self.nvml.nvmlDeviceGetMemoryInfo(self.card, ctypes.byref(memory)) == 0
        return memory.used

    def run(self):
        while not self.over.is_set():
            self.most = max(self.most, self.used())
            self.samples += 1
            time.sleep(0.002)

    def stop(self):
        self.over.set()
        self.join()


def child(budget, cold):
    """Says when it is about to train, waits for a line, trains, says what it counted."""
    import spillway

    make_deterministic()
    train(torch.float32, steps=2)  # contexts, kernels, library handles
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    held = torch.cuda.memory_reserved()
    spillway.enable(budget=budget, device="cuda", host_limit="8GiB")
    if not cold:
        train(torch.float32, steps=6)
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    print(json.dumps({"held": torch.cuda.memory_reserved(), "before": held}), flush=True)
    input()
    train(torch.float32, steps=6)
    torch.cuda.synchronize()
    stats = spillway.stats()
    print(json.dumps({key: stats[key] for key in ("peak_bytes", "violations", "moved_out_bytes", "dropped_bytes")} |
                     {"held": torch.cuda.memory_reserved()}), flush=True)
    input()


def judge(budget, cold):
    command = [sys.executable, "-u", __file__, "--child", str(budget), *["--cold"] * cold]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    ready = json.loads(process.stdout.readline())
    watcher = Watcher()
    context = watcher.used() - ready["held"]
    watcher.start()
    process.stdin.write("go\n")
    process.stdin.flush()
    told = json.loads(process.stdout.readline())
    watcher.stop()
    grown = watcher.used() - told["held"] - context
    process.communicate("end\n")
    taken = watcher.most - context
    print("ok  " if taken <= budget else "FAIL", f"budget {budget / MIB:.0f} MiB: NVML {taken / MIB:.1f} in "
          f"{watcher.samples} samples, own count {told['peak_bytes'] / MIB:.1f}, context {context / MIB:.0f} and "
          f"{grown / MIB:.1f} more at the end, out {told['moved_out_bytes'] / MIB:.0f}, "
          f"dropped {told['dropped_bytes'] / MIB:.0f}, violations {told['violations']}", flush=True)
    return taken <= budget and told["violations"] == 0


def main(arguments):
    if not torch.cuda.is_available():
        print("skipped: no card")
        return 0
    cold = "--cold" in arguments
    numbers = [int(one) for one in arguments if one.isdigit()]
    if "--child" in arguments:
        child(numbers[0], cold)
        return 0
    return 0 if all([judge(mib * MIB, cold) for mib in numbers or (500, 640, 800)]) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
