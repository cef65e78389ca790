"""Programs whose data flow is indices: messages on a graph, tokens sent to experts, gradients that are sparse."""

import torch
import torch.nn.functional as F
from torch import nn

from .program import Draw, Program, pick, supervised


class Attend(nn.Module):
    """One layer of graph attention: gather at both ends of an edge, soft maximum over a node's edges, scatter back."""

    def __init__(self, width: int):
        super().__init__()
        self.send, self.receive = nn.Linear(width, width), nn.Linear(width, width)
        self.score = nn.Linear(width, 1)
        self.norm = nn.LayerNorm(width)

    def forward(self, nodes, source, target):
        sent = self.send(nodes)[source]
        score = self.score(F.leaky_relu(sent + self.receive(nodes)[target])).squeeze(1)
        highest = torch.full((len(nodes),), -1e9, device=nodes.device).scatter_reduce(0, target, score.detach(), "amax")
        weight = (score - highest[target]).exp()
        total = torch.zeros(len(nodes), device=nodes.device).index_add(0, target, weight)
        messages = sent * (weight / total[target])[:, None]
        gathered = torch.zeros_like(nodes).scatter_add(0, target[:, None].expand_as(messages), messages)
        return nodes + F.elu(self.norm(gathered))


class GraphNet(nn.Module):
    def __init__(self, width: int, layers: int):
        super().__init__()
        self.layers = nn.ModuleList(Attend(width) for _ in range(layers))
        self.head = nn.Linear(width, 6)

    def forward(self, nodes, source, target):
        for layer in self.layers:
            nodes = layer(nodes, source, target)
        return self.head(nodes)


def graph(device: str, scale: str) -> Program:
    width, layers, count, edges = pick(scale, (48, 4, 1500, 9000), (128, 6, 10000, 80000))
    model = GraphNet(width, layers).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, foreach=True)

    def loss_of(model, i):
        draw = Draw(i, device)
        source, target = draw.integers(count, 2, edges)
        return F.cross_entropy(model(draw.normal(count, width), source, target), draw.integers(6, count))

    return supervised(model, optimizer, loss_of)


class Experts(nn.Module):
    """Each token goes to one expert; how many an expert gets, and so every shape, depends on the data."""

    def __init__(self, width: int, count: int):
        super().__init__()
        self.gate = nn.Linear(width, count)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, width)) for _ in range(count)
        )

    def forward(self, tokens):
        probability, chosen = self.gate(tokens).softmax(dim=-1).max(dim=-1)
        result = torch.zeros_like(tokens)
        for index, expert in enumerate(self.experts):
            mine = (chosen == index).nonzero().squeeze(1)
            result = result.index_copy(0, mine, expert(tokens[mine]) * probability[mine, None])
        return tokens + result


def experts(device: str, scale: str) -> Program:
    width, count, tokens = pick(scale, (96, 4, 1500), (512, 8, 8192))
    model = nn.Sequential(*(Experts(width, count) for _ in range(3)), nn.Linear(width, 10)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=True)

    def loss_of(model, i):
        draw = Draw(i, device)
        return F.cross_entropy(model(draw.normal(tokens, width)), draw.integers(10, tokens))

    return supervised(model, optimizer, loss_of)


def sparse_embedding(device: str, scale: str) -> Program:
    """A table far larger than a batch touches, with sparse gradients beside a dense tower: two optimizers."""
    rows, width, batch, bag = pick(scale, (20000, 64, 2048, 8), (500000, 128, 8192, 16))
    table = nn.Embedding(rows, width, sparse=True).to(device)
    layers = [nn.Linear(width, 256)]
    for _ in range(6):
        layers += [nn.SiLU(), nn.Linear(256, 256)]
    tower = nn.Sequential(*layers, nn.SiLU(), nn.Linear(256, 1)).to(device)
    sparse = torch.optim.SparseAdam(table.parameters(), lr=1e-2)
    dense = torch.optim.Adam(tower.parameters(), lr=1e-3, foreach=True)

    def step(i):
        draw = Draw(i, device)
        sparse.zero_grad()
        dense.zero_grad()
        score = tower(table(draw.integers(rows, batch, bag)).mean(dim=1)).squeeze(1)
        loss = F.binary_cross_entropy_with_logits(score, draw.integers(2, batch).float())
        loss.backward()
        sparse.step()
        dense.step()
        return {"loss": loss}

    return Program(step, {"table": table, "tower": tower}, {"sparse": sparse, "dense": dense})
