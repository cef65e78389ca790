"""The engine on a card: same bits inside a budget, torch's memory API in terms of it, and what shares a card with it.

    engine_test.py              every check, each in a process of its own, several at once; exit code 1 if one fails
    engine_test.py NAME ...     these checks, one after the other, in this process

Needs a card and the staged package on the path; says so and ends with 0 where there is no card.
"""

import hashlib
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

MIB = 1 << 20
AT_ONCE = 5
CHECKS = {}


def check(function):
    CHECKS[function.__name__] = function
    return function


def make_deterministic():
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    torch.backends.cudnn.benchmark = False


class Mixed(nn.Module):
    """Convolutions with batch norm, ReLU in place and dropout, then attention over the patches."""

    def __init__(self, width=96, layers=8):
        super().__init__()
        self.stem = nn.Sequential(*(
            block for i in range(layers)
            for block in (nn.Conv2d(3 if i == 0 else width, width, 3, padding=1), nn.BatchNorm2d(width),
                          nn.ReLU(inplace=True), nn.Dropout(0.1))
        ))
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.1, batch_first=True)
        self.attention = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, 10)

    def forward(self, images):
        found = self.stem(images)
        tokens = F.avg_pool2d(found, 4).flatten(2).transpose(1, 2)
        return self.head(self.attention(tokens).mean(1))


def digest_of(*tensors):
    found = hashlib.sha256()
    for tensor in tensors:
        found.update(tensor.detach().cpu().reshape(-1).view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


def train(dtype, steps=4, batch=48, seed=0):
    """Digests of every step, and the model's and the generator's at the end."""
    torch.manual_seed(seed)
    model = Mixed().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    said = []
    for _ in range(steps):
        images = torch.randn(batch, 3, 64, 64, device="cuda")
        labels = torch.randint(10, (batch,), device="cuda")
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype, enabled=dtype != torch.float32):
            loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        said.append(digest_of(loss))
    said.append(digest_of(*model.state_dict().values()))
    said.append(digest_of(torch.cuda.get_rng_state(), torch.get_rng_state()))
    return said


def plain_run(dtype):
    make_deterministic()
    train(dtype, steps=1)  # libraries take their workspaces
    torch.cuda.reset_peak_memory_stats()
    first = train(dtype)
    peak = torch.cuda.max_memory_allocated()
    assert train(dtype) == first, "two plain runs differ: nothing can be shown"
    torch.cuda.empty_cache()
    return first, peak


def bits(policy, dtype):
    import spillway

    plain, peak = plain_run(dtype)
    spillway.enable(budget=peak * 60 // 100, device="cuda", policy=policy, host_limit="8GiB")
    for share in (60, 40):
        budget = peak * share // 100
        spillway.set_budget(budget)
        torch.cuda.reset_peak_memory_stats()
        found = train(dtype)
        assert found == plain, f"{policy} {dtype} at {share} %: other bits: {[a == b for a, b in zip(found, plain)]}"
        stats = spillway.stats()
        print(f"  {policy} {dtype} {share} %: plain peak {peak / MIB:.0f} MiB, budget {budget / MIB:.0f}, "
              f"reserved {torch.cuda.max_memory_reserved() / MIB:.0f}, moved out {stats['moved_out_bytes'] / MIB:.0f}, "
              f"dropped {stats['dropped_bytes'] / MIB:.0f}, replayed ops {stats['recomputed_ops']}")
        assert torch.cuda.max_memory_reserved() <= budget
        assert torch.cuda.max_memory_allocated() <= torch.cuda.max_memory_reserved()
        assert stats["moved_out_bytes"] + stats["dropped_bytes"] > 0
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


@check
def driver_counts_no_more_than_the_budget():
    """Alone on the card: what the driver says is gone, less what the process had before, stays in the budget."""
    import threading

    import spillway

    make_deterministic()
    train(torch.float32, steps=2)  # contexts, kernels, library handles
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    held_before = torch.cuda.memory_reserved()
    budget = 800 * MIB
    before_enable = torch.cuda.mem_get_info()[0]
    spillway.enable(budget=budget, device="cuda", host_limit="8GiB")
    free_before = torch.cuda.mem_get_info()[0]  # the engine's streams and page tables belong to the context
    print(f"  enable() itself: {(before_enable - free_before) / MIB:.0f} MiB")
    lowest, stop = [free_before], threading.Event()

    def sample():
        while not stop.is_set():
            lowest[0] = min(lowest[0], torch.cuda.mem_get_info()[0])
            time.sleep(0.002)

    sampler = threading.Thread(target=sample)
    sampler.start()
    train(torch.float32, steps=6)
    stop.set()
    sampler.join()
    taken = free_before - lowest[0] + held_before
    print(f"  driver: {taken / MIB:.0f} MiB of {budget / MIB:.0f}, own count {spillway.stats()['peak_bytes'] / MIB:.0f}")
    assert taken <= budget
    assert spillway.stats()["violations"] == 0


ALONE = {"driver_counts_no_more_than_the_budget"}


def run_apart(name):
    begin = time.time()
    command = [sys.executable, "-u", "-X", "faulthandler", __file__, name]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=150)
    return name, done.returncode, time.time() - begin, done.stdout


def report(result):
    name, code, seconds, said = result
    print(f"{'ok  ' if code == 0 else 'FAIL'} {name} ({seconds:.0f} s)\n{said[-3000:] if code else said}", end="", flush=True)
    return code == 0


def main(names):
    if not torch.cuda.is_available():
        print("skipped: no card")
        return 0
    if names:
        for name in names:
            CHECKS[name]()
        return 0
    together = [name for name in CHECKS if name not in ALONE]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        fine = [report(result) for result in pool.map(run_apart, together)]
    fine += [report(run_apart(name)) for name in CHECKS if name in ALONE]
    print(f"{sum(fine)} of {len(fine)} checks passed")
    return 0 if all(fine) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
