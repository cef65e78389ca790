"""What people do to a model beside training it: they reach into its tensors, hook into autograd, and transform functions."""

import copy
import io

import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.func import functional_call, grad, jvp, vmap
from torch.nn.utils import parametrizations, parametrize

from .program import Draw, Program, pick, supervised


def layers(width: int, depth: int, into: int, out: int) -> nn.Sequential:
    middle = [layer for _ in range(depth) for layer in (nn.GELU(), nn.Linear(width, width))]
    return nn.Sequential(nn.Linear(into, width), *middle, nn.GELU(), nn.Linear(width, out))


def functional(device: str, scale: str) -> Program:
    """A gradient per sample by vmap over grad, clipped and summed as in private training, and a directional derivative."""
    width, depth, batch = pick(scale, (192, 4, 24), (256, 6, 64))
    model = layers(width, depth, 32, 10).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, foreach=True)

    def loss_of(values, x, y):
        return F.cross_entropy(functional_call(model, values, (x[None],)), y[None])

    def step(i):
        draw = Draw(i, device)
        x, y = draw.normal(batch, 32), draw.integers(10, batch)
        values = {name: p.detach() for name, p in model.named_parameters()}
        each = vmap(grad(loss_of), in_dims=(None, 0, 0))(values, x, y)
        norm = torch.stack([g.flatten(1).norm(dim=1) for g in each.values()]).norm(dim=0)
        factor = (1.0 / norm).clamp(max=1.0)
        for name, p in model.named_parameters():
            p.grad = torch.einsum("b,b...->...", factor, each[name]) / batch
        _, slope = jvp(lambda v: functional_call(model, values, (v,)).square().mean(), (x,), (torch.ones_like(x),))
        optimizer.step()
        return {"norm": norm, "slope": slope}

    return Program(step, {"model": model}, {"optimizer": optimizer})


class Skew(nn.Module):
    def forward(self, x):
        upper = x.triu(1)
        return upper - upper.T


def parametrized(device: str, scale: str) -> Program:
    """Weights that are computed: normed, spectrally normed, orthogonal, and the user's own."""
    width, batch = pick(scale, (128, 1024), (512, 4096))
    model = layers(width, 5, width, width)
    parametrizations.weight_norm(model[0])
    parametrizations.spectral_norm(model[2])
    parametrizations.orthogonal(model[4])
    parametrize.register_parametrization(model[6], "weight", Skew())
    model.to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, foreach=True)

    def loss_of(model, i):
        x = Draw(i, device).normal(batch, width)
        with parametrize.cached():
            return F.mse_loss(model(x) + model(-x), x.sin())

    return supervised(model, optimizer, loss_of)


class Spectral(nn.Module):
    """Complex parameters between a Fourier transform and its inverse."""

    def __init__(self, channels: int, modes: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(channels, channels, modes, modes, dtype=torch.cfloat) / channels)
        self.beside = nn.Conv2d(channels, channels, 1)
        self.modes = modes

    def forward(self, x):
        waves = torch.fft.rfft2(x)
        kept = torch.zeros_like(waves)
        m = self.modes
        kept[:, :, :m, :m] = torch.einsum("bixy,ioxy->boxy", waves[:, :, :m, :m], self.weight)
        return F.gelu(torch.fft.irfft2(kept, s=x.shape[-2:]) + self.beside(x))


def fourier(device: str, scale: str) -> Program:
    channels, modes, batch, size = pick(scale, (16, 8, 16, 48), (64, 16, 16, 64))
    model = nn.Sequential(nn.Conv2d(1, channels, 1), *(Spectral(channels, modes) for _ in range(4)), nn.Conv2d(channels, 1, 1)).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def loss_of(model, i):
        x = Draw(i, device).normal(batch, 1, size, size)
        return F.mse_loss(model(x), x.cumsum(-1).sin())

    return supervised(model, optimizer, loss_of)


