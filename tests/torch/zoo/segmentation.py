"""A U-Net: skips that live from the way down to the way up, the longest lifetimes a convolution net has."""

import torch
import torch.nn.functional as F
from torch import nn

from .program import Draw, Program, pick, supervised


def double(into: int, out: int) -> nn.Sequential:
    layers = []
    for channels in (into, out):
        layers += [nn.Conv2d(channels, out, 3, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    def __init__(self, width: int, depth: int, classes: int):
        super().__init__()
        widths = [width * 2**level for level in range(depth)]
        self.down = nn.ModuleList(double(a, b) for a, b in zip([3, *widths], widths))
        self.middle = double(widths[-1], widths[-1])
        self.up = nn.ModuleList(nn.ConvTranspose2d(w, w, 2, stride=2) for w in reversed(widths))
        self.join = nn.ModuleList(double(2 * w, max(w // 2, width)) for w in reversed(widths))
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        skips = []
        for block in self.down:
            x = block(x)
            skips.append(x)
            x = F.max_pool2d(x, 2)
        x = self.middle(x)
        for up, join, skip in zip(self.up, self.join, reversed(skips)):
            x = join(torch.cat([skip, up(x)], dim=1))
        return self.head(x)


def unet(device: str, scale: str) -> Program:
    batch, size = pick(scale, (6, 64), (16, 128))
    model = UNet(pick(scale, 12, 32), 3, classes=4).to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, foreach=True)

    def loss_of(model, i):
        draw = Draw(i, device)
        picture = draw.normal(batch, 3, size, size).contiguous(memory_format=torch.channels_last)
        return F.cross_entropy(model(picture), draw.integers(4, batch, size, size))

    return supervised(model, optimizer, loss_of)
