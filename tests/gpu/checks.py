"""What the checks on a card share: a small model and its training, and the running of checks in processes of their own.

    x_test.py              every check of the file, each in a process of its own; exit code 1 if one fails
    x_test.py NAME ...     these checks, one after the other, in this process

They need a card and the staged package on the path; they say so and end with 0 where there is no card.
"""

import hashlib
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
# A run must not depend on those before it: where nothing can be kept, nothing is.
os.environ["SPILLWAY_CACHE_DIR"] = "/dev/null/steps"

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

MIB = 1 << 20
AT_ONCE = 6
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


def run_apart(name):
    begin = time.time()
    command = [sys.executable, "-u", "-X", "faulthandler", sys.argv[0], name]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=100)
    except subprocess.TimeoutExpired as late:
        return name, 1, time.time() - begin, f"no end after {late.timeout} s\n{(late.output or b'').decode()}"
    return name, done.returncode, time.time() - begin, done.stdout


def report(result):
    name, code, seconds, said = result
    print("ok  " if code == 0 else "FAIL", f"{name} ({seconds:.0f} s)")
    print(said[-3000:] if code else said, end="", flush=True)
    return code == 0


def main(names):
    if not torch.cuda.is_available():
        print("skipped: no card")
        return 0
    if names:
        for name in names:
            CHECKS[name]()
        return 0
    with ThreadPoolExecutor(AT_ONCE) as pool:
        fine = [report(result) for result in pool.map(run_apart, CHECKS)]
    print(f"{sum(fine)} of {len(fine)} checks passed")
    return 0 if all(fine) else 1
