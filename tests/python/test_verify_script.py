"""`spillway verify` on whole scripts, over a stand-in that moves nothing: equal is equal, and one wrong bit is named."""

import os
import signal
import sys

import pytest

from spillway import verify as verify_module

TRAINS = """
import torch
torch.manual_seed(0)
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(6)
        self.fc = torch.nn.Linear(6, 3)
    def forward(self, x):
        return torch.relu(self.fc(torch.dropout(self.norm(x), 0.2, True)))
model = Net()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
for _ in range(3):
    optimizer.zero_grad()
    loss = model(torch.randn(8, 6)).square().sum()
    loss.backward()
    optimizer.step()
"""


@pytest.fixture
def verify(fake_server, tmp_path):
    """Verifies a script in forks of one process that has torch loaded already."""

    def run(text, *flags, **environment):
        (tmp_path / "train.py").write_text(text)
        return fake_server.run(["verify", "--budget", "1GiB", *flags, "train.py"], tmp_path, {**os.environ, **environment})

    return run


def test_equal_runs_are_told_with_what_was_compared(verify):
    done = verify(TRAINS)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("equal, bit for bit: 3 steps (")
    for kind in ("ops", "losses", "gradients", "parameters", "optimizer states", "buffers", "random states"):
        assert kind in done.stdout
    assert "budget 1.00 GiB" in done.stdout
    assert [name in done.stderr for name in ("plain:", "plain again:", "budgeted:")] == [True] * 3


@pytest.mark.parametrize("flags", [[], ["--steps-only"]])
def test_one_flipped_bit_is_named_by_step_op_tensor_and_element(verify, flags):
    # A step begins with its randn; bit 100 lies in element 3 of 8 x 6 float32s.
    done = verify(TRAINS, "--once", *flags, SPILLWAY_TEST_FLIP="1:0:100")
    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stdout.startswith("different: step 1, op 0 aten.randn.default, output 0 (float32[8, 6]), element [0, 3]: "), done.stdout
    assert "train.py:15" in done.stdout


def test_a_script_that_is_not_deterministic_is_told_with_the_op(verify):
    done = verify(TRAINS.replace("torch.manual_seed(0)", "torch.seed()"), "--quiet")
    assert done.returncode == 3
    assert "two plain runs already differ: step 0, op " in done.stdout and "aten.uniform_.default" in done.stdout
    assert done.stderr == ""


def test_memory_nobody_wrote_is_not_a_difference(verify):
    done = verify(TRAINS + "torch.empty(1000).mul_(2)\n")
    assert done.returncode == 0, done.stdout
    assert "never written: aten.mul_.Tensor" in done.stdout


def test_a_plain_run_that_does_not_fit_is_bad_input_with_advice(verify):
    done = verify("import torch\ntorch.empty(1 << 60)\n")
    assert done.returncode == 2
    assert "does not fit" in done.stdout and "smaller" in done.stdout


def test_a_script_that_fails_the_same_way_twice_is_equal_up_to_there(verify):
    done = verify(TRAINS + "raise ValueError('as always')\n", "--once")
    assert done.returncode == 0
    assert "ends with an exception (ValueError: as always)" in done.stdout


def test_a_budgeted_run_that_dies_is_a_difference(verify):
    done = verify(TRAINS + "import os, spillway\nif spillway.is_enabled(): os.abort()\n", "--once")
    assert done.returncode == 1
    assert "exit code -6" in done.stdout


def test_a_budget_too_small_is_told_as_such_and_not_as_a_difference(verify):
    fails = "import torch, spillway\nif spillway.is_enabled(): raise torch.OutOfMemoryError('7.19 MiB would do')\n"
    done = verify(TRAINS + fails, "--once")
    assert done.returncode == 2
    assert "ran out of memory" in done.stdout and "7.19 MiB would do" in done.stdout


def test_an_engine_that_refuses_does_it_before_the_script_runs(verify, tmp_path):
    done = verify("open('begun', 'w')\n", "--policy", "no-such-policy")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("spillway verify: unknown policy 'no-such-policy'") and len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "begun").exists()


def test_an_engine_that_refuses_after_the_plain_run_is_bad_input(verify, tmp_path):
    (tmp_path / "spilled").mkdir()
    done = verify(TRAINS + "import os\nos.rmdir('spilled')\n", "--once", "--spill-dir", "spilled")
    assert done.returncode == 2
    assert done.stdout.startswith("spillway verify: ") and "spilled" in done.stdout


