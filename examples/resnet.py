"""A small ResNet on made-up images. Knows nothing of Spillway: `spillway run --budget 60MiB examples/resnet.py`."""

import hashlib

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels), nn.ReLU(inplace=True),
            nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels))
        self.end = nn.ReLU(inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.end(self.body(x) + x)


def digest(model: nn.Module) -> str:
    """Of every bit of the parameters and buffers."""
    whole = hashlib.sha256()
    for tensor in model.state_dict().values():
        whole.update(tensor.contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return whole.hexdigest()


def main() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), *[Block(32) for _ in range(8)], nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                          nn.Dropout(0.1), nn.Linear(32, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for step in range(4):
        images, labels = torch.randn(48, 3, 32, 32), torch.randint(0, 10, (48,))
        loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step}: loss {loss.item():.6f}")
    print("digest", digest(model))


if __name__ == "__main__":
    main()
