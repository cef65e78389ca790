"""A tensor that is rebuilt after torch.set_num_threads has the bits it was made with, in a forked child as well."""

import pathlib
import subprocess
import sys

import pytest

MAKES = """
import hashlib
import os
import sys
import torch

is_budgeted, where = sys.argv[1] == "budgeted", sys.argv[2]
torch.manual_seed(0)
torch.set_num_threads(2)
left, right = torch.randn(64, 8192), torch.randn(8192, 48)
if is_budgeted:
    import spillway
    from spillway import native

    spillway.enable("1GiB", device="cpu", policy="dtr")
    left, right = left.clone(), right.clone()
    native.load().sweep(2)  # what can be rebuilt is dropped after every op
product = left @ right
if where == "child" and (child := os.fork()) > 0:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
torch.set_num_threads(1)
digest = hashlib.sha256(product.numpy().tobytes()).hexdigest()
rebuilt = spillway.stats()["recomputed_ops"] > 0 if is_budgeted else not torch.equal(product, left @ right)
print(digest, rebuilt, torch.get_num_threads(), flush=True)
os._exit(0)
"""


@pytest.mark.parametrize("where", ["same_process", "child"])
def test_a_rebuild_runs_on_as_many_threads_as_the_first_run(tmp_path, where):
    plain, depends_on_threads, _ = made(tmp_path, "plain", "same_process")
    if depends_on_threads != "True":
        pytest.skip("this machine's matrix product has the same bits on one thread and on two")
    assert made(tmp_path, "budgeted", where) == [plain, "True", "1"]


def made(folder: pathlib.Path, *words: str) -> list[str]:
    (folder / "make.py").write_text(MAKES)
    done = subprocess.run([sys.executable, "make.py", *words], cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.split()


@pytest.mark.parametrize("rounds", [10, pytest.param(400, marks=pytest.mark.long)])
def test_names_of_storages_and_the_interpreters_lock_keep_nobody_waiting(rounds):
    named = pathlib.Path(__file__).with_name("named.py")
    done = subprocess.run([sys.executable, named, str(rounds)], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
