"""The engine on a card: same bits inside a budget, and what shares a card with it. See checks.py for how to run it."""

import sys

import torch
from checks import MIB, check, digest_of, main, make_deterministic, train
from torch import nn


PLANNED = 20  # steps: two are recorded, and some pass until there is a plan, which a thread of its own makes


def plain_run(dtype, steps):
    make_deterministic()
    train(dtype, steps=1)  # libraries take their workspaces
    torch.cuda.reset_peak_memory_stats()
    first = train(dtype, steps)
    peak = torch.cuda.max_memory_allocated()
    assert train(dtype, steps) == first, "two plain runs differ: nothing can be shown"
    torch.cuda.empty_cache()
    return first, peak


def bits(policy, dtype, steps=4):
    import spillway

    plain, peak = plain_run(dtype, steps)
    spillway.enable(budget=peak * 60 // 100, device="cuda", policy=policy, host_limit="8GiB")
    planned = 0
    for share in (60, 40):
        budget = peak * share // 100
        spillway.set_budget(budget)
        torch.cuda.reset_peak_memory_stats()
        found = train(dtype, steps)
        assert found == plain, f"{policy} {dtype} at {share} %: other bits: {[a == b for a, b in zip(found, plain)]}"
        stats = spillway.stats()
        print(f"  {policy} {dtype} {share} %: plain peak {peak / MIB:.0f} MiB, budget {budget / MIB:.0f}, "
              f"reserved {torch.cuda.max_memory_reserved() / MIB:.0f}, moved out {stats['moved_out_bytes'] / MIB:.0f}, "
              f"dropped {stats['dropped_bytes'] / MIB:.0f}, replayed ops {stats['recomputed_ops']}, planned steps {stats['planned_steps']}")
        assert torch.cuda.max_memory_reserved() <= budget
        assert torch.cuda.max_memory_allocated() <= torch.cuda.max_memory_reserved()
        assert stats["moved_out_bytes"] + stats["dropped_bytes"] > 0
        assert (stats["planned_steps"] > planned) == (policy == "hybrid"), stats
        planned = stats["planned_steps"]
    assert spillway.stats()["violations"] == 0, spillway.stats()


@check
def same_bits_lru_float32():
    bits("lru", torch.float32)


@check
def same_bits_dtr_float32():
    bits("dtr", torch.float32)


@check
def same_bits_lru_bfloat16():
    bits("lru", torch.bfloat16)


@check
def same_bits_dtr_bfloat16():
    bits("dtr", torch.bfloat16)


@check
def same_bits_hybrid_float32():
    bits("hybrid", torch.float32, PLANNED)


@check
def same_bits_hybrid_bfloat16():
    bits("hybrid", torch.bfloat16, PLANNED)


def everything_leaves(mode):
    """After every op whatever may leave does, by move (1) or by replay (2)."""
    import spillway
    from spillway import native

    make_deterministic()
    plain = train(torch.float32, steps=2, batch=8)
    spillway.enable(budget="4GiB", device="cuda")
    native.load().sweep(mode)
    assert train(torch.float32, steps=2, batch=8) == plain
    native.load().sweep(0)
    stats = spillway.stats()
    print(f"  {stats['moved_out_bytes'] / MIB:.0f} MiB moved, {stats['recomputed_ops']} ops replayed")


@check
def same_bits_when_everything_moves_after_every_op():
    everything_leaves(1)


@check
def same_bits_when_everything_is_replayed_after_every_op():
    everything_leaves(2)


@check
def out_of_memory_is_torchs_and_can_be_caught():
    import spillway

    spillway.enable(budget="256MiB", device="cuda")
    x = torch.randn(16 * MIB, device="cuda")  # 64 MiB
    kept = digest_of(x)
    try:
        torch.empty(300 * MIB, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError as error:
        assert "spillway" in str(error) and "budget" in str(error), error
        print("  " + str(error).splitlines()[0])
    else:
        raise AssertionError("300 MiB in 256")
    y = x * 2
    assert digest_of(x) == kept and torch.equal(y, x + x)
    assert spillway.stats()["violations"] == 0


@check
def streams_are_kept_apart():
    """Two streams use and free memory in turn under a tight budget; every sum is right."""
    import spillway

    spillway.enable(budget="384MiB", device="cuda", policy="lru")
    side = torch.cuda.Stream()
    kept = [torch.full((8 * MIB,), float(i), device="cuda") for i in range(16)]  # 32 MiB each, 512 in all
    sums = []
    for turn in range(40):
        i = turn % len(kept)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            doubled = kept[i] * 2
            sums.append((2.0 * i, doubled[-1].clone()))
            kept[i].record_stream(side)
        here = kept[(i + 5) % len(kept)] + 1
        doubled.record_stream(torch.cuda.current_stream())
        torch.cuda.current_stream().wait_stream(side)
        sums.append((2.0 * i + (i + 5) % len(kept) + 1, (doubled + here).amax()))
        del doubled, here
    torch.cuda.synchronize()
    for expected, found in sums:
        assert found.item() == expected, (expected, found.item())
    stats = spillway.stats()
    assert stats["moved_in_bytes"] > 0 and stats["violations"] == 0


@check
def recorded_stream_keeps_memory_until_its_work_is_done():
    import spillway

    spillway.enable(budget="1GiB", device="cuda")
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    for _ in range(5):
        x = torch.ones(16 * MIB, device="cuda")
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            torch.cuda._sleep(20_000_000)
            total = x.sum()
        x.record_stream(side)
        del x
        torch.zeros(16 * MIB, device="cuda")  # would land in the freed block
        side.synchronize()
        assert total.item() == 16 * MIB


@check
def disabling_brings_everything_home():
    import spillway

    spillway.enable(budget="256MiB", device="cuda", policy="lru")
    kept = [torch.full((16 * MIB,), float(i), device="cuda") for i in range(6)]  # 384 MiB
    spillway.set_budget("1GiB")
    spillway.disable()
    for i, x in enumerate(kept):
        assert x.eq(i).all().item()


@check
def two_threads_train_at_once():
    import threading

    import spillway

    make_deterministic()
    found = {}

    def work(name, seed):
        torch._C._set_multithreading_enabled(False)
        generator = torch.Generator(device="cuda").manual_seed(seed)
        with torch.cuda.stream(torch.cuda.Stream()):
            model = nn.Sequential(*(m for _ in range(8) for m in (nn.Linear(1024, 1024), nn.GELU()))).cuda()
            with torch.no_grad():
                for p in model.parameters():
                    p.copy_(torch.randn(p.shape, device="cuda", generator=generator) * 0.03)
            optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
            for _ in range(6):
                optimizer.zero_grad()
                model(torch.randn(4096, 1024, device="cuda", generator=generator)).square().mean().backward()
                optimizer.step()
            found[name] = digest_of(*model.parameters())

    for seed in (1, 2):
        work(f"plain {seed}", seed)
    torch.cuda.empty_cache()
    spillway.enable(budget="384MiB", device="cuda")
    threads = [threading.Thread(target=work, args=(f"shared {seed}", seed)) for seed in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for seed in (1, 2):
        assert found[f"plain {seed}"] == found[f"shared {seed}"], f"thread {seed}: other bits"
    assert spillway.stats()["violations"] == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
