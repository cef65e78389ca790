"""Models of the transformers library, from configurations alone: random weights, nothing downloaded."""

import torch
from transformers import BertConfig, BertForMaskedLM, GPT2Config, GPT2LMHeadModel

from .program import Draw, Program, pick, supervised


def gpt2(device: str, scale: str) -> Program:
    vocabulary, width, layers, batch, length = pick(scale, (512, 128, 4, 8, 96), (50257, 768, 12, 4, 256))
    config = GPT2Config(vocab_size=vocabulary, n_embd=width, n_layer=layers, n_head=4, n_positions=length)
    model = GPT2LMHeadModel(config).to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=True)

    def loss_of(model, i):
        tokens = Draw(i, device).integers(vocabulary, batch, length)
        return model(input_ids=tokens, labels=tokens, use_cache=False).loss

    return supervised(model, optimizer, loss_of)


def bert(device: str, scale: str) -> Program:
    """Every batch as long as its longest text, so that no two steps have the same shapes."""
    vocabulary, width, layers, batch, longest = pick(scale, (512, 128, 4, 12, 96), (8192, 512, 8, 16, 256))
    config = BertConfig(
        vocab_size=vocabulary,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=4,
        intermediate_size=4 * width,
        max_position_embeddings=longest,
    )
    model = BertForMaskedLM(config).to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def loss_of(model, i):
        draw = Draw(i, device)
        length = longest - 17 * (i % 3)
        lengths = draw.integers(length + 1, batch, 1, low=length // 2)
        tokens = draw.integers(vocabulary, batch, length)
        mask = torch.arange(length, device=device) < lengths
        labels = tokens.masked_fill(~mask | (draw.uniform(batch, length) > 0.3), -100)
        return model(input_ids=tokens, attention_mask=mask.long(), labels=labels).loss

    return supervised(model, optimizer, loss_of)
