"""Bad input that only shows with the engine at work: one sentence, exit code 2 where nothing has begun, and nothing lost."""

import pytest

from spillway import native

pytestmark = pytest.mark.skipif(not native.LIBRARY.exists(), reason=f"{native.LIBRARY} is not built")


# What a process may write into one file ends where a full disk would.
FULL_DISK = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (ROOM, ROOM))
import sys
from spillway import cli
sys.argv = ["spillway", "run", "--device", "cpu", "--budget", "8MiB", "--policy", "lru", "--quiet", "train.py"]
sys.exit(cli.main())
"""
FILLS = """
import torch
held = []
try:
    for i in range(64):
        held.append(torch.full((1 << 18,), float(i)))
except torch.OutOfMemoryError as error:
    print(error)
del held[-2:]  # full above and below: something has to make way
print(len(held), all(held[i].sum().item() == i << 18 for i in range(len(held))))
"""


def test_a_disk_that_fills_up_is_out_of_memory_in_words_and_nothing_is_lost(real_server, tmp_path):
    (tmp_path / "train.py").write_text(FILLS)

    done = real_server.execute(FULL_DISK.replace("ROOM", str(16 << 20)), tmp_path)

    assert done.returncode == 0, done.stderr
    error, end = done.stdout.splitlines()
    assert "the disk of the spill folder is full" in error
    count, intact = end.split()
    assert 16 <= int(count) < 64 and intact == "True"


def test_a_full_disk_is_told_before_the_script_begins(real_server, tmp_path):
    (tmp_path / "train.py").write_text("print('begun')")

    code = FULL_DISK.replace("ROOM", str(1 << 16)).replace('"--quiet"', f'"--spill-dir", {str(tmp_path)!r}')
    done = real_server.execute(code, tmp_path)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"spillway run: the spill directory {tmp_path} has no room for 1 MiB: File too large\n"


OTHER_TORCH = """
import sys, torch
torch.__version__ = "2.12.0+cu130"
from spillway import cli, native
native._loaded = None
sys.argv = ["spillway", "run", "--device", "cpu", "--budget", "8MiB", "train.py"]
sys.exit(cli.main())
"""


def test_another_torch_is_refused_before_the_script_begins(real_server, tmp_path):
    (tmp_path / "train.py").write_text("print('begun')")

    done = real_server.execute(OTHER_TORCH, tmp_path)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "spillway run: this Spillway was built for torch 2.11.x, and torch 2.12.0+cu130 is installed\n"


BELOW = """
import spillway, torch
spillway.enable("16MiB", device="cpu", host_limit="64MiB")
tensors = [torch.full((1 << 18,), float(i)) for i in range(8)]
arrays = [tensor.numpy() for tensor in tensors]  # their addresses are out: they stay
try:
    spillway.set_budget("4MiB")
except ValueError as error:
    print(error)
print(spillway.stats()["budget_bytes"] >> 20, spillway.stats()["violations"], sum(float(a[7]) for a in arrays))
"""


def test_a_budget_below_what_is_allocated_and_stays_is_refused_and_the_old_one_holds(real_server, tmp_path):
    done = real_server.execute(BELOW, tmp_path)

    said = "a budget of 4.00 MiB is below what is allocated and cannot leave, 8.00 MiB: free tensors first, or choose more"
    assert done.stdout.splitlines() == [said, "16 0 28.0"], done.stdout + done.stderr


AGAIN = """
import spillway, torch
spillway.enable(device="cpu", policy="lru")
a = [torch.full((1 << 18,), float(i)) for i in range(12)]
spillway.disable()
spillway.enable("8MiB", device="cpu", host_limit="64MiB", policy="dtr")
b = [torch.full((1 << 18,), float(i)).add_(1) for i in range(12)]
stats = spillway.stats()
print(stats["peak_bytes"] >> 20, stats["moved_out_bytes"] + stats["dropped_bytes"] > 0, sum(t.mean().item() for t in a + b))
del a, b
spillway.disable()
for words in ({"host_limit": "32MiB"}, {"spill_dir": "."}, {"min_evict": "1MiB"}, {"poison": True}):
    try:
        spillway.enable("8MiB", **{"device": "cpu", "host_limit": "64MiB"} | words)
    except ValueError as error:
        print(error)
print(spillway.is_enabled())
"""


def test_a_second_enable_honours_what_it_can_and_refuses_the_rest(real_server, tmp_path):
    done = real_server.execute(AGAIN, tmp_path)

    lines = done.stdout.splitlines()
    assert lines[0] == "8 True 144.0", done.stdout + done.stderr
    assert [line.split(" is settled")[0] for line in lines[1:5]] == [
        "the host limit", "the spill directory", "the smallest size that leaves (min_evict)", "the poison mode",
    ]  # fmt: skip
    assert "it was 64.0 MiB and cannot become 32.0 MiB; start another process for that" in lines[1]
    assert lines[5] == "False"


UNSEEN = """
import torch, spillway
from spillway import native
torch.set_num_threads(1)
WORDS = dict(budget="8MiB", device="cpu", policy=POLICY, min_evict=1)
spillway.enable(**WORDS)
written = torch.arange(1 << 18, dtype=torch.float32).sin()
made = written.cos()
native.load().evict_all()
before = (written.sum().item(), made.sum().item())  # home again, the copies below still good
spillway.disable()
written.add_(1)  # nobody tells
now = written.sum().item()
spillway.enable(**WORDS)
native.load().sweep(2)  # leaves by replay where it can
torch.ones(3) + 1
native.load().sweep(0)
crowd = [torch.full((1 << 18,), float(i)) for i in range(16)]
print(written.sum().item() == now != before[0], made.sum().item() == before[1])
"""


@pytest.mark.parametrize("policy", ["lru", "dtr"])
def test_what_was_written_while_off_is_what_leaves_after_a_second_enable(real_server, tmp_path, policy):
    done = real_server.execute(UNSEEN.replace("POLICY", repr(policy)), tmp_path)

    assert done.stdout == "True True\n", done.stdout + done.stderr


LATE = """
import spillway, torch
from torch import nn
model = nn.Linear(1024, 1024, bias=False)
view = model.weight[:10]
garbage = [torch.empty(1 << 20)]
garbage.append(garbage)
del garbage
for budget in ("3MiB", "4MiB"):
    try:
        spillway.enable(budget, device="cpu")
    except ValueError as error:
        print(error)
