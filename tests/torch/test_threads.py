"""Several threads: a rebuild has the bits it was made with, whoever runs it and on however many; what one fetches another may read."""

import json
import pathlib
import subprocess
import sys

import pytest
from harness import run_python

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
def test_a_rebuild_runs_on_as_many_threads_as_the_first_run(tmp_path, made_plainly, where):
    plain, depends_on_threads, _ = made_plainly
    if depends_on_threads != "True":
        pytest.skip("this machine's matrix product has the same bits on one thread and on two")
    assert made(tmp_path, "budgeted", where) == [plain, "True", "1"]


@pytest.fixture(scope="module")
def made_plainly(tmp_path_factory):
    return made(tmp_path_factory.mktemp("plain"), "plain", "same_process")


def made(folder: pathlib.Path, *words: str) -> list[str]:
    (folder / "make.py").write_text(MAKES)
    done = subprocess.run([sys.executable, "make.py", *words], cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.split()


@pytest.mark.parametrize("rounds", [10, pytest.param(400, marks=pytest.mark.long)])
def test_names_of_storages_and_the_interpreters_lock_keep_nobody_waiting(rounds):
    named = pathlib.Path(__file__).with_name("named.py")
    done = run_python(named, rounds)
    assert done.returncode == 0, done.stdout + done.stderr


# Both threads' parameters were copied from one network that was drawn: what was dropped is drawn and copied again by either.
SHARES = """
import copy
import hashlib
import sys
import threading
import torch
from torch import nn

torch.set_num_threads(1)
if sys.argv[1] != "plain":
    import spillway
    from spillway import native

    spillway.enable(400_000, device="cpu", policy="dtr" if sys.argv[1] == "swept" else sys.argv[1])
    native.load().sweep(2 if sys.argv[1] == "swept" else 0)  # what can be rebuilt is dropped after every op
torch.manual_seed(0)
layers = [nn.Linear(64, 128)]
for _ in range(4):
    layers += [nn.GELU(), nn.Linear(128, 128)]
network = nn.Sequential(*layers)
networks, found = [copy.deepcopy(network) for _ in range(2)], {}

@torch.no_grad()
def work(thread):
    own, digest = torch.Generator().manual_seed(thread), hashlib.sha256()
    for _ in range(8):
        for parameter in networks[thread].parameters():
            digest.update(parameter.double().sum().item().hex().encode())
        x = torch.randn(128, 64, generator=own)
        for layer in networks[thread]:
            x = layer(x)
            digest.update(x.double().sum().item().hex().encode())
    found[thread] = digest.hexdigest()

threads = [threading.Thread(target=work, args=(at,)) for at in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(found[0], found[1], 0 if sys.argv[1] == "plain" else spillway.stats()["recomputed_ops"])
"""


def shared(folder: pathlib.Path, policy: str) -> list[str]:
    (folder / "shares.py").write_text(SHARES)
    done = run_python(folder / "shares.py", policy)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.split()


@pytest.mark.parametrize("rounds", [3, pytest.param(40, marks=pytest.mark.long)])
def test_two_threads_rebuild_and_fetch_from_the_same_storages(tmp_path, rounds):
    plain = shared(tmp_path, "plain")[:2]
    for how in ("dtr", "hybrid", "swept") * rounds:
        *digests, rebuilt = shared(tmp_path, how)
        assert digests == plain, how
        assert int(rebuilt) > 0 or how != "swept"  # the others move what takes long to make, on a busy machine everything


# Convolutions need as much in their middle as they read: two at once do not fit into what one needs.
CROWDS = """
import hashlib
import sys
import threading
import torch
from torch import nn

threads = int(sys.argv[1])
torch.set_num_threads(1)
torch.manual_seed(0)
images, labels = torch.randn(48, 1, 20, 20), torch.randint(0, 5, (48,))

def network():
    body = [nn.Conv2d(1, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(2)]
    return nn.Sequential(*body, nn.Flatten(), nn.Dropout(0.1 if not networks else 0.0), nn.Linear(3200, 5))

networks, failures = [], []
for _ in range(threads):
    networks.append(network())

def train(own):
    try:
        optimizer = torch.optim.AdamW(own.parameters())
        for step in range(10):
            part = slice(16 * (step % 3), 16 * (step % 3) + 16)
            loss = nn.functional.cross_entropy(own(images[part].clone()), labels[part].clone())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    except BaseException as failure:
        failures.append(failure)

workers = [threading.Thread(target=train, args=(own,)) for own in networks]
for worker in workers:
    worker.start()
for worker in workers:
    worker.join()
if failures:
    raise failures[0]
for own in networks:
    print(hashlib.sha256(b"".join(value.numpy().tobytes() for value in own.state_dict().values())).hexdigest())
"""


def trained(folder: pathlib.Path, threads: int, *flags: str) -> tuple[list[str], dict]:
    (folder / "crowds.py").write_text(CROWDS)
    words = ["run", "--quiet", "--device", "cpu", "--stats", "stats.json", *flags, "crowds.py", threads]
    done = run_python("-m", "spillway", *words, folder=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.split(), json.loads((folder / "stats.json").read_text())


@pytest.mark.parametrize("threads", [2, pytest.param(4, marks=pytest.mark.long)])
def test_threads_train_at_once_in_what_one_of_them_needs(tmp_path, threads):
    plain, watched = trained(tmp_path, threads)
    for policy in ("dtr", "hybrid"):
        digests, stats = trained(tmp_path, threads, "--policy", policy, "--budget", str(watched["floor_bytes"] * 11 // 10))
        assert digests == plain
        assert stats["violations"] == 0
        assert stats["moved_out_bytes"] > 0
    assert watched["floor_bytes"] < 0.5 * watched["peak_live_bytes"]


# One thread's op runs Python in its middle and pins what the other needs room for, which waits with the interpreter's lock in hand.
HOLDS_THE_LOCK = """
import threading
import time
import torch
import spillway

@torch.library.custom_op("spillway_test::slow", mutates_args=())
def slow(x: torch.Tensor) -> torch.Tensor:
    begun.set()
    until = time.monotonic() + 1.0
    while time.monotonic() < until:
        time.sleep(0.01)
    return x[:1].clone()

begun = threading.Event()
values = [0.5] * 600_000
spillway.enable("4MiB", device="cpu")
large = torch.ones(700_000)
worker = threading.Thread(target=slow, args=(large,))
worker.start()
begun.wait()
made = torch.tensor(values)
worker.join()
assert made.sum().item() == 300_000 and large.sum().item() == 700_000
print("done")
"""


def test_waiting_for_memory_does_not_keep_the_interpreters_lock(tmp_path):
    (tmp_path / "holds.py").write_text(HOLDS_THE_LOCK)
    done = run_python(tmp_path / "holds.py")
    assert done.stdout.split() == ["done"], done.stdout + done.stderr