@pytest.mark.parametrize("flags, says", [(["--budget", "8gigs"], "cannot read budget"), (["--device", "tpu"], "unknown device"),
                                         (["-m", "no_such_module"], "No module named")])  # fmt: skip
def test_bad_input_is_one_sentence_and_exit_code_two(verify, flags, says):
    done = verify(TRAINS, *flags)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("spillway verify: ") and says in done.stderr and len(done.stderr.splitlines()) == 1


WAITS = """
import os, pathlib, signal, time
pathlib.Path("process").write_text(str(os.getpid()))
os.kill(os.getppid(), signal.{})
time.sleep(60)
"""
# A shell without a terminal lets its background jobs ignore some of them.
VERIFIES = """
import os, signal, subprocess, sys, tempfile
from spillway import verify
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)
tempfile.tempdir = os.path.abspath("temporary")
verify.record_in_child = lambda *words: subprocess.run([sys.executable, "waits.py"]).returncode
sys.exit(verify.main(["--budget", "1GiB", "--device", "cpu", "waits.py"]))
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_ends_the_run_under_way_and_leaves_no_files(fake_server, write_tree, number):
    folder = write_tree({"waits.py": WAITS.format(number.name)})
    (folder / "temporary").mkdir()
    done = fake_server.execute(VERIFIES, folder)
    assert done.returncode == -number, done.stderr
    assert list((folder / "temporary").iterdir()) == []
    with pytest.raises(ProcessLookupError):
        os.kill(int((folder / "process").read_text()), 0)


def test_each_run_is_a_process_of_its_own(tmp_path):
    with open(tmp_path / "output", "w+") as output:
        code = verify_module.record_in_child(["--out", tmp_path / "facts", tmp_path / "no.py"], {}, output)
        output.seek(0)
        assert code == 1 and "cannot open the script" in output.read()


def test_without_a_budget_there_is_nothing_to_verify(run):
    done = run(sys.executable, "-m", "spillway", "verify", "train.py")
    assert done.returncode == 2 and "no budget given" in done.stderr


def test_training_without_an_optimizer_is_compared_at_each_backward(verify):
    done = verify("import torch\ntorch.manual_seed(0)\nm = torch.nn.Linear(2, 2)\nfor _ in range(4): m(torch.ones(3, 2)).sum().backward()\n",
                  "--once")
    assert done.returncode == 0
    assert "4 steps" in done.stdout and "gradients" in done.stdout


READS = """
import torch
torch.manual_seed(0)
weight = torch.randn(4, 6, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)
kept = torch.arange(24.).view(4, 6)
for step in range(2):
    optimizer.zero_grad()
    weight.sum().backward()
    optimizer.step()
    {}
"""


@pytest.mark.parametrize("read, op, says", [
    ("shown = kept.t()", 0, "aten.t.default, output 0 (float32[6, 4]), element [3, 0]: "),
    ("shown = kept[:, 2:4]", 0, "aten.slice.Tensor, output 0 (float32[4, 2]), element [0, 1]: "),
    ("print(kept[0, 3].item())", 2, "aten._local_scalar_dense.default, input 0 (float32[]), element []: "),
    ("kept.tolist()", 0, "torch.Tensor.tolist, input 0 (float32[4, 6]), element [0, 3]: "),
    ("torch.equal(kept, weight)", 0, "aten.equal.default, input 0 (float32[4, 6]), element [0, 3]: "),
])  # fmt: skip
def test_wrong_bytes_that_are_only_looked_at_are_named(verify, read, op, says):
    # Step 1 begins after the first optimizer step: with the read, given wrong bytes. Bit 100 lies in element 3.
    bit = 4 if "item" in read else 100
    done = verify(READS.format(read), "--once", "--quiet", SPILLWAY_TEST_FLIP=f"1:{op}:{bit}")
    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stdout.startswith(f"different: step 1, op {op} {says}"), done.stdout
    assert "train.py:11" in done.stdout


def test_looking_at_memory_nobody_wrote_is_no_difference(verify):
    looks = "torch.empty(1000).view(10, 100).tolist(); half = torch.empty(1000); half[:500] = 1; half.view(-1)[900].item()"
    done = verify(READS.format(looks), "--quiet")
    assert done.returncode == 0, done.stdout
    assert "never written" not in done.stdout and " reads" in done.stdout
