"""Batches from workers that were spawned, not forked: they start anew, and their parent is equal, bit for bit."""

import pathlib
import subprocess
import sys

SPILLWAY = pathlib.Path(sys.executable).with_name("spillway")

TRAINS = """
import torch
from torch import nn

class Rows(torch.utils.data.Dataset):
    def __init__(self):
        self.rows = torch.arange(64 * 4096, dtype=torch.float32).sin().view(64, 4096)

    def __len__(self):
        return 64

    def __getitem__(self, index):
        return self.rows[index] * 2, index % 10

def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(4096, 256), nn.ReLU(), nn.Linear(256, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    # The timeout is a guard against deadlock.
    loader = torch.utils.data.DataLoader(Rows(), 32, num_workers=1, multiprocessing_context="spawn", timeout=300)
    for rows, labels in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(rows), labels)
        loss.backward()
        optimizer.step()
        print(loss.item().hex())
    print(*(parameter.double().sum().item().hex() for parameter in model.parameters()))

if __name__ == "__main__":
    main()
"""


def test_spawned_workers_feed_a_net_in_less_than_its_memory(tmp_path):
    (tmp_path / "train.py").write_text(TRAINS)

    def run(*command: object) -> str:
        done = subprocess.run([*command, "train.py"], cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert run(SPILLWAY, "run", "--quiet", "--device", "cpu", "--budget", "13MiB") == run(sys.executable)
