"""A compiled net whose graphs mix operators we see (convolutions) with kernels we do not, trained several times in this process.

Plain, watched, and in the budgets between the floor and the peak that watching told. Prints all of it as JSON, digests for
tensors.
"""

import json
import sys
from pathlib import Path

import torch
import torch._dynamo
from torch import nn

sys.path.insert(0, str(Path(__file__).parent))

from record import digest  # noqa: E402

import spillway  # noqa: E402


def block(channels: int) -> nn.Module:
    return nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1), nn.ReLU(), nn.Conv2d(channels, channels, 3, padding=1), nn.GELU())


def train() -> list[str]:
    torch._dynamo.reset()  # the same graphs again, from the compiler's cache
    torch.manual_seed(0)
    blocks = [block(8) for _ in range(3)]
    compiled = torch.compile(blocks[0])
    parameters = [parameter for one in blocks for parameter in one.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=1e-2)
    answers = []
    for seed in range(3):
        image = torch.randn(8, 8, 32, 32, generator=torch.Generator().manual_seed(seed))
        x = compiled(image)
        for one in blocks[1:]:
            x = torch.tanh(torch.func.functional_call(compiled, dict(one.named_parameters()), (x,)))
        loss = x.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        answers.append(digest(loss.detach()))
    return answers + [digest(parameter.detach()) for parameter in parameters]


def under(**options) -> dict:
    spillway.enable(device="cpu", **options)
    answers, stats = train(), spillway.stats()
    spillway.disable()
    return {"answers": answers, "stats": stats}


def main() -> None:
    torch.set_num_threads(1)
    plain, watched = train(), under(budget=None)
    floor, peak = watched["stats"]["floor_bytes"], watched["stats"]["peak_live_bytes"]
    budgets = [floor * 11 // 10, (3 * floor + peak) // 4, (floor + peak) // 2]
    budgeted = [under(budget=budget, policy=sys.argv[1]) for budget in budgets]
    print(json.dumps({"plain": plain, "watched": watched, "budgeted": budgeted}))


if __name__ == "__main__":
    main()
