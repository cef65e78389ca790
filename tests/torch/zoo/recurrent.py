"""Recurrent nets: a language model over full batches, and a classifier over packed sequences of unequal length."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import rnn

from .program import Draw, Program, pick, supervised


class LanguageModel(nn.Module):
    def __init__(self, vocabulary: int, width: int):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, width, num_layers=5, dropout=0.2, batch_first=True)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens, state):
        hidden, state = self.lstm(self.embed(tokens), state)
        return self.head(hidden), state


def lstm(device: str, scale: str) -> Program:
    """Truncated backpropagation: the hidden state is carried, detached, from step to step."""
    vocabulary, width, batch, length = pick(scale, (400, 160, 16, 48), (4000, 512, 32, 96))
    model = LanguageModel(vocabulary, width).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    carried = [None]

    def step(i):
        tokens = Draw(i, device).integers(vocabulary, batch, length + 1)
        optimizer.zero_grad()
        logits, state = model(tokens[:, :-1], carried[0])
        carried[0] = tuple(part.detach() for part in state)
        loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        optimizer.step()
        return {"loss": loss, "norm": norm}

    def extra():
        return {} if carried[0] is None else dict(zip(("hidden", "cell"), carried[0]))

    return Program(step, {"model": model}, {"optimizer": optimizer}, extra)


class PackedClassifier(nn.Module):
    def __init__(self, vocabulary: int, width: int):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width, padding_idx=0)
        self.gru = nn.GRU(width, width, num_layers=2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(2 * width, 5)

    def forward(self, tokens, lengths):
        packed = rnn.pack_padded_sequence(self.embed(tokens), lengths, batch_first=True, enforce_sorted=False)
        hidden, _ = rnn.pad_packed_sequence(self.gru(packed)[0], batch_first=True)
        return self.head(hidden.amax(dim=1))


def gru(device: str, scale: str) -> Program:
    vocabulary, width, batch, longest = pick(scale, (500, 160, 24, 64), (5000, 256, 48, 96))
    model = PackedClassifier(vocabulary, width).to(device)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=1e-2)

    def loss_of(model, i):
        draw = Draw(i, device)
        lengths = Draw(i, "cpu", salt=1).integers(longest + 1, batch, low=longest // 4)
        positions = torch.arange(int(lengths.max()), device=device)
        tokens = draw.integers(vocabulary, batch, len(positions), low=1) * (positions < lengths.to(device)[:, None])
        return F.cross_entropy(model(tokens, lengths), draw.integers(5, batch))

    return supervised(model, optimizer, loss_of)
