"""Lean rebuilds on a card: every rule gives the operator's own bits, and a network whose norms are dropped takes them.

See checks.py for how to run it. A rule of src/torch/lean.cpp is called proven only after its checks here have passed.
"""

import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from checks import MIB, check, digest_of, main, make_deterministic
from torch import nn

sys.path.insert(0, str(Path(__file__).parent.parent / "torch"))


def proves(rule, dtypes=(torch.float32, torch.bfloat16, torch.float16)):
    import spillway
    from lean import prove

    spillway.enable(budget="2GiB", device="cuda", host_limit="1GiB")
    for dtype in dtypes:
        told = prove(rule, "cuda", dtype)
        print(f"  {rule} {dtype}: {told['cases']} cases, {told['lean']} lean, {len(told['differ'])} differ", flush=True)
        assert not told["differ"], told["differ"][:10]
        assert told["ops"] == told["lean"] == told["cases"] > 0


@check
def batch_norm_is_made_again_from_its_statistics():
    proves("batch_norm")


@check
def dropout_is_made_again_from_its_mask():
    proves("dropout", (torch.float32, torch.bfloat16, torch.float16, torch.float64))


@check
def a_sum_with_a_dead_dropout_is_made_again_in_one_pass():
    proves("dropout_sum")


@check
def batch_norm_addition_and_relu_are_made_again_in_one_pass():
    proves("norm_chain")


@check
def max_pooling_is_made_again_by_its_twin():
    proves("pool_twin")


@check
def both_results_of_a_twin_come_home_together():
    import spillway
    from lean import raw
    from spillway import native

    library = native.load()
    spillway.enable(budget="2GiB", device="cuda", host_limit="1GiB")
    library.lean(2)
    x = torch.randn(8, 64, 32, 32, device="cuda").contiguous(memory_format=torch.channels_last)
    made = torch.ops.aten.max_pool2d_with_indices(x, [3, 3], [2, 2], [1, 1])
    before = [raw(tensor) for tensor in made]
    for tensor in made:
        library.drop(tensor._cdata)
    assert all(torch.equal(old, raw(tensor)) for old, tensor in zip(before, made))
    assert spillway.stats()["recomputed_ops"] == spillway.stats()["lean_rebuilds"] == 1


@check
def layer_norm_is_made_again_from_its_statistics():
    proves("layer_norm")


@check
def a_cast_of_a_dead_layer_norm_is_made_again_in_one_pass():
    proves("cast_norm", (torch.bfloat16, torch.float16))


def looks_alike(x):
    """What begins like a chain and is none, or is another: its op runs by itself."""
    aten, ones = torch.ops.aten, torch.ones(x.shape[-1], device="cuda")

    def norm():
        return aten.native_layer_norm(x, [x.shape[-1]], ones, ones, 1e-5)

    def dropout():
        return aten.native_dropout(x, 0.3, True)

    yield "a number added to a norm", lambda: (lambda r: (aten.add.Scalar(r[0], 1.0), *r[1:]))(norm())
    yield "a number added to a dropout", lambda: (lambda r: (aten.add.Scalar(r[0], 1.0), *r[1:]))(dropout())
    yield "twice the dropout", lambda: (lambda r: (aten.add.Tensor(x, r[0], alpha=2), *r[1:]))(dropout())
    yield "the dropout and itself", lambda: (lambda r: (r[0] + r[0], *r[1:]))(dropout())
    yield "one row added", lambda: (lambda r: (r[0] + ones, *r[1:]))(dropout())
    yield "a part of the dropout", lambda: (lambda r: (r[0][1:] + x[1:], *r[1:]))(dropout())
    yield "two dropouts", lambda: (lambda r, s: (r[0] + s[0], *r[1:], *s[1:]))(dropout(), dropout())


@check
def what_only_looks_like_a_chain_is_made_again_op_by_op():
    import spillway
    from lean import rebuild
    from spillway import native

    library = native.load()
    spillway.enable(budget="2GiB", device="cuda", host_limit="1GiB")
    library.lean(2)
    for name, call in looks_alike(torch.randn(64, 512, device="cuda")):
        same, _, ops = rebuild(call, library)
        print(f"  {name}: {ops} ops", flush=True)
        assert same, name


@check
def the_dropout_that_was_looked_at_is_the_one_read():
    """The first is of a step before, and its recipe forgotten; the second lies otherwise than it was looked at."""
    import spillway
    from lean import raw
    from spillway import native

    library = native.load()
    spillway.enable(budget="2GiB", device="cuda", host_limit="1GiB")
    library.lean(2)
    x, y = (torch.randn(rows, 512, device="cuda") for rows in (64, 65))
    first, first_mask = torch.ops.aten.native_dropout(x, 0.3, True)
    spillway.step()
    second, second_mask = torch.ops.aten.native_dropout(y, 0.3, True)
    result = first + second[1:]
    del second
    spillway.step()
    before = raw(result)
    library.drop(result._cdata)
    assert torch.equal(before, raw(result))


