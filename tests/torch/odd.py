"""Small training programs of every kind, made by dice: same seed, same program.

    odd.py OUT SEED STEPS [OPTIONS]

writes, as JSON, digests of all that a run leaves behind, and under spillway (OPTIONS, for enable()) its stats. With a budget
`then` among the options, that one holds from the third step on, and only the error it ends with is told. Widths and batches are odd numbers of a few KiB to a few hundred, so nothing is a whole number of anybody's pieces.
"""

import json
import random
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from planned import digest
from torch import nn
from torch.utils.checkpoint import checkpoint


class Residual(nn.Sequential):
    def forward(self, x):
        return x + super().forward(x)


class Checkpointed(nn.Sequential):
    def forward(self, x):
        return checkpoint(super().forward, x, use_reentrant=False)


class Recurrent(nn.Module):
    def __init__(self, kind, width, hidden, layers, both_ways):
        super().__init__()
        self.cells = kind(width, hidden, layers, batch_first=True, bidirectional=both_ways)
        self.back = nn.Linear(hidden * (1 + both_ways), width)

    def forward(self, x):
        return self.back(self.cells(x)[0])


class Attention(nn.Module):
    def __init__(self, width, dropout):
        super().__init__()
        self.heads = nn.MultiheadAttention(width, 4, dropout=dropout, batch_first=True)

    def forward(self, x):
        return x + self.heads(x, x, x)[0]


