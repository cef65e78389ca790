"""Checksums and raw bytes of tensors, taken without disturbing the run that is being checked.

On the CPU the bytes are read where they lie: nothing is allocated and no op is dispatched. On a card they are summed up there,
in pieces, with integer arithmetic that does not depend on the order of addition. Both see every single flipped bit; equal
tensors in two processes give equal digests. Only the elements a tensor can reach count, not the rest of its storage.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from spillway import api, hooks, native

_PIECE_BYTES = 1 << 20  # of what has gaps between its elements and is copied together
_PIECE_WORDS = 1 << 20  # 4 MiB of data and 24 MiB of temporaries at a time
_MIX = 0x9E3779B97F4A7C15  # 2^64 over the golden ratio, odd: the usual multiplier of Fibonacci hashing


def describe(tensor: Any) -> str:
    """`float32[64, 10]`, with the device where it is not the CPU."""
    where = "" if tensor.device.type == "cpu" else f"@{tensor.device}"
    return f"{str(tensor.dtype).removeprefix('torch.')}[{', '.join(map(str, tensor.shape))}]{where}"


def digest(tensor: Any) -> int | None:
    """A number that changes with any bit; None for what has no bytes of its own (fake, nested, quantized, wrapped)."""
    import torch

    if tensor.layout is torch.sparse_coo:
        return _combined([digest(tensor._indices()), digest(tensor._values())])
    if not has_bytes(tensor):
        return None
    if tensor.numel() == 0:
        return 0
    if tensor.device.type == "cpu":
        result = 0
        for piece in _pieces(tensor):
            result = with_bytes(piece, lambda raw: zlib.crc32(raw, result))
        return result
    return _combined([_digest_on_card(piece) for piece in _pieces(tensor)])


def _pieces(tensor: Any) -> Iterator[Any]:
    """The tensor in parts that lie in one stretch of memory, or that can be copied together without much of it.

    What repeats the same elements (expand) counts with one of them.
    """
    if is_dense(tensor.shape, tensor.stride()) or tensor.is_conj() or tensor.is_neg():
        yield tensor
        return
    for dimension, stride in enumerate(tensor.stride()):
        if stride == 0 and tensor.shape[dimension] > 1:
            yield from _pieces(tensor.detach().narrow(dimension, 0, 1))
            return
    longest = max(range(tensor.dim()), key=lambda dimension: (tensor.shape[dimension] > 1, tensor.stride(dimension)))
    rows = max(1, _PIECE_BYTES * tensor.shape[longest] // (tensor.numel() * tensor.element_size()))
    if rows >= tensor.shape[longest]:
        yield tensor
        return
    for begin in range(0, tensor.shape[longest], rows):
        yield from _pieces(tensor.detach().narrow(longest, begin, min(rows, tensor.shape[longest] - begin)))


def has_bytes(tensor: Any) -> bool:
    import torch

    return (
        tensor.layout is torch.strided and not tensor.is_nested and not tensor.is_quantized and hooks.has_memory(type(tensor))
        and tensor.device.type in ("cpu", "cuda") and not torch._C._functorch.is_functorch_wrapped_tensor(tensor)
    )  # fmt: skip


def _combined(parts: list[int | None]) -> int:
    result = 0
    for part in parts:
        result = (result * _MIX + (part or 0)) % 2**64
    return result


def with_bytes(tensor: Any, act: Callable[[Any], Any], flag: int = native.READS) -> Any:
    """act(the bytes of a CPU tensor's elements, in place); elements with gaps between them are copied together first."""
    import torch

    with torch._C.DisableTorchFunction(), resident(tensor, flag):
        if tensor.is_conj() or tensor.is_neg() or not is_dense(tensor.shape, tensor.stride()):
            tensor = tensor.detach().resolve_conj().resolve_neg().contiguous()
        size = tensor.numel() * tensor.element_size()
        # The method of the base class: ours would hold the storage for life.
        address = torch._C.TensorBase.data_ptr(tensor)
        return act((ctypes.c_ubyte * size).from_address(address))


def is_dense(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether the elements fill one stretch of memory, in whatever order of dimensions."""
    expected = 1
    for stride, size in sorted((stride, size) for size, stride in zip(shape, strides) if size != 1):
        if stride != expected:
            return False
        expected *= size
    return True


@contextlib.contextmanager
def resident(tensor: Any, flag: int = native.READS) -> Iterator[None]:
    """Where the engine is on, the tensor's memory is there and stays until the end."""
    if not api.is_enabled():
        yield
        return
    with hooks.Region():
        hooks.materialize(tensor, flag)
        yield


def _digest_on_card(tensor: Any) -> int:
    import torch

    tensor = tensor.detach().resolve_conj().resolve_neg()
    if is_dense(tensor.shape, tensor.stride()):
        flat = tensor.as_strided((tensor.numel(),), (1,)).view(torch.uint8)  # in the order of memory, without a copy
    else:
        flat = tensor.contiguous().view(-1).view(torch.uint8)
    whole = flat.numel() // 4 * 4
    words = flat[:whole].view(torch.int32)
    sums = [
        (piece.long() * _weights(tensor.device)[: piece.numel()]).sum() for piece in words.split(_PIECE_WORDS) if piece.numel()
    ]
    sums.append((flat[whole:].long() * 257 ** torch.arange(flat.numel() - whole, device=tensor.device)).sum())
    return _combined([value % 2**64 for value in torch._C.TensorBase.tolist(torch.stack(sums))])


@functools.cache
def _weights(device: Any) -> Any:
    # Odd, so that no flipped bit can vanish in the sum modulo 2^64.
    import torch

    generator = torch.Generator().manual_seed(0)
    return (torch.randint(-(2**62), 2**62, (_PIECE_WORDS,), generator=generator) * 2 + 1).to(device)
