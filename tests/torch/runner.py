"""Runs one program of the zoo in this process and writes what it did as JSON: `runner.py NAME --out FILE`.

With `--spillway '{"budget": 1000000}'` it runs under the engine with these options (a budget of null only watches), with
`--imports-only` it stops before building anything, with `--oracle` it measures the floor instead of recording tensors, with
`--beside OTHER` a second program trains in a second thread at the same time. With `--plans-at-once` plans are made by the training
thread and followed: when does not depend on the machine.
Everything that could make two runs differ is pinned here: seeds, threads, algorithms.
"""

import argparse
import json
import os
import sys
import threading
from dataclasses import asdict
from pathlib import Path

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
sys.path.insert(0, str(Path(__file__).parent))

import torch  # noqa: E402
import torch._dynamo  # noqa: E402, F401  every optimizer imports it when it is made: an import, not the program's memory

import record  # noqa: E402
import zoo  # noqa: E402


def parse(arguments=None) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=sorted(zoo.PROGRAMS))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--scale", choices=["small", "large"], default="small")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--spillway", type=json.loads, default=None, metavar="OPTIONS")
    parser.add_argument("--plans-at-once", action="store_true")
    parser.add_argument("--beside", choices=sorted(zoo.PROGRAMS))
    parser.add_argument("--imports-only", action="store_true")
    parser.add_argument("--oracle", action="store_true")
    return parser.parse_args(arguments)


def make_deterministic(threads: int, device: str) -> None:
    torch.set_num_threads(threads)
    # On a card an op without a deterministic kernel must be known by name; on the CPU with one thread all are.
    torch.use_deterministic_algorithms(True, warn_only=device == "cpu")
    torch.backends.cuda.enable_mem_efficient_sdp(False)  # its backward has no deterministic form
    torch.utils.deterministic.fill_uninitialized_memory = False  # a fill after every empty() is no one's program
    torch.backends.cudnn.benchmark = False


def peak_resident_bytes() -> int:
    """The most physical memory this process ever had, by the kernel's count."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def train(options: argparse.Namespace) -> list[dict]:
    program = zoo.build(options.name, options.seed, options.device, options.scale)
    return [record.record_step(program, i, options.device) for i in range(options.steps)]


def train_beside(options: argparse.Namespace) -> dict:
    """Both built one after the other, because they seed the one generator there is; then both trained at once."""
    programs = {n: zoo.build(n, options.seed, options.device, options.scale) for n in (options.name, options.beside)}
    found = {}

    def work(name):
        steps = (record.record_step(programs[name], i, options.device) for i in range(options.steps))
        found[name] = [step | {"random": "shared"} for step in steps]

    threads = [threading.Thread(target=work, args=(name,)) for name in programs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {"steps": found[options.name], "beside": found[options.beside]}


def train_all(options: argparse.Namespace) -> dict:
    return train_beside(options) if options.beside else {"steps": train(options)}


def train_under_spillway(options: argparse.Namespace) -> dict:
    import spillway
    from at_once import plan_at_once

    if options.plans_at_once:
        plan_at_once()
    spillway.enable(device=options.device, **options.spillway)
    done = train_all(options) | {"stats": spillway.stats(), "resident_bytes": peak_resident_bytes()}
    spillway.disable()
    return done


def measure_floor(options: argparse.Namespace) -> dict:
    import floor_oracle

    return asdict(floor_oracle.measure(lambda: train(options)))


def run(options: argparse.Namespace) -> dict:
    make_deterministic(options.threads, options.device)
    zoo.load(options.name)
    if options.imports_only:
        return {"resident_bytes": peak_resident_bytes()}
    if options.oracle:
        return measure_floor(options)
    if options.spillway is not None:
        return train_under_spillway(options)
    return train_all(options) | {"resident_bytes": peak_resident_bytes()}


def main(arguments=None) -> None:
    chosen = parse(arguments)
    chosen.out.write_text(json.dumps(run(chosen)))


if __name__ == "__main__":
    main()
