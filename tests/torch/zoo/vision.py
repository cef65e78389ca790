"""Vision models of torchvision, narrow enough for two cores when small, as published when large."""

import torch
import torch.nn.functional as F
from torch import nn
from torchvision import models

from .program import Draw, Program, pick, supervised

CLASSES = 10


def classifier(model: nn.Module, optimizer, device: str, batch: int, size: int) -> Program:
    def loss_of(model, i):
        draw = Draw(i, device)
        return F.cross_entropy(model(draw.normal(batch, 3, size, size)), draw.integers(CLASSES, batch))

    return supervised(model, optimizer, loss_of)


def resnet18(device: str, scale: str) -> Program:
    model = models.resnet18(num_classes=CLASSES).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4, foreach=True)
    return classifier(model, optimizer, device, batch=pick(scale, 16, 64), size=pick(scale, 80, 128))


def resnet50(device: str, scale: str) -> Program:
    # Bottlenecks a quarter as wide: the shape of the graph stays, the parameters go from 94 to 28 MiB.
    block = models.resnet.Bottleneck
    model = models.ResNet(block, [3, 4, 6, 3], num_classes=CLASSES, width_per_group=pick(scale, 16, 64)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    return classifier(model, optimizer, device, batch=pick(scale, 8, 32), size=pick(scale, 64, 128))


def vgg(device: str, scale: str) -> Program:
    """VGG's features and dropout with a classifier of 512 instead of 4096, which would outweigh all the rest."""
    widths = pick(scale, [16, 16, "M", 64, 64, "M", 128, 128, "M", 256, 256, "M"], models.vgg.cfgs["A"])
    layers = [models.vgg.make_layers(widths, batch_norm=False), nn.AdaptiveAvgPool2d(2), nn.Flatten()]
    for into in (4 * widths[-2], 512):
        layers += [nn.Linear(into, 512), nn.ReLU(inplace=True), nn.Dropout()]
    model = nn.Sequential(*layers, nn.Linear(512, CLASSES)).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, amsgrad=True, foreach=True)
    return classifier(model, optimizer, device, batch=pick(scale, 16, 64), size=64)


def densenet(device: str, scale: str) -> Program:
    blocks = pick(scale, (4, 6, 8), (6, 12, 24, 16))
    model = models.DenseNet(pick(scale, 12, 32), blocks, pick(scale, 24, 64), drop_rate=0.1, num_classes=CLASSES)
    model = model.to(device)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3, momentum=0.9, centered=True)
    return classifier(model, optimizer, device, batch=pick(scale, 16, 32), size=pick(scale, 64, 128))


def inception(device: str, scale: str) -> Program:
    """GoogLeNet, the first Inception, with its two helper losses."""
    model = models.GoogLeNet(num_classes=CLASSES, aux_logits=True, init_weights=False).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    batch, size = pick(scale, (8, 96), (64, 128))

    def loss_of(model, i):
        draw = Draw(i, device)
        outputs = model(draw.normal(batch, 3, size, size))
        target = draw.integers(CLASSES, batch)
        main, second, first = (F.cross_entropy(logits, target) for logits in outputs)
        return main + 0.3 * (first + second)

    return supervised(model, optimizer, loss_of)


def mobilenet(device: str, scale: str) -> Program:
    model = models.mobilenet_v3_small(num_classes=CLASSES).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    return classifier(model, optimizer, device, batch=pick(scale, 16, 64), size=pick(scale, 96, 224))


def vit(device: str, scale: str) -> Program:
    layers, heads, width = pick(scale, (6, 4, 128), (12, 6, 384))
    model = models.VisionTransformer(64, 8, layers, heads, width, 4 * width, dropout=0.1, num_classes=CLASSES)
    model = model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05, foreach=True)
    return classifier(model, optimizer, device, batch=pick(scale, 12, 64), size=64)
