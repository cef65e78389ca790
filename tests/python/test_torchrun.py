"""Two processes under torchrun, each with a budget of its own: same bits as without, files by rank."""

import json
import sys
from pathlib import Path

import pytest

from spillway import native

pytestmark = pytest.mark.skipif(not native.LIBRARY.exists(), reason=f"{native.LIBRARY} is not built")

BUDGET = 12 << 20  # about half of the plain peak
BIN = Path(sys.executable).parent

# Prints a digest of the parameters after every step; each rank has data of its own, gradients are averaged by gloo.
TRAINS = """
import hashlib, os, sys
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

torch.manual_seed(0)
torch.set_num_threads(1)
torch.distributed.init_process_group("gloo")
rank = torch.distributed.get_rank()
layers = [nn.Sequential(nn.Linear(256, 256), nn.GELU(), nn.Dropout(0.1)) for _ in range(6)]
model = DistributedDataParallel(nn.Sequential(*layers, nn.BatchNorm1d(256)))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
torch.manual_seed(1 + rank)
said = []
for step in range(4):
    optimizer.zero_grad()
    loss = model(torch.randn(1024, 256)).square().mean()
    loss.backward()
    optimizer.step()
    digest = hashlib.sha256()
    for tensor in [loss, *model.state_dict().values()]:
        digest.update(tensor.detach().numpy().tobytes())
    said.append(digest.hexdigest())
torch.distributed.destroy_process_group()
with open(f"{sys.argv[1]}.{rank}", "w") as file:
    file.write("\\n".join(said))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("torchrun")
    (folder / "train.py").write_text(TRAINS)
    return folder


@pytest.fixture
def torchrun(run, folder):
    def start(*command):
        done = run(BIN / "torchrun", "--standalone", "--no-python", "--nproc-per-node", "2", *command, cwd=folder, timeout=300)
        assert done.returncode == 0, done.stderr[-4000:]

    return start


def test_every_rank_keeps_its_budget_and_every_bit(torchrun, folder):
    torchrun(sys.executable, "train.py", "plain")
    torchrun(BIN / "spillway", "run", "--budget", str(BUDGET), "--device", "cpu", "--stats", "stats.json", "--trace", "trace.spt",
             "train.py", "budgeted")  # fmt: skip

    for rank in (0, 1):
        assert (folder / f"budgeted.{rank}").read_text() == (folder / f"plain.{rank}").read_text()
        stats = json.loads((folder / f"stats.rank{rank}.json").read_text())
        assert stats["violations"] == 0
        assert stats["peak_bytes"] <= stats["budget_bytes"] == BUDGET
        assert stats["plain_peak_bytes"] > BUDGET
        assert stats["moved_out_bytes"] + stats["recomputed_ops"] > 0
        assert stats["steps"] == 4
        assert (folder / f"trace.rank{rank}.spt").stat().st_size > 0
    assert (folder / "plain.0").read_text() != (folder / "plain.1").read_text(), "the ranks must have had data of their own"
    assert not (folder / "stats.json").exists()
