"""Training steps whose sizes change: BERT-base and T5-base over token lengths, RetinaNet over image scales; random weights.

    stream = STEPS["bert-squad"]("cuda", tiny=False)
    stream.loss().backward()                  # of a batch of the next size

Sizes are drawn from a generator of their own, so every method sees the same ones. Single precision, as in Mimose's paper,
whose batches these are; but T5's is six times its, because with less a fast card waits for Python. `tiny` is for two cores.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from spillway.bench import models

Draw = Callable[[random.Random], Any]
LENGTHS = {"squad": (153, 512), "swag": (35, 141), "qqp": (30, 332)}
SCALES = range(480, 801, 32)  # of the shorter side, in pixels: multi-scale training as detectors are trained


@dataclasses.dataclass
class Stream(models.Work):
    """`loss_of` takes a size instead of a batch. The step number `largest_at` is of the largest size."""

    draw: Draw
    largest: Any
    largest_at: int = -1
    only_largest: bool = False
    at: int = 0
    dice: random.Random = dataclasses.field(default_factory=lambda: random.Random(1))

    def skip(self, steps: int) -> None:
        """Of these only the sizes are drawn."""
        for _ in range(steps):
            self.draw(self.dice)
        self.at += steps

    def loss(self) -> torch.Tensor:
        drawn = self.draw(self.dice)
        size = self.largest if self.only_largest or self.at == self.largest_at else drawn
        self.at += 1
        return self.loss_of(self.forward, size)


def stream_of(model: nn.Module, device: str, loss_of: Callable[[Any, Any], torch.Tensor], blocks: list[nn.Module], draw: Draw, largest: Any) -> Stream:
    model = model.to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    return Stream(model, optimizer, (), loss_of, False, blocks, draw, largest)


def lengths(task: str, tiny: bool) -> tuple[Draw, int]:
    """Most batches are rather short, as padded batches of text are."""
    low, high = LENGTHS[task]
    if tiny:
        low, high = low // 4, high // 4
    return lambda dice: round(dice.triangular(low, high, low + (high - low) / 3)), high


def transformers_library() -> Any:
    try:
        import transformers
    except ImportError as error:
        raise ValueError("the language models are those of transformers: pip install transformers") from error
    return transformers


# ---- text ----

SMALL_BERT = {"vocab_size": 512, "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 256}


def bert(device: str, tiny: bool, task: str) -> Stream:
    """The heads are those of the tasks: spans of answers, one of four endings, pairs of questions."""
    library = transformers_library()
    kind, rows = {"squad": ("QuestionAnswering", 12), "swag": ("MultipleChoice", 16), "qqp": ("SequenceClassification", 32)}[task]
    rows = 4 if tiny else rows
    config = library.BertConfig(**(SMALL_BERT if tiny else {}))
    with torch.device(device):  # as in models.py
        model = getattr(library, f"BertFor{kind}")(config)
    shape, answers = ((rows, 4), 4) if task == "swag" else ((rows,), 2)

    def loss_of(model: nn.Module, length: int) -> torch.Tensor:
        ids = torch.randint(config.vocab_size, (*shape, length), device=device)
        if task == "squad":
            begin, end = (torch.randint(length, (rows,), device=device) for _ in range(2))
            return model(input_ids=ids, start_positions=begin, end_positions=end).loss
        return model(input_ids=ids, labels=torch.randint(answers, (rows,), device=device)).loss

    draw, largest = lengths(task, tiny)
    return stream_of(model, device, loss_of, list(model.bert.encoder.layer), draw, largest)


def t5(device: str, tiny: bool, task: str) -> Stream:
    library = transformers_library()
    rows = 2 if tiny else 48
    small = {"vocab_size": 512, "d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4}
    base = {"d_model": 768, "d_kv": 64, "d_ff": 3072, "num_layers": 12, "num_heads": 12}
    config = library.T5Config(**(small if tiny else base), decoder_start_token_id=0, use_cache=False)
    with torch.device(device):
        model = library.T5ForConditionalGeneration(config)

    def loss_of(model: nn.Module, length: int) -> torch.Tensor:
        ids, labels = (torch.randint(1, config.vocab_size, (rows, length), device=device) for _ in range(2))
        return model(input_ids=ids, labels=labels).loss

    draw, largest = lengths(task, tiny)
    return stream_of(model, device, loss_of, [*model.encoder.block, *model.decoder.block], draw, largest)


# ---- images ----

def boxes_in(height: int, width: int, device: str) -> torch.Tensor:
    corner = torch.rand(4, 2, device=device) * 0.6
    both = torch.cat([corner, corner + 0.1 + 0.3 * torch.rand(4, 2, device=device)], dim=1)
    return both * torch.tensor([width, height, width, height], device=device)


def retinanet(device: str, tiny: bool) -> Stream:
    models.torchvision_models()
    from torchvision.models.detection import RetinaNet, backbone_utils
    from torchvision.ops.feature_pyramid_network import LastLevelP6P7

    body = backbone_utils.resnet_fpn_backbone(backbone_name="resnet18" if tiny else "resnet50", weights=None, norm_layer=nn.BatchNorm2d, trainable_layers=5,
                                              returned_layers=[2, 3, 4], extra_blocks=LastLevelP6P7(256, 256))  # fmt: skip
    model = RetinaNet(body, num_classes=91, max_size=1333)
    rows, scales = (1, range(256, 321, 32)) if tiny else (8, SCALES)  # smaller ones have levels of one pixel, and other ops with them

    def loss_of(model: nn.Module, size: tuple[int, int]) -> torch.Tensor:
        height, width = size
        model.transform.min_size = (min(size),)  # what the images have already
        images = [torch.rand(3, height, width, device=device) for _ in range(rows)]
        targets = [{"boxes": boxes_in(height, width, device), "labels": torch.randint(1, 91, (4,), device=device)} for _ in range(rows)]
        return sum(model(images, targets).values())

    def draw(dice: random.Random) -> tuple[int, int]:
        short = dice.choice(scales)
        long = round(short * dice.uniform(1.0, 1.6))
        return (short, long) if dice.random() < 0.7 else (long, short)

    layers = (body.body.layer1, body.body.layer2, body.body.layer3, body.body.layer4)
    blocks = [block for layer in layers for block in layer] + [model.head.classification_head.conv, model.head.regression_head.conv]
    return stream_of(model, device, loss_of, blocks, draw, (scales[-1], round(scales[-1] * 1.6)))


STEPS: dict[str, Callable[[str, bool], Stream]] = {
    "bert-squad": lambda device, tiny: bert(device, tiny, "squad"),
    "bert-swag": lambda device, tiny: bert(device, tiny, "swag"),
    "bert-qqp": lambda device, tiny: bert(device, tiny, "qqp"),
    "t5-squad": lambda device, tiny: t5(device, tiny, "squad"),
    "t5-swag": lambda device, tiny: t5(device, tiny, "swag"),
    "t5-qqp": lambda device, tiny: t5(device, tiny, "qqp"),
    "retinanet": retinanet,
}
