"""The zoo: small training programs of every kind people write, each able to say exactly what state it is in.

`build(name, seed, device, scale)` gives a `Program`; `step(i)` trains one step and returns its losses, `state()` names every
tensor that matters. Same name, seed, device and scale: same bits, in any process, with any engine underneath. A module is
imported only when one of its programs is built, so that a process carries the libraries it uses and no others.
"""

import importlib

import torch

from .program import Program

PROGRAMS = {
    "resnet18": "vision",
    "resnet50": "vision",
    "vgg": "vision",
    "densenet": "vision",
    "inception": "vision",
    "mobilenet": "vision",
    "unet": "segmentation",
    "lstm": "recurrent",
    "gru": "recurrent",
    "encoder_decoder": "attention",
    "gpt": "attention",
    "gpt2": "pretrained",
    "bert": "pretrained",
    "vit": "vision",
    "gan": "generative",
    "vae": "generative",
    "gradient_penalty": "generative",
    "graph": "graph",
    "experts": "graph",
    "sparse_embedding": "graph",
    "checkpointed": "practice",
    "autocast": "practice",
    "accumulation": "practice",
    "ema": "practice",
    "lbfgs": "practice",
    "loader": "interrupted",
    "resume": "interrupted",
    "recovery": "interrupted",
    "functional": "habits",
    "parametrized": "habits",
    "fourier": "habits",
    "views": "habits",
    "hooked": "habits",
    "packed": "habits",
    "compiled": "habits",
}


def load(name: str):
    """The module a program lives in, imported."""
    return importlib.import_module(f"{__name__}.{PROGRAMS[name]}")


def build(name: str, seed: int = 0, device: str = "cpu", scale: str = "small") -> Program:
    module = load(name)
    torch.manual_seed(seed)
    return getattr(module, name)(device, scale)
