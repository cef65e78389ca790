"""What a run of a program did, as plain values: losses and random state as bytes, every tensor as a digest.

Bytes are compared, so -0.0 is not 0.0 and one NaN is not another. A tensor is read through small clones: reading allocates
at most a chunk, and hands no address of the tensor itself to anyone.
"""

import hashlib

import torch

CHUNK = 1 << 18  # elements cloned at a time: 1 MiB of float32, small beside the largest op of every program


def pieces(tensor: torch.Tensor):
    """The bytes of a tensor in storage order where it is dense, in index order where it has gaps."""
    tensor = tensor.detach()
    if tensor.layout == torch.sparse_coo:
        tensor = tensor.coalesce()
        yield from pieces(tensor.indices())
        yield from pieces(tensor.values())
        return
    dense = torch.ops.aten.is_non_overlapping_and_dense(tensor)
    flat = tensor.as_strided((tensor.numel(),), (1,)) if dense else tensor.reshape(-1)
    for start in range(0, flat.numel(), CHUNK):
        yield flat[start : start + CHUNK].clone().cpu().view(torch.uint8).numpy().tobytes()


def digest(tensor: torch.Tensor) -> str:
    shape = f"{tensor.dtype} {tuple(tensor.shape)} {tensor.stride() if tensor.layout == torch.strided else tensor.layout}"
    found = hashlib.sha256(shape.encode())
    for piece in pieces(tensor):
        found.update(piece)
    return found.hexdigest()


def raw(tensor: torch.Tensor) -> str:
    return b"".join(pieces(tensor)).hex()


def random_state(device: str) -> str:
    states = [torch.get_rng_state()] + ([torch.cuda.get_rng_state()] if device.startswith("cuda") else [])
    return " ".join(digest(state) for state in states)


def record_step(program, i: int, device: str) -> dict:
    """Trains one step and tells all that can be compared about it."""
    losses = {name: raw(loss) for name, loss in program.step(i).items()}
    return {
        "losses": losses,
        "tensors": {name: digest(tensor) for name, tensor in program.state().items()},
        "random": random_state(device),
    }


def first_difference(one: dict, other: dict) -> str | None:
    """Names the first step and tensor in which two records differ; None when every bit is the same."""
    if len(one["steps"]) != len(other["steps"]):
        return f"{len(one['steps'])} steps against {len(other['steps'])}"
    for i, (a, b) in enumerate(zip(one["steps"], other["steps"])):
        a, b = ({**step["losses"], **step["tensors"], "random state": step["random"]} for step in (a, b))
        for name in [*a, *(name for name in b if name not in a)]:
            if name not in a or name not in b:
                return f"step {i}: {name} is in one run only"
            if a[name] != b[name]:
                return f"step {i}: {name} differs"
    return None
