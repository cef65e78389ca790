"""`--allocator native`: torch's own allocator places memory and the budget holds what it reserves. See checks.py."""

import sys

import torch
from checks import MIB, check, digest_of, main, make_deterministic, train


def plain_run(dtype):
    make_deterministic()
    train(dtype, steps=1)
    torch.cuda.reset_peak_memory_stats()
    found = train(dtype)
    peak = torch.cuda.max_memory_reserved()
    torch.cuda.empty_cache()
    return found, peak


def bits(policy, share):
    import spillway

    plain, peak = plain_run(torch.float32)
    budget = peak * share // 100
    spillway.enable(budget=budget, device="cuda", policy=policy, allocator="native", host_limit="8GiB")
    torch.cuda.reset_peak_memory_stats()
    assert train(torch.float32) == plain, "other bits"
    stats = spillway.stats()
    print(f"  plain reserved {peak / MIB:.0f} MiB, budget {budget / MIB:.0f}, "
          f"reserved {torch.cuda.max_memory_reserved() / MIB:.0f}, moved {stats['moved_out_bytes'] / MIB:.0f}, replayed {stats['recomputed_ops']}")
    assert torch.cuda.max_memory_reserved() <= budget and stats["violations"] == 0
    assert stats["peak_bytes"] == torch.cuda.max_memory_reserved()
    assert stats["moved_out_bytes"] + stats["dropped_bytes"] > 0


@check
def native_same_bits_lru():
    bits("lru", 70)


@check
def native_same_bits_dtr():
    bits("dtr", 60)


@check
def native_counts_what_was_there_and_goes_off_again():
    import spillway

    early = torch.full((16 * MIB,), 7.0, device="cuda")
    spillway.enable(budget="512MiB", device="cuda", policy="lru", allocator="native")
    late = [torch.full((16 * MIB,), float(i), device="cuda") for i in range(10)]  # 640 MiB
    assert early.eq(7).all().item() and all(x.eq(i).all().item() for i, x in enumerate(late))
    assert torch.cuda.max_memory_reserved() <= 512 * MIB
    spillway.set_budget("2GiB")
    spillway.disable()
    more = torch.zeros(1024 * MIB, dtype=torch.uint8, device="cuda")
    assert all(x.eq(i).all().item() for i, x in enumerate(late)) and more[0].item() == 0


@check
def native_out_of_memory_is_told_by_us():
    import spillway

    spillway.enable(budget="256MiB", device="cuda", allocator="native")
    x = torch.randn(16 * MIB, device="cuda")
    kept = digest_of(x)
    try:
        torch.empty(300 * MIB, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError as error:
        assert "spillway" in str(error) and "budget" in str(error), error
    else:
        raise AssertionError("300 MiB in 256")
    assert digest_of(x) == kept and torch.cuda.memory_stats()["num_ooms"] == 1


@check
def native_streams_are_kept_apart():
    import spillway

    spillway.enable(budget="512MiB", device="cuda", policy="lru", allocator="native")
    side = torch.cuda.Stream()
    kept = [torch.full((8 * MIB,), float(i), device="cuda") for i in range(20)]  # 640 MiB
    sums = []
    for turn in range(40):
        i = turn % len(kept)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            doubled = kept[i] * 2
        kept[i].record_stream(side)
        torch.cuda.current_stream().wait_stream(side)
        doubled.record_stream(torch.cuda.current_stream())
        sums.append((3.0 * i, (doubled + kept[i]).amax()))
        del doubled
    torch.cuda.synchronize()
    assert all(found.item() == expected for expected, found in sums)
    assert spillway.stats()["moved_in_bytes"] > 0 and torch.cuda.max_memory_reserved() <= 512 * MIB


@check
def native_pools_and_graphs_share_the_limit():
    import spillway

    spillway.enable(budget="512MiB", device="cuda", policy="lru", allocator="native")
    kept = [torch.full((16 * MIB,), float(i), device="cuda") for i in range(5)]  # 320 MiB
    with torch.cuda.use_mem_pool(torch.cuda.MemPool()):
        x = torch.full((32 * MIB,), 3.0, device="cuda")  # 128 MiB
        try:
            torch.full((32 * MIB,), 4.0, device="cuda")
        except torch.OutOfMemoryError as error:
            assert "budget" in str(error), error
        else:
            raise AssertionError("a pool beyond the limit")
    assert x.eq(3).all().item() and all(one.eq(i).all().item() for i, one in enumerate(kept))
    assert torch.cuda.max_memory_reserved() <= 512 * MIB
    del kept, x
    torch.cuda.empty_cache()
    y = torch.ones(1024, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        z = y * 2
    y.fill_(5)
    graph.replay()
    assert z.eq(10).all().item()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
