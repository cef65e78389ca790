"""Trains a model by its plan until one step goes another way, and on; prints, as JSON, a digest of all, and stats after every step.

    python astray.py CASE [BUDGET]      within BUDGET bytes, or "watch"; without it plain

The plan is made by the training thread, so that it is there at the same step on every machine.
"""

import json
import sys

import planned
import torch
from at_once import plan_at_once

import spillway

STEPS = 20
ODD = 12  # the step that goes another way


class LeftHalfway(Exception):
    """Raised in the middle of a backward."""


def leave_halfway(gradient):
    raise LeftHalfway


def forward(model, found, case):
    """A layer in the middle has an op before it, or is left out, or is another, or its gradient is not to be had."""
    middle = len(model) // 2
    for number, layer in enumerate(model):
        if number == middle and case == "extra op":
            found = found * 0.5
        if number == middle and case == "raises":
            found.register_hook(leave_halfway)
        if number == middle + 5 and case == "op missing":  # a ReLU: what comes after it fits without it
            continue
        found = found.sigmoid() if number == middle + 5 and case == "another op" else layer(found)
    return found.square().mean()


def train(case):
    model, batch, make_optimizer = planned.mlp()
    optimizer = make_optimizer(model.parameters(), lr=1e-3)
    losses, told = [], []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = forward(model, batch, case if step == ODD else None)
        losses.append(loss.detach().clone())
        try:
            loss.backward()
        except LeftHalfway:
            del loss
            continue  # as a script that catches what it can: the step is given up
        optimizer.step()
        if len(sys.argv) > 2:
            told.append(spillway.stats() | {"step": step})
    return {"digest": planned.digest([*losses, *model.parameters()]), "stats": told}


def main() -> None:
    torch.set_num_threads(1)
    plan_at_once()
    if len(sys.argv) > 2:
        spillway.enable(None if sys.argv[2] == "watch" else int(sys.argv[2]), device="cpu", policy="hybrid")
    torch.manual_seed(0)
    print(json.dumps(train(sys.argv[1])))


if __name__ == "__main__":
    main()
