"""torch's memory API in terms of the budget: figures, limits, pools, graphs, settings. See checks.py."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from checks import MIB, check, digest_of, main, make_deterministic, train
from torch import nn


@check
def memory_api_tells_the_truth():
    import spillway

    before = torch.randn(1024, 1024, device="cuda")  # 4 MiB of the allocator that was there before
    spillway.enable(budget="1GiB", device="cuda")
    base, reserved = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    assert reserved >= base >= 4 * MIB
    x = torch.zeros(64 * MIB, dtype=torch.uint8, device="cuda")
    assert torch.cuda.memory_allocated() == base + 64 * MIB
    assert torch.cuda.memory_reserved() >= reserved + 64 * MIB
    del x
    assert torch.cuda.memory_allocated() == base
    assert torch.cuda.max_memory_allocated() >= base + 64 * MIB
    torch.cuda.reset_peak_memory_stats()
    assert torch.cuda.max_memory_allocated() == base
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() < reserved + 64 * MIB
    stats = torch.cuda.memory_stats()
    assert stats["allocated_bytes.all.current"] == base and stats["active_bytes.all.current"] == base
    assert "Allocated memory" in torch.cuda.memory_summary()
    y = torch.zeros(8 * MIB, dtype=torch.uint8, device="cuda")
    blocks = [b for s in torch.cuda.memory_snapshot() for b in s["blocks"] if b["state"] == "active_allocated"]
    assert sum(b["size"] for b in blocks) == torch.cuda.memory_allocated()
    assert torch.accelerator.memory_allocated() == torch.cuda.memory_allocated()
    before += 1
    del before, y
    torch.cuda.set_per_process_memory_fraction(0.001)
    assert spillway.stats()["budget_bytes"] == int(torch.cuda.get_device_properties(0).total_memory * 0.001)


@check
def sharing_with_another_process_is_refused_in_words():
    import spillway

    spillway.enable(budget="1GiB", device="cuda")
    x = torch.zeros(MIB, device="cuda")
    try:
        x.untyped_storage()._share_cuda_()
    except RuntimeError as error:
        assert "another process" in str(error), error
    else:
        raise AssertionError("a handle to memory that may move")


@check
def convolutions_are_benchmarked():
    import spillway

    torch.backends.cudnn.benchmark = True
    spillway.enable(budget="512MiB", device="cuda")
    net = nn.Sequential(nn.Conv2d(16, 64, 3, padding=1), nn.Conv2d(64, 64, 3, padding=1)).cuda()
    x = torch.randn(16, 16, 64, 64, device="cuda")
    for _ in range(3):
        net(x).sum().backward()
    torch.cuda.synchronize()
    assert spillway.stats()["violations"] == 0


@check
def graphs_are_captured_and_replayed():
    import spillway

    spillway.enable(budget="1GiB", device="cuda")
    net = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512)).cuda()
    x = torch.randn(256, 512, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            net(x)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = net(x)
    kept = [torch.full((32 * MIB,), 1.0, device="cuda") for _ in range(10)]  # 1280 MiB: everybody who may leave does
    for i in range(3):
        x.copy_(torch.randn(256, 512, device="cuda") * i)
        graph.replay()
        assert torch.equal(y, net(x))
    assert all(k[0].item() == 1 for k in kept)
    print(f"  reserved {torch.cuda.memory_reserved() / MIB:.0f} MiB of 1024")
    assert spillway.stats()["violations"] == 0


@check
def user_pools_work():
    import spillway

    spillway.enable(budget="1GiB", device="cuda")
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        x = torch.ones(8 * MIB, device="cuda")
    assert (x + 1).sum().item() == 16 * MIB
    del x, pool
    torch.cuda.empty_cache()


@check
def memory_from_before_stays_valid_and_counts():
    import spillway

    early = [torch.full((16 * MIB,), float(i), device="cuda") for i in range(3)]  # 192 MiB
    spillway.enable(budget="512MiB", device="cuda", policy="lru")
    assert torch.cuda.memory_reserved() >= 192 * MIB
    late = [torch.full((16 * MIB,), float(i), device="cuda") for i in range(8)]  # 512 MiB more
    assert all(x[-1].item() == i for i, x in enumerate(early + late[:0]))
    assert all(x[-1].item() == i for i, x in enumerate(late))
    assert torch.cuda.max_memory_reserved() <= 512 * MIB
    del early, late
    spillway.disable()
    assert torch.ones(4, device="cuda").sum().item() == 4


@check
def mem_get_info_tells_the_budget():
    import spillway

    driver_free, driver_total = torch.cuda.mem_get_info()
    spillway.enable(budget="1GiB", device="cuda")
    free, total = torch.cuda.mem_get_info()
    assert total == 1024 * MIB and free <= total, (free, total)
    x = torch.zeros(64 * MIB, dtype=torch.uint8, device="cuda")
    assert torch.cuda.mem_get_info()[0] == free - 64 * MIB
    assert torch.cuda.mem_get_info("cuda:0") == torch.cuda.mem_get_info(0) == torch.cuda.memory.mem_get_info()
    del x
    spillway.disable()
    assert torch.cuda.mem_get_info()[1] == driver_total > 1024 * MIB


@check
def peak_live_bytes_is_max_memory_allocated():
    import spillway

    make_deterministic()
    spillway.enable(budget="700MiB", device="cuda", host_limit="8GiB")
    train(torch.float32, steps=2)
    stats = spillway.stats()
    print(f"  torch {torch.cuda.max_memory_allocated()}, own {stats['peak_live_bytes']}")
    assert torch.cuda.max_memory_allocated() == stats["peak_live_bytes"]
    assert torch.cuda.max_memory_reserved() == stats["peak_bytes"] <= 700 * MIB
    assert stats["moved_out_bytes"] + stats["dropped_bytes"] > 0


@check
def a_fraction_of_the_card_limits_the_budget_and_makes_room_at_once():
    import spillway

    spillway.enable(budget="1GiB", device="cuda")
    kept = [torch.full((16 * MIB,), float(i), device="cuda") for i in range(12)]  # 768 MiB
    whole = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(0.5)  # more than the budget: it stays
    assert spillway.stats()["budget_bytes"] == 1024 * MIB
    torch.cuda.set_per_process_memory_fraction(400 * MIB / whole)
    assert torch.cuda.memory_reserved() <= 400 * MIB, torch.cuda.memory_reserved()
    assert abs(torch.cuda.get_per_process_memory_fraction() - 400 * MIB / whole) < 1e-9
    assert all(x.eq(i).all().item() for i, x in enumerate(kept))
    assert spillway.stats()["violations"] == 0


@check
def statistics_count_refusals_and_blocks():
    import spillway

    spillway.enable(budget="256MiB", device="cuda")
    kept = [torch.zeros(MIB, device="cuda") for _ in range(5)]
    before = torch.cuda.memory_stats()
    try:
        torch.empty(1024 * MIB, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError:
        pass
    after = torch.cuda.memory_stats()
    assert after["num_ooms"] == before["num_ooms"] + 1
    assert after["allocation.all.current"] >= len(kept)
    for name in ("allocated_bytes", "reserved_bytes", "active_bytes", "requested_bytes"):
        assert after[f"{name}.all.current"] >= 20 * MIB, name
        assert after[f"{name}.all.peak"] >= after[f"{name}.all.current"], name
    torch.cuda.reset_accumulated_memory_stats()
    torch.cuda.reset_peak_memory_stats()


@check
def emptying_the_cache_gives_memory_back_to_the_driver():
    import spillway

    spillway.enable(budget="2GiB", device="cuda")
    x = torch.zeros(1024 * MIB, dtype=torch.uint8, device="cuda")
    reserved = torch.cuda.memory_reserved()
    del x
    torch.cuda.synchronize()
    assert torch.cuda.memory_reserved() == reserved
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() <= reserved - 1000 * MIB


def step_of(model, optimizer, x, y):
    loss = F.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


def net():
    torch.manual_seed(1)
    return nn.Sequential(*(layer for _ in range(4) for layer in (nn.Linear(512, 512), nn.ReLU()))).cuda()


def train_eagerly(batches, y):
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for x in [batches[0]] * 3 + batches:
        optimizer.zero_grad(set_to_none=True)
        step_of(model, optimizer, x, y)
    return digest_of(*model.parameters())


@check
def a_captured_training_step_is_replayed_while_others_leave():
    import spillway

    make_deterministic()
    torch.manual_seed(0)
    batches, y = [torch.randn(64, 512, device="cuda") for _ in range(4)], torch.randn(64, 512, device="cuda")
    plain = train_eagerly(batches, y)
    torch.cuda.empty_cache()
    spillway.enable(budget="512MiB", device="cuda", policy="lru")
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    static = batches[0].clone()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            optimizer.zero_grad(set_to_none=True)
            step_of(model, optimizer, static, y)
    torch.cuda.current_stream().wait_stream(side)
    optimizer.zero_grad(set_to_none=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step_of(model, optimizer, static, y)
    crowd = [torch.full((16 * MIB,), float(i), device="cuda") for i in range(12)]  # 768 MiB: somebody always leaves
    for x in batches:
        static.copy_(x)
        graph.replay()
        for i, one in enumerate(crowd):
            assert one[-1].item() == i
    stats = spillway.stats()
    assert digest_of(*model.parameters()) == plain, "the replayed steps are not the eager ones"
    assert stats["moved_out_bytes"] > 0 and stats["violations"] == 0, stats
    assert torch.cuda.max_memory_reserved() <= 512 * MIB, torch.cuda.max_memory_reserved()


@check
def a_capture_that_cannot_fit_fails_in_words():
    import spillway

    spillway.enable(budget="256MiB", device="cuda")
    kept = torch.zeros(200 * MIB, dtype=torch.uint8, device="cuda")
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            torch.zeros(100 * MIB, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError as error:
        assert "budget" in str(error), error
    else:
        raise AssertionError("a graph beyond the budget")
    assert spillway.stats()["violations"] == 0 and kept[0].item() == 0


@check
def user_pools_make_others_leave():
    import spillway

    spillway.enable(budget="512MiB", device="cuda", policy="lru")
    kept = [torch.full((16 * MIB,), float(i), device="cuda") for i in range(7)]  # 448 MiB
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        x = torch.full((32 * MIB,), 3.0, device="cuda")  # 128 MiB
    assert torch.cuda.max_memory_reserved() <= 512 * MIB, torch.cuda.max_memory_reserved()
    assert x.eq(3).all().item() and all(one.eq(i).all().item() for i, one in enumerate(kept))
    assert spillway.stats()["violations"] == 0


@check
def benchmarked_convolutions_train_in_a_budget():
    import spillway

    torch.backends.cudnn.benchmark = True
    spillway.enable(budget="700MiB", device="cuda", host_limit="8GiB")
    train(torch.bfloat16, steps=2)
    stats = spillway.stats()
    assert stats["violations"] == 0 and stats["moved_out_bytes"] + stats["dropped_bytes"] > 0


@check
def switched_on_in_the_middle_of_training():
    """As in a notebook: CUDA is up, the model has trained, its tensors are the other allocator's."""
    import spillway

    make_deterministic()

    def steps(model, optimizer, count):
        for i in range(count):
            torch.manual_seed(i)
            optimizer.zero_grad()
            model(torch.randn(2048, 1024, device="cuda")).square().mean().backward()
            optimizer.step()

    found = []
    for ours in (False, True):
        torch.manual_seed(0)
        layers = [m for _ in range(8) for m in (nn.Linear(1024, 1024), nn.GELU(), nn.Dropout(0.1))]
        model = nn.Sequential(*layers).cuda()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        steps(model, optimizer, 2)
        if ours:
            torch.cuda.empty_cache()
            held = torch.cuda.memory_reserved()
            budget = held + 96 * MIB
            spillway.enable(budget=budget, device="cuda", host_limit="4GiB")
        torch.cuda.reset_peak_memory_stats()
        steps(model, optimizer, 4)
        found.append(digest_of(*model.parameters()))
        if ours:
            stats = spillway.stats()
            assert torch.cuda.max_memory_reserved() <= budget and stats["violations"] == 0
            assert stats["moved_out_bytes"] + stats["dropped_bytes"] > 0
            spillway.set_budget("2GiB")
            spillway.disable()
            steps(model, optimizer, 1)
    assert found[0] == found[1], "other bits"


def run_with(settings, *flags):
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "train.py"
        script.write_text("import torch\nx = torch.ones(1 << 20, device='cuda')\nprint('sum', x.sum().item())\n")
        command = [sys.executable, "-m", "spillway", "run", "--budget", "256MiB", "--device", "cuda"]
        return subprocess.run([*command, *flags, str(script)], env=os.environ | settings, capture_output=True, text=True)


@check
def settings_of_torchs_allocator_are_minded():
    told = run_with({"PYTORCH_ALLOC_CONF": "expandable_segments:True,max_split_size_mb:64"})
    assert told.returncode == 0 and "sum 1048576" in told.stdout, told.stderr
    assert told.stderr.count("has no effect on memory under the budget") == 2, told.stderr
    for refused in ({"PYTORCH_ALLOC_CONF": "backend:cudaMallocAsync"}, {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}):
        done = run_with(refused)
        assert done.returncode == 2 and "sum" not in done.stdout, done.stderr
        print("  " + done.stderr.strip().splitlines()[-1])
    quiet = run_with({"PYTORCH_ALLOC_CONF": "expandable_segments:True"}, "--allocator", "native")
    assert quiet.returncode == 0 and "no effect" not in quiet.stderr, quiet.stderr


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
