"""What every program of the zoo is made of.

A program is its modules, its optimizers and a step. `zero_grad` comes first in a step, never last, so that the gradients of
a step are still there when its state is read.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn


@dataclass
class Program:
    step: Callable[[int], dict[str, Tensor]]
    modules: dict[str, nn.Module]
    optimizers: dict[str, torch.optim.Optimizer] = field(default_factory=dict)
    extra: Callable[[], dict[str, Tensor]] = dict  # what is neither: a scaler's scale, a scheduler's rate

    def state(self) -> dict[str, Tensor]:
        """Every parameter, gradient, buffer and optimizer tensor by name; gradients first, they differ first."""
        found = {}
        for owner, module in self.modules.items():
            found |= {f"gradient {owner}.{n}": p.grad for n, p in module.named_parameters() if p.grad is not None}
        for owner, module in self.modules.items():
            found |= {f"parameter {owner}.{n}": p for n, p in module.named_parameters()}
            found |= {f"buffer {owner}.{n}": b for n, b in module.named_buffers()}
        for owner, optimizer in self.optimizers.items():
            found |= {f"optimizer {owner}.{n}": t for n, t in optimizer_tensors(optimizer)}
        return found | {f"extra {n}": t for n, t in self.extra().items()}


def optimizer_tensors(optimizer: torch.optim.Optimizer):
    parameters = (p for group in optimizer.param_groups for p in group["params"])
    for index, parameter in enumerate(parameters):
        for key, value in optimizer.state.get(parameter, {}).items():
            values = value if isinstance(value, list) else [value]
            yield from ((f"{index}.{key}.{n}", v) for n, v in enumerate(values) if isinstance(v, Tensor))


def pick(scale: str, small, large):
    return {"small": small, "large": large}[scale]


class Draw:
    """The data of one step: drawn on the CPU from the step's own generator, so that every device sees the same."""

    def __init__(self, step: int, device: str, salt: int = 0):
        self.generator = torch.Generator().manual_seed(7919 * (step + 1) + salt)
        self.device = device

    def normal(self, *shape: int) -> Tensor:
        return torch.randn(*shape, generator=self.generator).to(self.device)

    def uniform(self, *shape: int) -> Tensor:
        return torch.rand(*shape, generator=self.generator).to(self.device)

    def integers(self, high: int, *shape: int, low: int = 0) -> Tensor:
        return torch.randint(low, high, shape, generator=self.generator).to(self.device)


def supervised(model: nn.Module, optimizer, loss_of: Callable[[nn.Module, int], Tensor]) -> Program:
    """The plain loop: one model, one optimizer, one loss."""

    def step(i: int) -> dict[str, Tensor]:
        optimizer.zero_grad()
        loss = loss_of(model, i)
        loss.backward()
        optimizer.step()
        return {"loss": loss}

    return Program(step, {"model": model}, {"optimizer": optimizer})
