"""Rules of lean rebuilds against the operators they stand for: each result is dropped, rebuilt, and compared byte by byte.

    python lean.py RULE DEVICE DTYPE     prints {"cases": ..., "lean": ..., "ops": ..., "differ": [...]} as JSON

A case counts as lean when the rebuild did not run the operator; ops are what was run. Over layouts, odd shapes, NaN, infinity, negative zero and
random bit patterns.
"""

import itertools
import json
import sys

import torch

import spillway
from spillway import native

aten = torch.ops.aten


def patterns(shape, dtype):
    normal = torch.randn(shape).to(dtype)
    rare = torch.where(torch.rand(shape) < 0.1, torch.tensor(float("nan"), dtype=dtype), normal)
    rare = torch.where(torch.rand(shape) < 0.1, torch.tensor(float("-inf"), dtype=dtype), rare)
    yield "normal", normal
    yield "rare", torch.where(torch.rand(shape) < 0.1, torch.tensor(float("inf"), dtype=dtype), rare)
    yield "zeros", torch.where(torch.rand(shape) < 0.5, torch.tensor(-0.0, dtype=dtype), torch.tensor(0.0, dtype=dtype))
    yield "bits", torch.randint(0, 256, (*shape[:-1], shape[-1] * dtype.itemsize), dtype=torch.uint8).view(dtype)


def layouts(tensor):
    yield "planes", tensor
    if tensor.dim() == 4:
        yield "channels last", tensor.contiguous(memory_format=torch.channels_last)


def inputs(shapes, device, dtype):
    for shape in shapes:
        for pattern, values in patterns(shape, dtype):
            for layout, laid in layouts(values):
                yield f"{shape} {pattern} {layout}", laid.to(device)


def dropout(device, dtype):
    for (name, values), p in itertools.product(inputs([(577,), (3, 5, 71), (2, 3, 17, 19), (64, 129)], device, dtype), (0.1, 0.5, 0.9)):
        yield f"{name} p={p}", lambda values=values, p=p: aten.native_dropout(values, p, True)


POOLS = {"2x2": ([2, 2], [2, 2], [0, 0], [1, 1], False), "3x3 padded": ([3, 3], [2, 2], [1, 1], [1, 1], False),
         "up to the edge": ([2, 2], [2, 2], [0, 0], [1, 1], True), "spread": ([2, 2], [1, 1], [0, 0], [2, 2], False)}  # fmt: skip


def max_pool(device, dtype):
    shapes = [(2, 3, 17, 19), (2, 8, 16, 16), (3, 33, 9, 11), (5, 40, 24)]
    for (name, values), (how, options) in itertools.product(inputs(shapes, device, dtype), POOLS.items()):
        yield f"{name} {how}", lambda values=values, options=options: aten.max_pool2d_with_indices(values, *options)


def pool_twin(device, dtype):
    """Max pooling over channels-last images without gaps in its windows, which on a card has another kernel for the same results:
    made again for its values, for its places, and with nobody left who wants the other."""
    shapes = [(2, 3, 33, 35), (2, 8, 16, 16), (3, 33, 9, 11), (1, 32, 13, 11), (2, 520, 6, 6)]  # whose results are large enough to leave
    more = {"5x5 padded": ([5, 5], [3, 3], [2, 2], [1, 1], False), "3x1": ([3, 1], [1, 2], [1, 0], [1, 1], True), "all of it": ([4, 4], [4, 4], [2, 2], [1, 1], True)}
    pools = {name: options for name, options in (POOLS | more).items() if name != "spread"}
    laid = ((name, values) for name, values in inputs(shapes, device, dtype) if name.endswith("channels last"))
    for (name, values), (how, options), (wanted, pick) in itertools.product(laid, pools.items(), PICKS.items()):
        yield f"{name} {how} {wanted}", lambda values=values, options=options, pick=pick: pick(aten.max_pool2d_with_indices(values, *options))


PICKS = {"values": lambda made: made, "places": lambda made: made[::-1], "values alone": lambda made: made[:1], "places alone": lambda made: made[1:]}


def batch_norm(device, dtype):
    shapes = [(257, 5), (4, 7, 33), (2, 3, 17, 19), (8, 64, 14, 14), (2, 256, 7, 7), (3, 31, 5, 5)]
    for (name, values), weights in itertools.product(inputs(shapes, device, dtype), ("none", "single", "same")):
        channels = values.shape[1]
        as_dtype = torch.float32 if weights == "single" else dtype
        weight, bias = (None if weights == "none" else torch.randn(channels, device=device).to(as_dtype) for _ in range(2))
        mean, var = torch.zeros(channels, device=device), torch.ones(channels, device=device)
        if weights == "same":
            mean, var = mean.to(dtype), var.to(dtype)

        def call(values=values, weight=weight, bias=bias, mean=mean, var=var):
            return aten.native_batch_norm(values, weight, bias, mean, var, True, 0.1, 1e-5)

        yield f"{name} {weights} weights", call


