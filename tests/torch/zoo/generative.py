"""Programs with more than one loss: two optimizers, a sampled latent, a gradient of a gradient."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm

from .program import Draw, Program, pick, supervised

LATENT = 32


def down(into: int, out: int) -> list[nn.Module]:
    first, second = nn.Conv2d(into, out, 3, padding=1), nn.Conv2d(out, out, 4, stride=2, padding=1)
    return [first, nn.Softplus(), second, nn.LeakyReLU(0.2, inplace=True)]


def up(into: int, out: int) -> list[nn.Module]:
    first, second = nn.ConvTranspose2d(into, out, 4, stride=2, padding=1), nn.Conv2d(out, out, 3, padding=1)
    return [first, nn.BatchNorm2d(out), nn.ReLU(inplace=True), second, nn.BatchNorm2d(out), nn.ReLU(inplace=True)]


def generator(width: int) -> nn.Sequential:
    start = [nn.Linear(LATENT, 4 * width * 64), nn.Unflatten(1, (4 * width, 8, 8))]
    middle = [*up(4 * width, 2 * width), *up(2 * width, width)]
    return nn.Sequential(*start, *middle, nn.Conv2d(width, 3, 3, padding=1), nn.Tanh())


def critic(width: int) -> nn.Sequential:
    layers = [*down(3, width), *down(width, 2 * width), *down(2 * width, 4 * width)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(4 * width * 16, 1))


def gan(device: str, scale: str) -> Program:
    width, batch = pick(scale, (16, 24), (64, 64))
    maker, judge = generator(width), critic(width)
    for layer in judge:
        if isinstance(layer, (nn.Conv2d, nn.Linear)):
            spectral_norm(layer)
    maker, judge = maker.to(device), judge.to(device)
    make = torch.optim.Adam(maker.parameters(), lr=2e-4, betas=(0.5, 0.999))
    judging = torch.optim.Adam(judge.parameters(), lr=2e-4, betas=(0.5, 0.999), foreach=True)

    def step(i):
        draw = Draw(i, device)
        real, fake = draw.normal(batch, 3, 32, 32), maker(torch.randn(batch, LATENT, device=device))
        judging.zero_grad()
        judged = F.softplus(-judge(real)).mean() + F.softplus(judge(fake.detach())).mean()
        judged.backward()
        judging.step()
        make.zero_grad()
        made = F.softplus(-judge(fake)).mean()
        made.backward()
        make.step()
        return {"judge": judged, "maker": made}

    return Program(step, {"maker": maker, "judge": judge}, {"make": make, "judge": judging})


def gradient_penalty(device: str, scale: str) -> Program:
    """The penalty on a critic's gradient norm: its backward runs through a backward."""
    width, batch = pick(scale, (24, 24), (64, 64))
    judge = critic(width).to(device)
    optimizer = torch.optim.RMSprop(judge.parameters(), lr=1e-4, foreach=True)

    def step(i):
        draw = Draw(i, device)
        real, fake = draw.normal(batch, 3, 32, 32), draw.uniform(batch, 3, 32, 32)
        between = torch.lerp(real, fake, torch.rand(batch, 1, 1, 1, device=device)).requires_grad_()
        optimizer.zero_grad()
        (slope,) = torch.autograd.grad(judge(between).sum(), between, create_graph=True)
        penalty = (slope.flatten(1).norm(dim=1) - 1).square().mean()
        loss = judge(fake).mean() - judge(real).mean() + 10 * penalty
        loss.backward()
        optimizer.step()
        return {"loss": loss, "penalty": penalty}

    return Program(step, {"judge": judge}, {"optimizer": optimizer})


class VAE(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        layers = [*down(3, width), *down(width, 2 * width), nn.Flatten()]
        self.encode = nn.Sequential(*layers, nn.Linear(2 * width * 64, 2 * LATENT))
        self.decode = generator(width)

    def forward(self, picture):
        mean, log_variance = self.encode(picture).chunk(2, dim=1)
        latent = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        divergence = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum(dim=1).mean()
        return self.decode(latent), divergence


def vae(device: str, scale: str) -> Program:
    width, batch = pick(scale, (16, 32), (64, 128))
    model = VAE(width).to(device)
    optimizer = torch.optim.NAdam(model.parameters(), lr=1e-3)

    def loss_of(model, i):
        picture = Draw(i, device).uniform(batch, 3, 32, 32)
        rebuilt, divergence = model(picture)
        return F.mse_loss(rebuilt, picture, reduction="sum") / batch + divergence

    return supervised(model, optimizer, loss_of)
