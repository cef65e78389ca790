"""Trains a model plainly, then again while the budget changes in the middle of steps; prints what was seen, as JSON.

    python changing.py MODEL POLICY STEPS_EACH SHARE...      shares in percent of the plain peak; before them all is ample
"""

import json
import random
import sys

import planned
import torch
import varying
from at_once import plan_at_once

import spillway


def make(name):
    torch.manual_seed(0)
    if name in varying.MODELS:
        dice = random.Random(1)
        model, loss_of = varying.MODELS[name]()
        return model, lambda: loss_of(dice)
    model, batch, _ = {"mlp": planned.mlp, "attention": planned.attention}[name]()
    return model, lambda: model(batch).square().mean()


def train(name, steps, in_the_middle, after) -> str:
    model, loss_of = make(name)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        loss = loss_of()
        in_the_middle(step)  # with all that backward needs alive
        loss.backward()
        optimizer.step()
        losses.append(loss.detach().clone())
        after()
    return planned.digest([*losses, *model.parameters()])


class Changes:
    def __init__(self, each, shares):
        self.each, self.shares, self.seen = each, [None, *shares], []

    def in_the_middle(self, step):
        if step % self.each == 0:
            share = self.shares[step // self.each]
            stats = spillway.stats()
            budget = stats["budget_bytes"] if share is None else stats["plain_peak_bytes"] * share // 100
            spillway.set_budget(budget)
            self.seen.append({"budget": budget, "most_reserved": 0, "left_until": [], "planned_before": stats["planned_steps"]})
        self.look()

    def look(self) -> dict:
        stats = spillway.stats()
        self.seen[-1]["most_reserved"] = max(self.seen[-1]["most_reserved"], stats["reserved_bytes"])
        return stats

    def after(self):
        stats = self.look()
        self.seen[-1]["left_until"].append(stats["moved_out_bytes"] + stats["dropped_bytes"] + stats["left_clean_bytes"])


def main() -> None:
    name, policy, each, *shares = sys.argv[1:]
    torch.set_num_threads(1)
    changes = Changes(int(each), [int(share) for share in shares])
    steps = changes.each * len(changes.shares)
    plain = train(name, steps, lambda _: None, lambda: None)
    plan_at_once()
    spillway.enable("1GiB", device="cpu", policy=policy)
    digest = train(name, steps, changes.in_the_middle, changes.after)
    print(json.dumps({"same_bits": digest == plain, "seen": changes.seen, "stats": spillway.stats()}))


if __name__ == "__main__":
    main()
