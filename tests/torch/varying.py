"""Trains a model on batches of changing size and prints, as JSON, a digest of every loss and parameter, and the stats.

    python varying.py MODEL STEPS [BUDGET [POLICY [at_once]]]

Run by `spillway run`, it is a program like any other: then BUDGET is not given, and no stats are printed.
"""

import random

import torch
from planned import begin, mlp, train_and_tell
from torch import nn


def draw_length(dice, shortest, longest) -> int:
    """Of a batch of texts: most are short, few are long, as in the data sets these ranges are from."""
    return shortest + round((longest - shortest) * min(1.0, dice.lognormvariate(-1.2, 0.7)))


def bert(lengths=(30, 332), batches=(4, 4), attention="sdpa"):
    from transformers import BertConfig, BertForSequenceClassification

    config = BertConfig(vocab_size=512, hidden_size=64, num_hidden_layers=4, num_attention_heads=4, intermediate_size=256, attn_implementation=attention)
    model = BertForSequenceClassification(config)

    def loss(dice):
        batch, length = dice.randint(*batches), draw_length(dice, *lengths)
        ids = torch.randint(0, 512, (batch, length))
        return model(input_ids=ids, labels=torch.randint(0, 2, (batch,))).loss

    return model, loss


def gpt(lengths=(153, 512)):
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config(vocab_size=512, n_embd=64, n_layer=4, n_head=4, n_positions=512))

    def loss(dice):
        ids = torch.randint(0, 512, (2, draw_length(dice, *lengths)))
        return model(input_ids=ids, labels=ids).loss

    return model, loss


class Pyramid(nn.Module):
    """A backbone for a detector: small, with two levels of features."""

    out_channels = 16

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU())
        self.blocks = nn.ModuleList(nn.Sequential(nn.Conv2d(16, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU()) for _ in range(2))

    def forward(self, images):
        features, at = {}, self.stem(images)
        for level, block in enumerate(self.blocks):
            at = features[str(level)] = block(at)
        return features


def detector(sides=(96, 224)):
    from torchvision.models.detection import RetinaNet
    from torchvision.models.detection.anchor_utils import AnchorGenerator

    anchors = AnchorGenerator(sizes=((16, 24), (32, 48)), aspect_ratios=((0.5, 1.0, 2.0),) * 2)
    model = RetinaNet(Pyramid(), num_classes=5, anchor_generator=anchors, min_size=96, max_size=320)

    def loss(dice):
        images = [torch.rand(3, dice.randint(*sides), dice.randint(*sides)) for _ in range(2)]
        targets = []
        for image in images:
            corner = torch.rand(3, 2) * 40
            boxes = torch.cat([corner, corner + 20 + torch.rand(3, 2) * 20], dim=1)
            targets.append({"boxes": boxes, "labels": torch.randint(1, 5, (3,))})
        return sum(model(images, targets).values())

    return model, loss


def growing(short=(84, 96), long=(200, 208), grows_after=22):
    """A curriculum: short texts first."""
    model, _ = bert()
    count = 0

    def loss(dice):
        nonlocal count
        count += 1
        ids = torch.randint(0, 512, (4, dice.randint(*(short if count <= grows_after else long))))
        return model(input_ids=ids, labels=torch.randint(0, 2, (4,))).loss

    return model, loss


def curriculum(shortest=48, every=5, by=1.25):
    """Texts that become longer by a quarter every few steps."""
    model, _ = bert()
    count = 0

    def loss(dice):
        nonlocal count
        longest = round(shortest * by ** (count // every))
        count += 1
        ids = torch.randint(0, 512, (4, dice.randint(longest - 4, longest)))
        return model(input_ids=ids, labels=torch.randint(0, 2, (4,))).loss

    return model, loss


def last_batches():
    """An epoch of six batches, the last of them not full."""
    model, whole, _ = mlp()
    count = 0

    def loss(dice):
        nonlocal count
        count += 1
        return model(whole[:dice.randint(60, 200)] if count % 6 == 0 else whole).square().mean()

    return model, loss


MODELS = {
    "bert": bert,
    "bert_eager": lambda: bert(attention="eager"),
    "bert_swag": lambda: bert(lengths=(35, 141)),
    "bert_squad": lambda: bert(lengths=(153, 512)),
    "bert_growing": growing,
    "bert_curriculum": curriculum,
    "bert_batches": lambda: bert(lengths=(35, 141), batches=(1, 8), attention="eager"),
    "gpt": gpt,
    "detector": detector,
    "last_batches": last_batches,
}


def main() -> None:
    name, steps = begin()
    dice = random.Random(1)
    model, loss_of = MODELS[name]()
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    train_and_tell(model, optimizer, lambda: loss_of(dice), steps)


if __name__ == "__main__":
    main()
