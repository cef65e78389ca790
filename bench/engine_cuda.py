"""Training steps on a card inside budgets, beside the plain step, checkpointing per block and torch's save_on_cpu.

    engine_cuda.py resnet50 hybrid   plain, checkpoint, save_on_cpu, then the engine from 130 to 27 % of the plain peak
    engine_cuda.py gpt2 lru          plain, then the engine at 60 and 40 %

Times are medians between CUDA events. "bits" compares losses and parameters with the plain run of the same steps; peaks are
what torch tells (allocated, reserved). One line of JSON a row goes to --out as well.
"""

import argparse
import gc
import hashlib
import json
import os
import statistics
import sys

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

GIB = 1 << 30
TIMED = 8
warm = 3  # steps before the timed ones; a policy that plans needs more until its plan is ready


def checkpoint_blocks(blocks):
    for block in blocks:
        forward = block.forward
        block.forward = lambda *args, _forward=forward, **kwargs: checkpoint(_forward, *args, use_reentrant=False, **kwargs)


def resnet50(checkpointed):
    import torchvision

    model = torchvision.models.resnet50().cuda().to(memory_format=torch.channels_last).train()
    if checkpointed:
        checkpoint_blocks([block for layer in (model.layer1, model.layer2, model.layer3, model.layer4) for block in layer])
    images = torch.randn(256, 3, 224, 224, device="cuda").to(memory_format=torch.channels_last)
    labels = torch.randint(1000, (256,), device="cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    return model, optimizer, lambda: F.cross_entropy(model(images), labels)


def gpt2(checkpointed):
    import transformers

    config = transformers.GPT2Config(n_embd=1024, n_layer=24, n_head=16, use_cache=False)
    model = transformers.GPT2LMHeadModel(config).cuda().train()
    if checkpointed:
        checkpoint_blocks(model.transformer.h)
    tokens = torch.randint(50257, (16, 1024), device="cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    return model, optimizer, lambda: model(input_ids=tokens, labels=tokens).loss


def train(make, checkpointed=False, offload=False):
    """Milliseconds a step, a digest of losses and parameters, and torch's peaks."""
    gc.collect()  # what the run before left in cycles
    torch.cuda.empty_cache()
    torch.manual_seed(0)
    torch.cuda.reset_peak_memory_stats()
    model, optimizer, loss_of = make(checkpointed)
    marks, losses = [], []

    def step():
        marks.append(torch.cuda.Event(enable_timing=True))
        marks[-1].record()
        with torch.autocast("cuda", torch.bfloat16):
            if offload:
                with torch.autograd.graph.save_on_cpu(pin_memory=True):
                    loss = loss_of()
            else:
                loss = loss_of()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.detach())

    for _ in range(warm + TIMED if not offload else 4):
        step()
    marks.append(torch.cuda.Event(enable_timing=True))
    marks[-1].record()
    torch.cuda.synchronize()
    times = [a.elapsed_time(b) for a, b in zip(marks[:-1], marks[1:])][warm if not offload else 2:]
    digest = hashlib.sha256()
    for tensor in (*losses, *model.parameters()):
        digest.update(tensor.detach().cpu().reshape(-1).view(torch.uint8).numpy().tobytes())
    peaks = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
    return statistics.median(times), digest.hexdigest(), peaks


class Table:
    def __init__(self, model, out):
        self.model, self.out, self.plain = model, out, None

    def add(self, name, measured, **facts):
        ms, digest, (allocated, reserved) = measured
        if self.plain is None:
            self.plain = measured
        same = digest == self.plain[1] if name != "save_on_cpu" else None  # that one runs fewer steps
        row = {"model": self.model, "run": name, "ms": round(ms, 2), "over_plain": round(ms / self.plain[0] - 1, 4),
               "bits": same, "allocated_gib": round(allocated / GIB, 2), "reserved_gib": round(reserved / GIB, 2), **facts}
        print(json.dumps(row), flush=True)
        if self.out:
            with open(self.out, "a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")


def plan_facts(before, after):
    """How the plan fared, where there is one: predicted slowdown, steps that followed it, room made beside it."""
    plan = after.get("plan")
    if not plan:
        return {}
    return {"predicted": round(plan["step_seconds"] / plan["plain_step_seconds"] - 1, 4),
            "planned_steps": after["planned_steps"] - before["planned_steps"],
            "surprises": after["plan_surprises"] - before["plan_surprises"],
            **{key: after[key] - before[key] for key in ("remaps", "placed_steps", "misplaced_blocks")},
            "plan": {key: round(value, 5) if "seconds" in key else round(value / GIB, 3) for key, value in plan.items()}}


def under_the_engine(table, make, policy, peak, shares, words):
    import spillway

    before = None
    for share in shares:
        budget = peak * share // 100
        if before is None:
            spillway.enable(budget=budget, device="cuda", policy=policy, host_limit="64GiB", **words)
            before = spillway.stats()
        spillway.set_budget(budget)
        try:
            measured = train(make)
        except torch.OutOfMemoryError as error:
            print(f"{policy} {share} %: {error}", flush=True)
            continue
        after = spillway.stats()
        steps = warm + TIMED
        moved, dropped, ops = (after[k] - before[k] for k in ("moved_out_bytes", "dropped_bytes", "recomputed_ops"))
        named = " ".join([policy, f"{share} %", *(word for word in words.values() if word not in ("plain", "spillway"))])
        table.add(named, measured, budget_gib=round(budget / GIB, 2), moved_gib_a_step=round(moved / GIB / steps, 2),
                  dropped_gib_a_step=round(dropped / GIB / steps, 2), replayed_ops_a_step=round(ops / steps, 1),
                  violations=after["violations"], **plan_facts(before, after))
        before = after
    print(json.dumps(spillway.stats()), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=["resnet50", "gpt2"])
    parser.add_argument("policy", choices=["dtr", "lru", "hybrid"])
    parser.add_argument("--out")
    parser.add_argument("--shares", type=int, nargs="+")
    parser.add_argument("--only-engine", action="store_true", help="leave checkpoint and save_on_cpu out")
    parser.add_argument("--workspace", default="plain")
    parser.add_argument("--allocator", default="spillway")
    options = parser.parse_args()
    global warm
    warm = 40 if options.policy == "hybrid" else warm
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    make = {"resnet50": resnet50, "gpt2": gpt2}[options.model]
    table = Table(options.model, options.out)
    plain = train(make)
    table.add("plain", plain)
    if options.policy != "lru" and not options.only_engine:
        for name, settings in {"checkpoint": {"checkpointed": True}, "save_on_cpu": {"offload": True}}.items():
            table.add(name, train(make, **settings))
    gc.collect()
    shares = options.shares or ([60, 40] if options.policy == "lru" else [130, 100, 60, 43, 27])
    under_the_engine(table, make, options.policy, plain[2][0], shares,
                     {"workspace": options.workspace, "allocator": options.allocator})


if __name__ == "__main__":
    sys.exit(main())