print(spillway.is_enabled(), torch.ones(5).sum().item())
"""


def test_a_budget_below_the_tensors_made_before_is_refused_and_nothing_is_changed(real_server, tmp_path):
    done = real_server.execute(LATE, tmp_path)

    said = "a budget of 3.00 MiB is below what is allocated already: tensors made before hold 4.00 MiB; free them first, or choose more"
    assert done.stdout.splitlines() == [said, "True 5.0"], done.stdout + done.stderr


LATE_AGAIN = """
import spillway, torch
before = torch.ones(1 << 20)
spillway.enable("16MiB", device="cpu")
during = torch.ones(1 << 19)
spillway.disable()
between = torch.ones(1 << 19)
for budget in ("5MiB", "6MiB"):
    try:
        spillway.enable(budget, device="cpu")
    except ValueError as error:
        print(error)
print(spillway.is_enabled(), [t.sum().item() for t in (before, during, between)])
"""


def test_it_is_refused_the_second_time_as_well_and_what_is_ours_does_not_count(real_server, tmp_path):
    done = real_server.execute(LATE_AGAIN, tmp_path)

    said = "a budget of 5.00 MiB is below what is allocated already: tensors made before hold 6.00 MiB; free them first, or choose more"
    assert done.stdout.splitlines() == [said, f"True {[2.0**20, 2.0**19, 2.0**19]}"], done.stdout + done.stderr


LATE_CHANGE = """
import spillway, torch, numpy
before = torch.ones(1 << 20)
spillway.enable("16MiB", device="cpu")
ours = [torch.ones(1 << 20) for _ in range(6)]
mapped = torch.from_numpy(numpy.ones(1 << 22, numpy.float32))  # others' memory, but not made before
for budget in ("3MiB", "4MiB"):
    try:
        spillway.set_budget(budget)
    except ValueError as error:
        print(error)
    print(spillway.stats()["budget_bytes"] >> 20)
del before
spillway.set_budget("3MiB")
"""


def test_a_budget_below_the_tensors_made_before_is_refused_later_as_well(real_server, tmp_path):
    done = real_server.execute(LATE_CHANGE, tmp_path)

    said = "a budget of 3.00 MiB is below what is allocated already: tensors made before hold 4.00 MiB; free them first, or choose more"
    assert done.stdout.splitlines() == [said, "16", "4"] and done.returncode == 0, done.stdout + done.stderr


SMALL = """
import spillway, torch
spillway.enable("100KiB", device="cpu")
for budget in ("2KiB", "150KiB"):
    try:
        spillway.set_budget(budget)
    except ValueError as error:
        print(error)
for make in (lambda: torch.empty(1 << 16), lambda: torch.ones(3).expand(1 << 14, 3).contiguous()):
    try:
        make()
    except torch.OutOfMemoryError as error:
        print(str(error).partition(". ")[0])
        assert "0 B" not in str(error).partition("are free")[0], error
        assert "could leave" not in str(error), error
"""


def test_a_budget_is_cut_to_whole_pieces_and_running_out_says_so(real_server, tmp_path):
    done = real_server.execute(SMALL, tmp_path)

    budget = "spillway: the budget of 150 KiB (148 KiB of it ours to place, in pieces of 4.00 KiB) does not hold"
    assert done.stdout.splitlines() == [
        "a budget of 2.00 KiB is below the smallest possible, 4.00 KiB",
        f"{budget} 256 KiB more for a new tensor (as torch.empty, torch.randn or torch.load make them, or a library for itself)",
        f"{budget} 192 KiB more in aten::clone, which reads 12 B of inputs",
    ], done.stdout + done.stderr


IN_PIECES = """
import spillway, torch
spillway.enable("1MiB", device="cpu", policy="lru")
small, large = [], []
for i in range(120):  # too small to leave, each beside one that will be gone
    small.append(torch.full((100,), float(i)))
    large.append(torch.zeros(1500))
del large
whole = torch.empty(1 << 17)
print(whole.numel(), all(one.eq(i).all().item() for i, one in enumerate(small)), spillway.stats()["violations"])
"""


def test_memory_in_pieces_becomes_one_for_a_new_tensor(real_server, tmp_path):
    """Half of the budget, with a tenth of it in tensors of 400 bytes that lie all over it."""
    done = real_server.execute(IN_PIECES, tmp_path)

    assert done.stdout == "131072 True 0\n", done.stdout + done.stderr
