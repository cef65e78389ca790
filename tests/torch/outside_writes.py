"""Writes a tensor through an address that left torch, after others were made from it and had to leave.

    python outside_writes.py HOW [POLICY]        numpy, dlpack, to_dlpack or data_ptr; prints a digest of all that was made
"""

import ctypes
import hashlib
import sys

import numpy
import torch

import spillway

LENGTH = 1 << 18


def share(how: str, tensor: torch.Tensor):
    if how == "numpy":
        return tensor.numpy()
    if how == "dlpack":
        return torch.from_dlpack(tensor)
    if how == "to_dlpack":
        return torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(tensor))
    return numpy.ctypeslib.as_array((ctypes.c_float * LENGTH).from_address(tensor.data_ptr()))


def main() -> None:
    torch.set_num_threads(1)
    if len(sys.argv) > 2:
        spillway.enable(LENGTH * 4 * 9, device="cpu", policy=sys.argv[2])
    source = torch.randn(LENGTH, generator=torch.Generator().manual_seed(1))
    outside = share(sys.argv[1], source)
    made = source.sin()
    further = made * 2
    crowd = [torch.full((LENGTH,), float(i)).cos() for i in range(24)]  # pushes them out
    outside[:] = 0
    crowd += [torch.full((LENGTH,), float(i)).sin() for i in range(24)]
    state = hashlib.sha256()
    for tensor in (made, further, source, crowd[3]):
        state.update(tensor.clone().numpy().tobytes())
    stats = spillway.stats() if len(sys.argv) > 2 else {"moved_out_bytes": 0, "dropped_bytes": 0}
    print(state.hexdigest(), stats["moved_out_bytes"] + stats["dropped_bytes"])


main()