def rebuild_time(result, library, rounds=12):
    """Milliseconds on the card of a rebuild and one tiny read, the middle of several."""
    took = []
    for _ in range(rounds):
        library.drop(result._cdata)
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        begin.record()
        result[0, 0, 0, :1].clone()
        end.record()
        torch.cuda.synchronize()
        took.append(begin.elapsed_time(end))
    return sorted(took)[rounds // 2]


def tell_cost(name, make, library):
    times = []
    for mode in (0, 2):
        library.lean(mode)
        results = make()
        times.append(rebuild_time(results[0], library) * (1 << 30) / (results[0].numel() * results[0].element_size()))
        del results
    print(f"  {name}: {times[0]:.2f} ms per GiB by the ops, {times[1]:.2f} leanly", flush=True)


@check
def what_rebuilds_cost():
    """Nothing is asserted: a table for people."""
    import spillway
    from spillway import native

    aten, library = torch.ops.aten, native.load()
    spillway.enable(budget="16GiB", device="cuda", host_limit="1GiB")
    for layout, dtype in ((torch.channels_last, torch.bfloat16), (torch.contiguous_format, torch.bfloat16), (torch.channels_last, torch.float32)):
        x = torch.randn(256, 256, 56, 56, device="cuda").to(dtype).contiguous(memory_format=layout)
        z, weight, bias = torch.randn_like(x), torch.randn(256, device="cuda"), torch.randn(256, device="cuda")

        def norm(x=x, weight=weight, bias=bias):
            return aten.native_batch_norm(x, weight, bias, None, None, True, 0.1, 1e-5)

        made = {"norm": norm, "norm relu": lambda norm=norm: (lambda r: (r[0].relu_(), *r[1:]))(norm()),
                "norm add relu": lambda norm=norm, z=z: (lambda r: (r[0].add_(z).relu_(), *r[1:]))(norm()),
                "dropout": lambda x=x: aten.native_dropout(x, 0.1, True)}  # fmt: skip
        if layout is torch.channels_last:
            made["max pool, its values"] = lambda x=x: aten.max_pool2d_with_indices(x, [2, 2], [2, 2])
            made["max pool, its places"] = lambda x=x: aten.max_pool2d_with_indices(x, [2, 2], [2, 2])[::-1]
        for name, make in made.items():
            tell_cost(f"{name}, {dtype}, {layout}", make, library)
        if layout is torch.contiguous_format or dtype is torch.float32:
            x, z = x.contiguous(), z.contiguous()
            for added in {dtype: z, torch.float32: z.float()}.values():
                tell_cost(f"dropout, {dtype}, added to {added.dtype}", lambda x=x, z=added: (lambda r: (z + r[0], r[1]))(aten.native_dropout(x, 0.1, True)), library)
    x, weight, bias = torch.randn(16, 1, 1024, 1024, device="cuda"), torch.randn(1024, device="cuda"), torch.randn(1024, device="cuda")
    tell_cost("layer norm", lambda: aten.native_layer_norm(x, [1024], weight, bias, 1e-5), library)
    tell_cost("layer norm, cast", lambda: (lambda r: (r[0].bfloat16(), *r[1:]))(aten.native_layer_norm(x, [1024], weight, bias, 1e-5)), library)


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first, self.second = (nn.Conv2d(width, width, 3, padding=1, bias=False) for _ in range(2))
        self.norm, self.last = nn.BatchNorm2d(width), nn.BatchNorm2d(width)

    def forward(self, x):
        found = F.relu(self.norm(self.first(x)), inplace=True)
        found = self.last(self.second(found))
        found += x
        return F.relu(found, inplace=True)


def network(width=64, blocks=6):
    stem = [nn.Conv2d(3, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*stem, *(Residual(width) for _ in range(blocks)), nn.Dropout(0.2), nn.Flatten(), nn.Linear(width * 256, 10))


def train(layout, steps):
    torch.manual_seed(0)
    torch.cuda.manual_seed(0)
    model = network().cuda().to(memory_format=layout)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    said = []
    for _ in range(steps):
        images = torch.randn(64, 3, 32, 32, device="cuda").contiguous(memory_format=layout)
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.bfloat16):
            loss = F.cross_entropy(model(images), torch.randint(10, (64,), device="cuda"))
        loss.backward()
        optimizer.step()
        said.append(digest_of(loss))
    return [*said, digest_of(*model.state_dict().values()), digest_of(torch.cuda.get_rng_state())]


def trains_leanly(layout, policy, steps=10):
    import spillway
    from spillway import native

    make_deterministic()
    train(layout, 1)
    plain = train(layout, steps)
    assert train(layout, steps) == plain, "two plain runs differ: nothing can be shown"
    torch.cuda.empty_cache()
    spillway.enable(device="cuda")
    train(layout, 2)
    seen = spillway.stats()
    spillway.disable()
    torch.cuda.empty_cache()
    outside = torch.cuda.memory_reserved()  # older memory counts against the budget
    peak, floor = seen["plain_peak_bytes"], seen["floor_bytes"]
    spillway.enable(budget=outside + floor + (peak - floor) * 4 // 10, device="cuda", policy=policy, host_limit="2GiB")
    native.load().lean(2)
    found = train(layout, steps)
    stats = spillway.stats()
    print(f"  {policy} {layout}: peak {peak / MIB:.0f} MiB, dropped {stats['dropped_bytes'] / MIB:.0f}, moved {stats['moved_out_bytes'] / MIB:.0f}, "
          f"replayed {stats['recomputed_ops']}, lean {stats['lean_rebuilds']}, plan {stats['plan']}")
    assert found == plain, [a == b for a, b in zip(found, plain)]
    assert stats["lean_rebuilds"] > 0
    assert stats["violations"] == 0


@check
def a_network_is_rebuilt_leanly_channels_last():
    trains_leanly(torch.channels_last, "hybrid")


@check
def a_network_is_rebuilt_leanly_in_planes():
    trains_leanly(torch.contiguous_format, "hybrid")


@check
def a_network_is_rebuilt_leanly_without_a_plan():
    trains_leanly(torch.channels_last, "dtr")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
