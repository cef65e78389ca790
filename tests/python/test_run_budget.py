"""The front door with the native library behind it: budgets held, bits equal, statistics as promised, failures told."""

import json
import os
import re
import subprocess
import sys

import browser
import pytest

from spillway import native
from spillway.amounts import parse_bytes, to_text

pytestmark = pytest.mark.skipif(not native.LIBRARY.exists(), reason=f"{native.LIBRARY} is not built")

# Eight activations of 2 MiB beside 2 MiB of parameters: about 30 MiB in plain.
TRAINS = """
import torch
torch.manual_seed(0)
torch.set_num_threads(1)
layers = [torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Dropout(0.1)) for _ in range(4)]
model = torch.nn.Sequential(*layers, torch.nn.BatchNorm1d(256))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
for _ in range(3):
    optimizer.zero_grad()
    loss = model(torch.randn(2048, 256)).square().mean()
    loss.backward()
    optimizer.step()
    print(loss.item())
print(sum(p.double().sum().item() for p in model.parameters()))
"""

KEYS = {
    "budget_bytes", "peak_bytes", "peak_live_bytes", "floor_bytes", "steps", "ops", "moved_out_bytes", "moved_in_bytes",
    "recomputed_ops", "recompute_seconds", "stall_seconds", "violations", "device", "policy", "torch",
}  # fmt: skip
BUDGET = 16 << 20


@pytest.fixture
def spillway(real_server, tmp_path):
    """Runs `spillway <arguments> train.py` on a script, in a folder of its own."""

    def run(text, *arguments, **environment):
        (tmp_path / "train.py").write_text(text)
        return real_server.run([*arguments, "train.py"], tmp_path, {**os.environ, **environment})

    return run


@pytest.fixture(scope="module")
def plain(real_server, tmp_path_factory):
    """What the training script prints without us."""
    return real_server.execute(TRAINS, tmp_path_factory.mktemp("plain")).stdout


@pytest.mark.parametrize("policy", ["lru", "dtr"])
def test_a_script_in_half_its_memory_prints_the_same(spillway, tmp_path, plain, policy):
    done = spillway(TRAINS, "run", "--device", "cpu", "--budget", BUDGET, "--policy", policy, "--stats", "out.json")
    assert done.returncode == 0, done.stderr
    assert done.stdout == plain != ""
    stats = json.loads((tmp_path / "out.json").read_text())
    assert KEYS <= stats.keys()
    assert stats["budget_bytes"] == BUDGET and stats["policy"] == policy and stats["device"] == "cpu"
    assert stats["peak_live_bytes"] <= stats["peak_bytes"] <= BUDGET and stats["violations"] == 0
    assert stats["moved_out_bytes"] + stats["recomputed_ops"] > 0
    assert stats["steps"] == 3 and stats["ops"] > 100
    assert set(stats["stall_seconds"]) == {"fetch", "room", "host_room", "file"}
    assert "16.0 MiB" in done.stderr


def test_a_run_is_recorded_and_drawn_in_one_go_wherever_the_script_went(spillway, tmp_path):
    goes = "import os\nos.chdir('/')\n"
    done = spillway(goes + TRAINS, "run", "--device", "cpu", "--budget", BUDGET, "--report", "page.html")
    assert done.returncode == 0, done.stderr
    assert f"spillway drew {tmp_path / 'page.html'}: " in done.stderr and "drew" not in done.stdout
    page = (tmp_path / "page.html").read_text()
    assert page.startswith("<!doctype html>") and page.endswith("</html>\n")
    assert page.count('id="record-') >= 3  # a step each
    command = [native.TOOL, "export", "--summary", tmp_path / "page.spt"]
    summary = subprocess.run(command, capture_output=True, text=True)
    assert "ends in the middle" not in summary.stderr
    assert "unlawful" not in summary.stdout
    peak = re.search(r"^peak with transients +(\d+)", summary.stdout, re.MULTILINE)
    assert BUDGET // 2 < int(peak[1]) <= BUDGET  # the trace knows where every byte was


@pytest.mark.skipif(browser.BINARY is None, reason="there is no chromium here: apt-get install chromium")
def test_the_page_of_a_run_inside_its_budget_opens_in_a_browser_and_answers_clicks(spillway, tmp_path):
    done = spillway(TRAINS, "run", "--device", "cpu", "--budget", BUDGET, "--report", "page.html")
    assert done.returncode == 0, done.stderr
    with browser.Browser() as looking:
        looking.open(tmp_path / "page.html")
        looking.wait_for("document.body && document.body.dataset.ready")
        assert looking.value("document.querySelector('#step-title').textContent") == "Step 2"
        assert looking.ink("#timeline") > 10_000 and looking.ink("#steps") > 1000
        assert BUDGET // 2 < looking.value("page.step.memory.most.device") <= BUDGET
        x, y, width, height = looking.place_of("#steps")
        looking.click(x + 72 + 30, y + height / 2)
        looking.wait_for("document.body.dataset.step === '1'")
        assert looking.value("document.querySelector('#step-title').textContent") == "Step 1"
        assert looking.ink("#timeline") > 10_000
        rows = "[...document.querySelectorAll('#storages tbody tr')]"
        left = looking.value(f"{rows}.findIndex(row => /moved out|dropped/.test(row.innerText))")
        assert left >= 0  # in half its memory
        looking.value(f"{rows}[{left}].click()")
        assert False in looking.value("page.timeline.chosen.life.map(part => part[2])")  # it was away
        assert looking.errors == []


