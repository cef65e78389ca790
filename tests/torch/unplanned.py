"""Runs that give nothing to plan for, each plain, watched and inside a budget below its peak, of which nothing else is said.

    python unplanned.py      prints, as JSON by name, digests of all that was made, plain and inside the budget, and the stats
"""

import json

import planned
import torch

import spillway


def evaluates():
    model, batch, _ = planned.mlp()
    with torch.no_grad():
        return [model(batch + number) for number in range(6)]


def trains_one_step():
    model, batch, make_optimizer = planned.mlp()
    optimizer = make_optimizer(model.parameters(), lr=1e-3)
    model(batch).square().mean().backward()
    optimizer.step()
    return [*model.parameters()]


def has_no_optimizer():
    model, batch, _ = planned.mlp()
    for _ in range(8):
        model(batch).square().mean().backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.01 * parameter.grad
                parameter.grad = None
    return [*model.parameters()]


def has_no_two_steps_alike():
    model, _, make_optimizer = planned.convolutions()
    optimizer = make_optimizer(model.parameters(), lr=1e-3)
    for step in range(8):
        optimizer.zero_grad()
        for _ in range(1 + step):
            model(torch.randn(4 + step, 3, 24 + step, 24)).square().mean().backward()
        optimizer.step()
    return [*model.parameters(), *model.buffers()]


CASES = (evaluates, trains_one_step, has_no_optimizer, has_no_two_steps_alike)


def make(case) -> str:
    torch.manual_seed(0)
    return planned.digest(case())


def make_within(budget, case) -> tuple[str, dict]:
    spillway.enable(budget, device="cpu")
    digest = make(case)
    spillway.disable()
    return digest, spillway.stats()


def tell(case) -> dict:
    plain = make(case)
    _, watched = make_within(None, case)
    budget = max(watched["peak_live_bytes"] * 7 // 10, watched["floor_bytes"] * 12 // 10)
    digest, stats = make_within(budget, case)
    return {"plain": plain, "digest": digest, "stats": stats}


def main() -> None:
    torch.set_num_threads(1)
    print(json.dumps({case.__name__: tell(case) for case in CASES}))


if __name__ == "__main__":
    main()
