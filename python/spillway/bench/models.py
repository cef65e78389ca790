"""The training steps that are measured: torchvision's models, a GPT-2 medium, Inception-v4 and a ResNet of any depth.

    work = make("resnet50", "cuda", checkpointed=False)
    work.loss().backward(); work.optimizer.step()

`tiny` gives the same graphs small enough for two cores, so that the driver can be tested where there is no card.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint


@dataclasses.dataclass
class Work:
    """A model in training; `blocks` are what checkpointing per block wraps, `forward` is the module a compiler takes."""

    forward: nn.Module
    optimizer: torch.optim.Optimizer
    batch: tuple[torch.Tensor, ...]
    loss_of: Callable[[Any, tuple[torch.Tensor, ...]], torch.Tensor]
    bf16: bool
    blocks: list[nn.Module]

    def loss(self) -> torch.Tensor:
        # On a card only: not every CPU has the instructions that torch's bfloat16 convolutions take for granted.
        with torch.autocast("cuda", torch.bfloat16) if self.bf16 and self.batch[0].is_cuda else contextlib.nullcontext():
            return self.loss_of(self.forward, self.batch)

    def checkpoint_blocks(self) -> None:
        for block in self.blocks:
            forward = block.forward
            block.forward = lambda *words, _forward=forward, **more: checkpoint(_forward, *words, use_reentrant=False, **more)


def torchvision_models():
    try:
        from torchvision import models
    except ImportError as error:
        raise ValueError("the models are torchvision's: pip install torchvision") from error
    return models


# ---- images ----

def image_work(model: nn.Module, device: str, batch: int, size: int, blocks: Iterable[nn.Module], bf16: bool = True) -> Work:
    layout = torch.channels_last if bf16 else torch.contiguous_format
    model = model.to(device, memory_format=layout).train()
    images = torch.randn(batch, 3, size, size, device=device).to(memory_format=layout)
    labels = torch.randint(10, (batch,), device=device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    return Work(model, optimizer, (images, labels), lambda model, seen: F.cross_entropy(model(seen[0]), seen[1]), bf16, list(blocks))


def without_pooling_to_the_same_size(model: nn.Module) -> nn.Module:
    """VGG and AlexNet end in an adaptive pooling that changes nothing at their own image size and has no deterministic
    backward kernel on a card."""
    model.avgpool = nn.Identity()
    return model


def resnet(depths: list[int], device: str, batch: int, tiny: bool, bf16: bool) -> Work:
    models = torchvision_models()
    with torch.device(device):  # here and below models are initialised where they live: a CPU takes seconds, minutes for thousands of layers
        model = models.ResNet(models.resnet.Bottleneck, depths, width_per_group=16 if tiny else 64)
    blocks = [block for layer in (model.layer1, model.layer2, model.layer3, model.layer4) for block in layer]
    return image_work(model, device, batch, 64 if tiny else 224, blocks, bf16)


def resnet50(device: str, tiny: bool, batch: int | None = None, bf16: bool = True) -> Work:
    return resnet([1, 1, 2, 1] if tiny else [3, 4, 6, 3], device, batch or (4 if tiny else 256), tiny, bf16)


def deep_resnet(device: str, tiny: bool, depth: int) -> Work:
    """SuperNeurons' deep ResNet: blocks 6/32/n/6, depth 3 * sum + 2, batch 16, fp32."""
    others = [1, 1, 1] if tiny else [6, 32, 6]
    third = max((depth - 2) // 3 - sum(others), 1)
    return resnet([*others[:2], third, others[2]], device, 2 if tiny else 16, tiny, bf16=False)


def vit(device: str, tiny: bool) -> Work:
    models = torchvision_models()
    with torch.device(device):
        model = models.VisionTransformer(32, 8, 2, 2, 32, 64) if tiny else models.vit_b_16()
    return image_work(model, device, 4 if tiny else 256, 32 if tiny else 224, model.encoder.layers)


def densenet(device: str, tiny: bool, batch: int | None = None, bf16: bool = True) -> Work:
    models = torchvision_models()
    with torch.device(device):
        model = models.DenseNet(8, (2, 2), 16) if tiny else models.densenet121()
    return image_work(model, device, batch or (4 if tiny else 128), 64 if tiny else 224, [], bf16)


def vgg(device: str, tiny: bool, batch: int | None = None, bf16: bool = True) -> Work:
    models = torchvision_models()
    with torch.device(device):
        if tiny:
            features = models.vgg.make_layers([8, "M", 16, "M", 16, "M"])
            model = nn.Sequential(features, nn.Flatten(), nn.Linear(16 * 16, 64), nn.ReLU(True), nn.Dropout(), nn.Linear(64, 10))
        else:
            model = without_pooling_to_the_same_size(models.vgg16())
    return image_work(model, device, batch or (4 if tiny else 128), 32 if tiny else 224, [], bf16)


def alexnet(device: str, tiny: bool, batch: int) -> Work:
    with torch.device(device):
        model = without_pooling_to_the_same_size(torchvision_models().alexnet())
    return image_work(model, device, batch, 224, [], bf16=False)


class Branches(nn.ModuleList):
    """What every branch makes of the same input, side by side."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([branch(x) for branch in self], 1)


def inception_layer(into: int, out: int, kernel: int | tuple[int, int] = 1, stride: int = 1, padding: int | str = "same") -> nn.Sequential:
    if stride > 1:
        padding = 0
    return nn.Sequential(nn.Conv2d(into, out, kernel, stride, padding, bias=False), nn.BatchNorm2d(out), nn.ReLU(True))


def inception_path(into: int, *layers: tuple) -> nn.Sequential:
    """Layers as (width, kernel, stride, padding), or "avg" / "max" for a pooling before them."""
    made: list[nn.Module] = []
    for layer in layers:
        if layer == "avg":
            made.append(nn.AvgPool2d(3, 1, 1, count_include_pad=False))
        elif layer == "max":
            made.append(nn.MaxPool2d(3, 2))
        else:
            made.append(inception_layer(into, *layer))
            into = layer[0]
    return nn.Sequential(*made)


def inception4() -> nn.Sequential:
    """Inception-v4 as its paper draws it (Szegedy and others, 2016, figures 3 to 9)."""
    def block(into: int, *paths: tuple) -> Branches:
        return Branches([inception_path(into, *path) for path in paths])

    def ends(into: int, *first: tuple) -> nn.Sequential:  # a path that ends in 1 x 3 beside 3 x 1
        last = first[-1][0]
        return nn.Sequential(inception_path(into, *first), block(last, ((256, (1, 3)),), ((256, (3, 1)),)))

    stem = [inception_path(3, (32, 3, 2), (32, 3, 1, 0), (64, 3)), block(64, ("max",), ((96, 3, 2),)),
            block(160, ((64,), (96, 3, 1, 0)), ((64,), (64, (1, 7)), (64, (7, 1)), (96, 3, 1, 0))), block(192, ((192, 3, 2),), ("max",))]
    a = [block(384, ((96,),), ((64,), (96, 3)), ((64,), (96, 3), (96, 3)), ("avg", (96,))) for _ in range(4)]
    a.append(block(384, ((384, 3, 2),), ((192,), (224, 3), (256, 3, 2)), ("max",)))
    b = [block(1024, ((384,),), ((192,), (224, (1, 7)), (256, (7, 1))),
               ((192,), (192, (7, 1)), (224, (1, 7)), (224, (7, 1)), (256, (1, 7))), ("avg", (128,))) for _ in range(7)]
    b.append(block(1024, ((192,), (192, 3, 2)), ((256,), (256, (1, 7)), (320, (7, 1)), (320, 3, 2)), ("max",)))
    c = [Branches([inception_path(1536, (256,)), ends(1536, (384,)), ends(1536, (384,), (448, (3, 1)), (512, (1, 3))),
                   inception_path(1536, "avg", (256,))]) for _ in range(3)]
    return nn.Sequential(*stem, *a, *b, *c, nn.AvgPool2d(8), nn.Flatten(), nn.Dropout(0.2), nn.Linear(1536, 1000))


# ---- text ----

class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(rows, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(rows, length, width)
        x = x + F.dropout(self.project(mixed), 0.1)
        return x + F.dropout(self.down(F.gelu(self.up(self.norm2(x)))), 0.1)


class Gpt2(nn.Module):
    """GPT-2 as recorded in traces/gpt2m_16x1024: head of its own, no dropout on embedding and attention."""

    def __init__(self, words: int, length: int, width: int, layers: int, heads: int) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def gpt2(device: str, tiny: bool) -> Work:
    words, length, width, layers, heads, rows = (64, 16, 32, 2, 2, 4) if tiny else (50304, 1024, 1024, 24, 16, 16)
    with torch.device(device):
        model = Gpt2(words, length, width, layers, heads).train()
    tokens, targets = (torch.randint(words, (rows, length), device=device) for _ in range(2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def loss_of(model: Any, seen: tuple[torch.Tensor, ...]) -> torch.Tensor:
        return F.cross_entropy(model(seen[0]).view(-1, words), seen[1].view(-1))

    return Work(model, optimizer, (tokens, targets), loss_of, True, list(model.blocks))


# ---- by name ----

def fp32_batch(name: str, device: str, tiny: bool, batch: int) -> Work:
    """The models of SuperNeurons' table of largest batches, single precision."""
    if name in ("vgg16", "resnet50"):
        return {"vgg16": vgg, "resnet50": resnet50}[name](device, tiny, batch, bf16=False)
    if name == "alexnet":
        return alexnet(device, tiny, batch)
    if name == "inception4":
        return image_work(inception4(), device, batch, 299, [], bf16=False)
    return resnet({"resnet101": [3, 4, 23, 3], "resnet152": [3, 8, 36, 3]}[name], device, batch, tiny, bf16=False)


def inception3(device: str, tiny: bool) -> Work:
    """Without the second head, which TENSILE's has neither."""
    model = torchvision_models().Inception3(aux_logits=False, init_weights=False)
    return image_work(model, device, 2 if tiny else 16, 75 if tiny else 299, [], bf16=False)


def tensile(name: str) -> Callable[[str, bool], Work]:
    """The models of TENSILE's table: batch 16, single precision."""
    if name == "inception3":
        return inception3
    if name == "inception4":
        return lambda device, tiny: image_work(inception4(), device, 2 if tiny else 16, 299, [], bf16=False)
    if name == "densenet":
        return lambda device, tiny: densenet(device, tiny, batch=4 if tiny else 16, bf16=False)
    return lambda device, tiny: {"vgg16": vgg, "resnet50": resnet50}[name](device, tiny, 16, bf16=False)


STEPS = {"resnet50": resnet50, "gpt2": gpt2, "vit": vit, "densenet": densenet, "vgg16": vgg}
STEPS |= {f"tensile-{name}": tensile(name) for name in ("vgg16", "inception3", "inception4", "resnet50", "densenet")}
