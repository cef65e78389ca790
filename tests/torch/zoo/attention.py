"""Transformers written out: torch's own encoder-decoder, and a small GPT with tied embeddings."""

import torch
import torch.nn.functional as F
from torch import nn

from .program import Draw, Program, pick, supervised


class Translator(nn.Module):
    def __init__(self, vocabulary: int, width: int, layers: int):
        super().__init__()
        self.source = nn.Embedding(vocabulary, width)
        self.target = nn.Embedding(vocabulary, width)
        self.body = nn.Transformer(width, 4, layers, layers, 4 * width, dropout=0.1, batch_first=True)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, source, target):
        causal = self.body.generate_square_subsequent_mask(target.shape[1], device=target.device)
        hidden = self.body(
            self.source(source),
            self.target(target),
            tgt_mask=causal,
            tgt_is_causal=True,
            src_key_padding_mask=(source == 0).float().masked_fill(source == 0, float("-inf")),
        )
        return self.head(hidden)


def encoder_decoder(device: str, scale: str) -> Program:
    vocabulary, width, layers, batch, length = pick(scale, (500, 96, 2, 12, 40), (4000, 256, 6, 24, 96))
    model = Translator(vocabulary, width, layers).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=True)

    def loss_of(model, i):
        draw = Draw(i, device)
        source = draw.integers(vocabulary, batch, length, low=1)
        source[::2, -length // 4 :] = 0
        target = draw.integers(vocabulary, batch, length + 1)
        logits = model(source, target[:, :-1])
        return F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), label_smoothing=0.1)

    return supervised(model, optimizer, loss_of)


class Block(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(dropout)
        )

    def forward(self, x):
        parts = self.attend(self.norm1(x)).chunk(3, dim=-1)
        query, key, value = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        dropout = self.dropout if self.training else 0.0
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True, dropout_p=dropout)
        x = x + self.project(mixed.transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, vocabulary: int, width: int, layers: int, length: int, heads: int = 4, dropout: float = 0.1):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.places = nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens):
        x = self.tokens(tokens) + self.places.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def next_token_loss(model: nn.Module, tokens: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())


def gpt(device: str, scale: str) -> Program:
    vocabulary, width, layers, batch, length = pick(scale, (256, 128, 6, 8, 96), (8192, 512, 12, 16, 256))
    model = GPT(vocabulary, width, layers, length).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)

    def loss_of(model, i):
        return next_token_loss(model, Draw(i, device).integers(vocabulary, batch, length + 1))

    return supervised(model, optimizer, loss_of)
