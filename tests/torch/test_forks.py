"""A child forked in the middle of a step trains on by itself, to the bits of the plain run's child.

Its parent trains on at once, as under a loader's workers, and is well past the step when the child begins to read."""

import pathlib
import subprocess
import sys

import pytest

SPILLWAY = pathlib.Path(sys.executable).with_name("spillway")

TRAINS = """
import hashlib
import os
import torch
from torch import nn

torch.manual_seed(3)
torch.set_num_threads(1)  # a child has no threads but its own
layers = []
for _ in range(6):
    layers += [nn.Linear(64, 256), nn.GELU(), nn.LayerNorm(256), nn.Dropout(0.1), nn.Linear(256, 64), nn.ReLU()]
model = nn.Sequential(*layers)
optimizer = torch.optim.Adam(model.parameters())

def forward():
    return model(torch.randn(256, 64)).square().mean()

def finish(loss):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

def digest():
    whole = hashlib.sha256()
    for parameter in model.parameters():
        whole.update(parameter.detach().numpy().tobytes())
    return whole.hexdigest()

def child_of(step, loss, go, told):
    os.read(go, 1)
    finish(loss)
    finish(forward())
    os.write(told, f"child of step {step}: {digest()}\\n".encode())
    os._exit(0)

children = []
for step in range(24):
    loss = forward()
    if step >= 16 and step % 2 == 0:
        go, told = os.pipe(), os.pipe()
        if os.fork() == 0:
            child_of(step, loss, go[0], told[1])
        os.close(told[1])  # a child that fails tells nothing
        children.append((step, go[1], told[0]))
    finish(loss)
    while children and (step == 23 or children[0][0] + 3 == step):  # two at a time, three steps later
        _, go, told = children.pop(0)
        os.write(go, b"!")
        print(os.read(told, 1000).decode() or "a child failed")
        os.wait()
print(digest())
"""


@pytest.mark.parametrize("flags", [["--policy", "hybrid"], ["--policy", "lru", "--host-limit", "2MB"]], ids=["planned", "reactive"])
def test_a_child_ends_with_the_bits_of_the_plain_runs_child(tmp_path, plain, flags):
    budgeted = run(tmp_path, SPILLWAY, "run", "--quiet", "--device", "cpu", "--budget", "4000000", *flags)
    assert budgeted == plain


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    said = run(tmp_path_factory.mktemp("plain"), sys.executable)
    assert said.count("child of step") == 4
    return said


def run(folder: pathlib.Path, *command: object) -> str:
    (folder / "train.py").write_text(TRAINS)
    done = subprocess.run([*command, "train.py"], cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