def norm_chain(device, dtype):
    """Batch norm, then an addition and ReLU in place: three ops, one pass."""
    shapes = [(2, 3, 17, 19), (8, 64, 14, 14), (2, 256, 7, 7), (3, 31, 5, 5), (16, 40, 1, 1), (1, 2056, 2, 3)]
    for (name, values), weights, then in itertools.product(inputs(shapes, device, dtype), ("none", "single", "same"), ("relu", "add", "add relu")):
        as_dtype = torch.float32 if weights == "single" else dtype
        weight, bias = (None if weights == "none" else torch.randn(values.shape[1], device=device).to(as_dtype) for _ in range(2))
        added = torch.randn_like(values) if "add" in then else None

        def call(values=values, weight=weight, bias=bias, added=added, then=then):
            result, *sides = aten.native_batch_norm(values, weight, bias, None, None, True, 0.1, 1e-5)
            if added is not None:
                result.add_(added)
            if "relu" in then:
                result.relu_()
            return result, *sides

        yield f"{name} {weights} weights {then}", call


ROWS = [(33, 71), (4, 7, 64), (2, 257, 256), (3, 5, 1024), (2, 3, 4100), (129, 3)]


def layer_norm(device, dtype):
    for name, values in inputs(ROWS, device, dtype):
        weight, bias = (torch.randn(values.shape[-1], device=device).to(dtype) for _ in range(2))

        def call(values=values, weight=weight, bias=bias):
            return aten.native_layer_norm(values, [values.shape[-1]], weight, bias, 1e-5)

        yield name, call


def cast_norm(device, dtype):
    """Layer norm in single precision, cast to the dtype and dead: two ops, one pass."""
    for name, values in inputs(ROWS, device, torch.float32):
        weight, bias = (torch.randn(values.shape[-1], device=device) for _ in range(2))

        def call(values=values, weight=weight, bias=bias):
            result, *sides = aten.native_layer_norm(values, [values.shape[-1]], weight, bias, 1e-5)
            return result.to(dtype), *sides

        yield name, call


def dropout_sum(device, dtype):
    """Dropout, dead once it is added to something: two ops, one pass."""
    shapes = [(577,), (3, 5, 71), (64, 129), (2, 257, 256), (8, 1024)]
    for (name, values), p, first, wide in itertools.product(inputs(shapes, device, dtype), (0.1, 0.5, 0.9), (True, False), {dtype, torch.float32}):
        added = torch.randn(values.shape, device=device).to(wide)

        def call(values=values, p=p, first=first, added=added):
            dropped, mask = aten.native_dropout(values, p, True)
            return dropped + added if first else added + dropped, mask

        yield f"{name} p={p} {'first' if first else 'second'} {wide}", call


RULES = {"dropout": dropout, "dropout_sum": dropout_sum, "max_pool": max_pool, "pool_twin": pool_twin, "batch_norm": batch_norm, "norm_chain": norm_chain, "layer_norm": layer_norm,
         "cast_norm": cast_norm}  # fmt: skip


def raw(tensor):
    return tensor.clone(memory_format=torch.preserve_format).reshape(-1).view(torch.uint8).cpu()


def rebuild(call, library):
    """Whether the result and the generators are what they were, and how often the rebuild was lean and ran an op."""
    result, *sides = call()
    before = raw(result)
    stats = spillway.stats()
    state = torch.get_rng_state(), torch.cuda.get_rng_state() if result.is_cuda else None
    library.drop(result._cdata)
    after = raw(result)
    same = torch.equal(before, after) and torch.equal(state[0], torch.get_rng_state())
    if result.is_cuda:
        same = same and torch.equal(state[1], torch.cuda.get_rng_state())
    del sides  # they had to live until here
    now = spillway.stats()
    return same, now["lean_rebuilds"] - stats["lean_rebuilds"], now["recomputed_ops"] - stats["recomputed_ops"]


def prove(rule, device, dtype):
    """Spillway is on. By all rules, proven or not."""
    library = native.load()
    library.lean(2)
    told = {"cases": 0, "lean": 0, "ops": 0, "differ": []}
    torch.manual_seed(0)
    for name, call in RULES[rule](device, dtype):
        same, lean, ops = rebuild(call, library)
        told["cases"] += 1
        told["lean"] += lean
        told["ops"] += ops
        if not same:
            told["differ"].append(name)
    return told


if __name__ == "__main__":
    torch.set_num_threads(1)
    spillway.enable("256MiB", device=sys.argv[2])
    print(json.dumps(prove(sys.argv[1], sys.argv[2], getattr(torch, sys.argv[3]))))