class Views(nn.Module):
    """Writes through views of one storage."""

    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(width))

    def forward(self, x):
        half = x.shape[-1] // 2
        y = x.clone()
        y[..., :half] = x[..., :half] * self.scale[:half]
        y[..., half:].mul_(1.5)
        y.transpose(0, 1)[0].add_(1)
        return torch.cat([part.tanh() for part in reversed(y.split(max(1, half // 2), -1))], -1).roll(1, -1)


class Spectrum(nn.Module):
    def forward(self, x):
        return torch.fft.irfft(torch.fft.rfft(x) * 0.7, n=x.shape[-1])


class Sorted(nn.Module):
    def forward(self, x):
        values, places = x.sort(-1)
        return torch.zeros_like(x).scatter_add(-1, places.flip(-1), values) + x.cumsum(-1) * 0.01


def activation(dice):
    kinds = [nn.ReLU, nn.GELU, nn.SiLU, nn.Tanh, nn.Softplus, nn.PReLU, nn.Mish, lambda: nn.Dropout(0.2), lambda: nn.ReLU(inplace=True)]
    return dice.choice(kinds)()


def flat_layers(dice):
    batch, first = dice.choice([1, 7, 32, 100, 513]), dice.randint(9, 400)
    layers, width = [], first
    for _ in range(dice.randint(2, 7)):
        last, width = width, dice.randint(9, 400)
        layers += [nn.Linear(last, width, bias=dice.random() < 0.8), activation(dice)]
        extras = [nn.LayerNorm(width), Residual(nn.Linear(width, 33), nn.SiLU(), nn.Linear(33, width)), Views(width), Spectrum(), Sorted()]
        layers += dice.sample(extras, k=dice.choice([0, 0, 1, 2]))
    return layers, lambda: torch.randn(batch, first)


def image_layers(dice):
    batch, first, side = dice.randint(1, 8), dice.choice([1, 3, 8]), dice.randint(8, 29)
    layers, width = [], first
    for _ in range(dice.randint(2, 5)):
        last, width = width, dice.choice([4, 8, 12, 24, 40, 64])
        layers += [nn.Conv2d(last, width, dice.choice([1, 3, 5]), padding=dice.choice([1, 2]), groups=2 if last % 2 == 0 and dice.random() < 0.3 else 1)]
        extras = [nn.BatchNorm2d(width), nn.GroupNorm(2, width), nn.InstanceNorm2d(width), nn.MaxPool2d(2, 1), nn.ConvTranspose2d(width, width, 2),
                  nn.Upsample(scale_factor=1.5, mode="bilinear")]  # fmt: skip
        layers += [activation(dice), *dice.sample(extras, k=dice.choice([0, 1, 2]))]
    if dice.random() < 0.5:
        layers += [nn.AdaptiveAvgPool2d(3), nn.Flatten(), nn.Linear(9 * width, 10)]
    return layers, lambda: torch.randn(batch, first, side, side)


def text_layers(dice):
    batch, length, width, words = dice.randint(1, 6), dice.randint(3, 60), dice.choice([16, 32, 48, 96]), dice.randint(50, 900)
    first, last = nn.Embedding(words, width), nn.Linear(width, words, bias=False)
    if dice.random() < 0.5:
        last.weight = first.weight
    kinds = [
        lambda: Recurrent(dice.choice([nn.LSTM, nn.GRU, nn.RNN]), width, dice.randint(8, 64), dice.randint(1, 2), dice.random() < 0.4),
        lambda: Attention(width, dice.choice([0.0, 0.1])),
        lambda: nn.TransformerEncoderLayer(width, 4, dice.randint(20, 200), batch_first=True, norm_first=dice.random() < 0.5),
        lambda: Residual(nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.GELU(), nn.Linear(3 * width, width)),
        lambda: Views(width),
    ]
    layers = [dice.choice(kinds)() for _ in range(dice.randint(1, 4))]
    return [first, *layers, last], lambda: torch.randint(0, words, (batch, length))


def optimizer(dice, parameters):
    kind, options = dice.choice([
        ("SGD", {"lr": 0.01}), ("SGD", {"lr": 0.01, "momentum": 0.9, "nesterov": True, "weight_decay": 1e-3}), ("SGD", {"lr": 0.01, "momentum": 0.9, "fused": True}),
        ("Adam", {"foreach": True}), ("Adam", {"foreach": False, "amsgrad": True}), ("AdamW", {"fused": True}), ("AdamW", {"foreach": True, "amsgrad": True}),
        ("RMSprop", {"momentum": 0.5}), ("Adagrad", {}), ("Adagrad", {"fused": True}), ("Adadelta", {"foreach": True}), ("NAdam", {}), ("RAdam", {"foreach": True}),
        ("Adamax", {}), ("Rprop", {}), ("ASGD", {"foreach": True}), ("LBFGS", {"lr": 0.05, "max_iter": 2, "history_size": 3}),
    ])  # fmt: skip
    return getattr(torch.optim, kind)(parameters, **options)


class Program:
    def __init__(self, seed: int):
        dice = random.Random(seed)
        torch.manual_seed(seed)
        layers, self.batch = dice.choice([flat_layers, image_layers, text_layers])(dice)
        if dice.random() < 0.3:
            layers[-2:-1] = [Checkpointed(layers[-2])]
        self.net = nn.Sequential(*layers)
        self.parameters = list(self.net.parameters())
        self.optimizer = optimizer(dice, self.parameters)
        self.clips, self.evaluates, self.keeps = (dice.random() < 0.3 for _ in range(3))
        self.pieces = dice.choice([1, 1, 1, 2])
        self.smoothing = dice.choice([None, 0.0, 0.1])
        self.losses, self.kept = [], []

    def loss(self):
        out = self.net(self.batch())
        if self.smoothing is None:
            return out.pow(2).mean()
        rows = out.flatten(0, -2)
        return F.cross_entropy(rows, torch.randint(0, rows.shape[1], (rows.shape[0],)), label_smoothing=self.smoothing)

    def gradients(self):
        self.optimizer.zero_grad()
        for _ in range(self.pieces):
            loss = self.loss() / self.pieces
            loss.backward()
        if self.clips:
            nn.utils.clip_grad_norm_(self.parameters, 1.0)
        return loss

    def step(self):
        self.losses.append(self.optimizer.step(self.gradients).item())
        if self.keeps:
            self.kept.append(self.parameters[0].detach().clone())
        if self.evaluates:
            self.net.eval()
            with torch.no_grad():
                self.losses.append(self.loss().item())
            self.net.train()

    def left_behind(self) -> dict[str, str]:
        states = (value for state in self.optimizer.state.values() for value in state.values() if isinstance(value, torch.Tensor))
        tensors = {"parameters": self.parameters, "buffers": self.net.buffers(), "optimizer": states, "kept": self.kept, "random": [torch.get_rng_state()]}
        return {"losses": repr(self.losses), **{name: digest(of) for name, of in tensors.items()}}


def run(seed: int, steps: int, options: dict | None) -> dict:
    import spillway

    torch.set_num_threads(1)
    if options is not None:
        spillway.enable(device="cpu", **options)
    program = Program(seed)
    for _ in range(steps):
        program.step()
    return program.left_behind() | {"stats": spillway.stats() if options is not None else None}


def shrink(seed: int, options: dict, budget: int) -> dict:
    """Two steps, and the rest in another budget: how it ends is told as `error`."""
    import spillway

    torch.set_num_threads(1)
    spillway.enable(device="cpu", **options)
    program = Program(seed)
    for _ in range(2):
        program.step()
    spillway.set_budget(budget)
    try:
        for _ in range(2):
            program.step()
    except torch.OutOfMemoryError as error:
        return {"error": str(error)}
    return {"error": None}


def main(words: list[str]) -> None:
    out, seed, steps, *options = words
    options = json.loads(options[0]) if options else None
    smaller = (options or {}).pop("then", None)
    told = run(int(seed), int(steps), options) if smaller is None else shrink(int(seed), options, smaller)
    Path(out).write_text(json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1:])