class Cache(nn.Module):
    """Writes into views of tensors that autograd keeps: a cache filled row by row, halves changed in place."""

    def __init__(self, width: int, length: int, depth: int):
        super().__init__()
        self.mix = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.register_buffer("seen", torch.zeros(length, width))

    def forward(self, x):
        batch, length, width = x.shape
        for mix in self.mix:
            cache = x.new_zeros(batch, length, width)
            for start in range(0, length, length // 4):
                cache[:, start : start + length // 4] = mix(x[:, start : start + length // 4])
            cache[..., ::2].mul_(0.5)
            cache[..., 1::2].tanh_()
            even, odd = cache.chunk(2, dim=-1)
            x = x + torch.cat([odd, even], dim=-1)
        with torch.no_grad():
            self.seen[1:] = self.seen[:-1].clone()
            self.seen[0].copy_(x.mean(dim=(0, 1)))
        return x


def views(device: str, scale: str) -> Program:
    width, length, depth, batch = pick(scale, (64, 64, 5, 96), (256, 256, 6, 32))
    model = Cache(width, length, depth).to(device)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3, foreach=True)

    def loss_of(model, i):
        x = Draw(i, device).normal(batch, length, width)
        return F.mse_loss(model(x), x.roll(1, dims=1))

    return supervised(model, optimizer, loss_of)


def hooked(device: str, scale: str) -> Program:
    """Half of the model frozen, gradients changed by hooks, each parameter updated inside backward and its gradient freed."""
    width, batch, size = pick(scale, (24, 8, 40), (64, 32, 96))
    convolutions = [nn.Conv2d(3, width, 3, padding=1)]
    for _ in range(6):
        convolutions += [nn.GroupNorm(4, width), nn.ReLU(inplace=True), nn.Conv2d(width, width, 3, padding=1)]
    model = nn.Sequential(*convolutions, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10)).to(device, memory_format=torch.channels_last)
    for p in model[:6].parameters():
        p.requires_grad_(False)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizers = {p: torch.optim.Adam([p], lr=1e-3) for p in trained}
    norms = []

    def update(p):
        optimizers[p].step()
        p.grad = None

    for p in trained:
        p.register_hook(lambda g: g.clamp(-0.1, 0.1))
        p.register_post_accumulate_grad_hook(update)
    model[9].register_full_backward_hook(lambda module, given, got: norms.append(got[0].norm()))
    model[12].register_forward_hook(lambda module, given, out: out * 1.01)

    def step(i):
        if i == 2:
            for p in model[3:6].parameters():
                p.data = p.data * 0.99  # the storage behind a parameter is exchanged
        draw = Draw(i, device)
        pictures = draw.normal(batch, 3, size, size).to(memory_format=torch.channels_last)
        norms.clear()
        loss = F.cross_entropy(model(pictures), draw.integers(10, batch))
        loss.backward()
        return {"loss": loss, "norm": norms[0]}

    named = {f"adam {n}": optimizers[p] for n, p in model.named_parameters() if p in optimizers}
    return Program(step, {"model": model}, named)


class Packed:
    """What autograd saves goes through the user's hands: some rounded, some written to a file, some left alone."""

    def pack(self, tensor):
        if tensor.dtype != torch.float32 or isinstance(tensor, nn.Parameter) or tensor.numel() < 1024:
            return tensor
        if tensor.dim() == 2 and tensor.shape[1] > 128:
            return tensor.to(torch.bfloat16)
        file = io.BytesIO()
        torch.save(tensor, file)
        return file

    def unpack(self, packed):
        if isinstance(packed, io.BytesIO):
            packed.seek(0)
            return torch.load(packed)
        return packed.float() if packed.dtype == torch.bfloat16 else packed


def packed(device: str, scale: str) -> Program:
    """Saved tensors packed by the user; then a twin made in mid-training goes on from the same state."""
    width, batch = pick(scale, (192, 3072), (512, 4096))
    model = nn.Sequential(layers(width, 3, 96, 96), layers(width, 3, 96, 96)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, amsgrad=True, foreach=True)
    made = {}

    def train(model, optimizer, i):
        x = Draw(i, device).normal(batch, 96)
        optimizer.zero_grad()
        with saved_tensors_hooks(Packed().pack, Packed().unpack):
            loss = F.smooth_l1_loss(model(x), x.flip(1))
        loss.backward()
        optimizer.step()
        return loss

    def step(i):
        loss = train(model, optimizer, i)
        if i == 1:
            twin = copy.deepcopy(model)
            other = torch.optim.AdamW(twin.parameters(), lr=1e-3, amsgrad=True)
            file = io.BytesIO()
            torch.save(optimizer.state_dict(), file)
            file.seek(0)
            other.load_state_dict(torch.load(file))
            made.update(twin=twin, other=other)
        losses = {"loss": loss}
        if made:
            losses["twin"] = train(made["twin"], made["other"], i + 1)
        return losses

    return Program(step, {"model": model}, {"optimizer": optimizer}, lambda: dict(made["twin"].named_parameters()) if made else {})


def compiled(device: str, scale: str) -> Program:
    """A model whose layers are one kernel each, with a graph break and two lengths: several graphs, one set of parameters."""
    width, batch = pick(scale, (128, 1024), (512, 4096))
    model = layers(width, 4, width, width).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=True)

    @torch.compile
    def forward(x):
        x = model[:4](x).relu()
        torch._dynamo.graph_break()
        return model[4:](F.layer_norm(x, (width,))) + x

    def loss_of(model, i):
        x = Draw(i, device).normal(batch // (1 + i % 2), width)
        return F.mse_loss(forward(x), x.cos())

    return supervised(model, optimizer, loss_of)