def test_without_a_budget_nothing_moves(spillway, tmp_path, plain):
    done = spillway(TRAINS, "run", "--device", "cpu", "--stats", "out.json")
    assert done.stdout == plain
    stats = json.loads((tmp_path / "out.json").read_text())
    assert stats["budget_bytes"] is None and stats["moved_out_bytes"] == stats["recomputed_ops"] == 0
    assert stats["peak_bytes"] > BUDGET > stats["floor_bytes"] > 0
    assert f"plain peak  {to_text(stats['plain_peak_bytes'])}\n" in done.stderr
    assert sum(value for name, value in stats["floor_op"].items() if name != "name") == stats["floor_bytes"]


@pytest.mark.parametrize("policy", ["hybrid", "dtr", "lru"])
def test_verify_finds_a_budgeted_run_equal(spillway, policy):
    done = spillway(TRAINS, "verify", "--device", "cpu", "--budget", BUDGET, "--policy", policy)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("equal, bit for bit: 3 steps (")
    assert "moved 0 B, recomputed 0 ops" not in done.stdout


def test_verify_names_one_flipped_bit_under_a_budget(spillway):
    done = spillway(TRAINS, "verify", "--once", "--device", "cpu", "--budget", BUDGET, SPILLWAY_TEST_FLIP="1:1:8200")  # op 0 is the item() of the print before
    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stdout.startswith("different: step 1, op 1 aten.randn.default, output 0 (float32[2048, 256]), element [1, 0]: ")


def test_verify_refuses_what_run_refuses_in_the_same_words_before_the_script_runs(spillway, tmp_path):
    ran, verified = (spillway("open('begun', 'w')\n", command, "--device", "cpu", "--budget", "1KiB") for command in ("run", "verify"))
    assert ran.returncode == verified.returncode == 2 and ran.stdout == verified.stdout == ""
    assert ran.stderr.replace("spillway run", "spillway verify") == verified.stderr
    assert verified.stderr == "spillway verify: a budget of 1.00 KiB is below the smallest possible, 4.00 KiB\n"
    assert not (tmp_path / "begun").exists()


def test_a_budget_nothing_fits_into_is_torchs_out_of_memory(spillway, tmp_path):
    done = spillway(TRAINS, "run", "--device", "cpu", "--budget", "3MiB", "--stats", "out.json")
    assert done.returncode == 1
    assert "OutOfMemoryError" in done.stderr and "spillway/" not in done.stderr
    assert json.loads((tmp_path / "out.json").read_text())["violations"] == 0


CATCHES = """
import torch
held = [torch.ones(1 << 19) for _ in range(3)]
try:
    torch.empty(1 << 23)
except torch.OutOfMemoryError as error:
    print("caught")
print(sum(x.sum().item() for x in held))
"""


def test_a_script_that_catches_it_goes_on_with_its_data(spillway):
    done = spillway(CATCHES, "run", "--device", "cpu", "--budget", "8MiB")
    assert done.stdout == f"caught\n{3 * 2**19}.0\n", done.stderr
    assert "plain peak" in done.stderr and "of it)" not in done.stderr  # memory comes in pieces: no share of a smaller peak


GROWS = """
import torch, spillway
small = torch.ones(1 << 10)
for step in range(2):
    (small + small).sum()
    spillway.step()
large = torch.ones(1 << 19)
try:
    large.repeat(4)
except torch.OutOfMemoryError as error:
    print(error)
"""


def amount(pattern, text):
    return parse_bytes(re.search(pattern, text).group(1))


def test_the_floor_and_the_budget_that_an_error_names_count_the_operator_that_failed(spillway):
    said = spillway(GROWS, "run", "--device", "cpu", "--budget", "8MiB").stdout

    working_set = (2 << 20) + (8 << 20)  # of repeat: what it reads and what it makes
    floor = amount(r"\(the floor\), this one counted, is (.*?)\. ", said)
    assert floor >= working_set * 0.995, said
    assert amount(r"A budget of about (.*?) would do so far; a smaller batch", said) >= floor


@pytest.mark.parametrize("flags, says", [
    (["--policy", "no-such-policy"], "unknown policy 'no-such-policy'"), (["--budget", "1"], "budget"),
    (["--allocator", "native"], "allocator 'native' is for cards"),
])  # fmt: skip
def test_what_the_engine_refuses_is_one_sentence_and_exit_code_two(spillway, flags, says):
    done = spillway(TRAINS, "run", "--device", "cpu", "--budget", "1GiB", *flags)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("spillway run: ") and says in done.stderr and len(done.stderr.splitlines()) == 1


