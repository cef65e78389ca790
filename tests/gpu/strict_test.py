"""Memory that was left is overwritten (poison) or taken off the card (decommit). See checks.py."""

import ctypes
import sys

import torch
from checks import MIB, check, main, make_deterministic, train

INVALID_VALUE = 1  # what the driver says of an address with no memory behind it


def look_at(address, size):
    """The driver's answer and the bytes at an address of the card."""
    found = ctypes.create_string_buffer(size)
    torch.cuda.synchronize()
    code = ctypes.CDLL("libcuda.so.1").cuMemcpyDtoH_v2(found, ctypes.c_uint64(address), ctypes.c_size_t(size))
    return code, found.raw


def old_address(policy_options):
    """Where a tensor lay before it was evicted, and the tensor."""
    import spillway
    from spillway import hooks, native

    spillway.enable(budget="256MiB", device="cuda", **policy_options)
    hooks.disable("data_ptr")  # that one would keep it there
    x = torch.full((4 * MIB,), 3.0, device="cuda")
    address = x.data_ptr()
    native.load().evict_all()
    return address, x


@check
def what_was_left_is_poisoned():
    address, x = old_address({"poison": True})
    code, found = look_at(address, 16 * MIB)
    assert code == 0 and found == b"\xa5" * (16 * MIB), (code, found[:8])
    assert x.eq(3).all().item()


@check
def without_poison_it_is_not():
    address, x = old_address({})
    code, found = look_at(address, 16)
    assert code == 0 and found != b"\xa5" * 16
    assert x.eq(3).all().item()


@check
def same_bits_with_everything_decommitted_after_every_op():
    import spillway
    from spillway import native

    make_deterministic()
    plain = train(torch.float32, steps=1, batch=8)
    spillway.enable(budget="4GiB", device="cuda")
    native.load().sweep(1 | 4)
    assert train(torch.float32, steps=1, batch=8) == plain, "other bits"
    native.load().sweep(0)
    assert spillway.stats()["moved_out_bytes"] > 0


@check
def a_decommitted_address_has_no_memory():
    from spillway import native

    address, x = old_address({})
    native.load().sweep(1 | 4)
    torch.zeros(1, device="cuda").add_(1)  # an op: everything leaves and is given back
    native.load().sweep(0)
    code, _ = look_at(address + 8 * MIB, 16)  # the op's own memory may lie at the beginning
    assert code == INVALID_VALUE, code
    assert x.eq(3).all().item()


def poisoned_bits(policy):
    import spillway

    make_deterministic()
    train(torch.float32, steps=1)
    torch.cuda.reset_peak_memory_stats()
    plain = train(torch.float32)
    peak = torch.cuda.max_memory_allocated()
    torch.cuda.empty_cache()
    spillway.enable(budget=peak // 2, device="cuda", policy=policy, host_limit="8GiB", poison=True)
    assert train(torch.float32) == plain, "other bits"
    stats = spillway.stats()
    assert stats["violations"] == 0 and stats["moved_out_bytes"] + stats["dropped_bytes"] > 0


@check
def poisoned_same_bits_lru():
    poisoned_bits("lru")


@check
def poisoned_same_bits_dtr():
    poisoned_bits("dtr")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
