"""`spillway verify` over the real engine: every operator's results are read, each in a region of its own.

In processes that begin anew, as users start them; test_run_budget.py has every policy in forks.
"""

import pathlib
import subprocess
import sys

import pytest

SPILLWAY = pathlib.Path(sys.executable).with_name("spillway")

TRAINS = """
import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
layers = [nn.Sequential(nn.Linear(256, 256), nn.GELU(), nn.Dropout(0.1)) for _ in range(6)]
model = nn.Sequential(*layers, nn.BatchNorm1d(256))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
for step in range(3):
    optimizer.zero_grad()
    model(torch.randn(1024, 256)).square().mean().backward()
    optimizer.step()
"""


@pytest.mark.skipif(not SPILLWAY.exists(), reason=f"{SPILLWAY} is not there")
@pytest.mark.parametrize("policy", ["dtr", *(pytest.param(policy, marks=pytest.mark.long) for policy in ("lru", "hybrid"))])
def test_a_net_in_half_its_memory_is_equal(tmp_path, policy):
    (tmp_path / "train.py").write_text(TRAINS)
    command = [SPILLWAY, "verify", "--once", "--quiet", "--device", "cpu", "--budget", "12MiB", "--policy", policy, "train.py"]

    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("equal, bit for bit")