WORKERS = """
import torch
class Squares(torch.utils.data.Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, i):
        return weights * i
weights = torch.arange(1 << 14, dtype=torch.float32)
loader = torch.utils.data.DataLoader(Squares(), batch_size=8, num_workers=2)
print(sum(batch.double().sum().item() for batch in loader))
"""


def test_workers_get_and_give_the_right_bytes(spillway, real_server, tmp_path):
    done = spillway(WORKERS, "run", "--quiet", "--device", "cpu", "--budget", "4MiB")
    assert done.returncode == 0, done.stderr
    assert done.stdout == real_server.execute(WORKERS, tmp_path).stdout != ""


INSIDE = """
import spillway, torch
before = torch.arange(1000.0)
spillway.enable("8MiB", device="cpu")
tensors = [torch.full((1 << 19,), float(i)) for i in range(12)]
print(spillway.stats()["moved_out_bytes"] > 0, [t.sum().item() / 2**19 for t in tensors], before.sum().item())
spillway.set_budget("6MiB")
print(sum(t.sum().item() for t in tensors) / 2**19, spillway.stats()["budget_bytes"])
spillway.api.ram_bytes = lambda: 7 << 20
try:
    spillway.disable()
except ValueError as error:
    print(error)
    print(spillway.is_enabled(), spillway.stats()["budget_bytes"])
del tensors[2:]
spillway.disable()
print(spillway.is_enabled(), [t.tolist()[5] for t in tensors])
with spillway.budget("8MiB", device="cpu"):
    print(torch.ones(10).sum().item(), spillway.stats()["budget_bytes"])
"""


MISSING = ("even a budget of all of RAM (7.00 MiB) is too small to switch off: not everything that was moved away fits into the budget at once, so spillway "
           "stays on: tensors take 24.0 MiB, and there is room for 7.00 MiB: 17.0 MiB too little; raise the budget or free tensors first")  # fmt: skip


def test_on_and_off_inside_a_program(real_server, tmp_path):
    done = real_server.execute(INSIDE, tmp_path)
    assert done.stdout.splitlines() == [
        f"True {[float(i) for i in range(12)]} 499500.0", f"66.0 {6 << 20}", MISSING, f"True {6 << 20}", "False [0.0, 1.0]", f"10.0 {8 << 20}",
    ], done.stderr  # fmt: skip


DROPPED = """
import spillway, torch
from spillway import native
spillway.enable("4MiB", device="cpu", policy="dtr")
seed = torch.arange(250000.0).sin()
tensors = []
for i in range(12):
    tensors.append(seed + i)
    native.load().drop(tensors[-1]._cdata)
spillway.api.ram_bytes = lambda: 4 << 20
try:
    spillway.disable()
except ValueError as error:
    print(": 8.40 MiB too little" in str(error), spillway.is_enabled())
print(all(torch.equal(tensor, seed + i) for i, tensor in enumerate(tensors)))
del tensors[3:]
spillway.disable()
print(spillway.is_enabled(), all(torch.equal(tensor, seed + i) for i, tensor in enumerate(tensors)))
"""


def test_a_disable_that_cannot_rebuild_all_leaves_everything_as_it_was(real_server, tmp_path):
    done = real_server.execute(DROPPED, tmp_path)
    assert done.stdout.splitlines() == ["True True", "True", "False True"], done.stdout + done.stderr


# 8 MiB of weights, gradients and optimizer state, trained in six.
LEAVES = """
import spillway, torch
def train():
    torch.manual_seed(0)
    model = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(8)])
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(2):
        optimizer.zero_grad(set_to_none=False)
        model(torch.ones(64, 256)).square().mean().backward()
        optimizer.step()
    return [model, optimizer]
def sums(trained):
    return [value.double().sum().item() for state in trained[1].state.values() for value in state.values()]
plain = sums(train())
with spillway.budget("6MiB", device="cpu"):
    trained = train()
stats = spillway.stats()
print(spillway.is_enabled(), sums(trained) == plain, stats["budget_bytes"] >> 20, stats["peak_bytes"] <= 6 << 20)
del trained
try:
    with spillway.budget("6MiB", device="cpu"):
        trained = train()
        raise KeyError("mine")
except KeyError as error:
    print(error, spillway.is_enabled(), sums(trained) == plain)
"""


def test_leaving_brings_home_what_the_budget_had_no_room_for(real_server, tmp_path):
    done = real_server.execute(LEAVES, tmp_path)
    assert done.stdout.splitlines() == ["False True 6 True", "'mine' False True"], done.stdout + done.stderr
    assert done.stderr == ""


def test_the_command_without_forks(tmp_path):
    (tmp_path / "train.py").write_text(TRAINS)
    done = subprocess.run([sys.executable, "-m", "spillway", "run", "--device", "cpu", "--budget", str(BUDGET), "train.py"],
                          capture_output=True, text=True, cwd=tmp_path)  # fmt: skip
    assert done.returncode == 0 and "spillway on cpu" in done.stderr
