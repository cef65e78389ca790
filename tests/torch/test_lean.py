"""Lean rebuilds on the CPU: every rule gives the operator's own bits, and none is used where it would not."""

import json
import pathlib

import pytest
from harness import run_python

SCRIPT = pathlib.Path(__file__).with_name("lean.py")


def prove(rule: str, dtype: str) -> dict:
    done = run_python(SCRIPT, rule, "cpu", dtype)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
def test_dropout_is_made_again_from_its_mask(dtype):
    told = prove("dropout", dtype)
    assert told["differ"] == []
    assert told["lean"] == told["cases"] > 0


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
def test_max_pooling_is_made_again_from_its_indices(dtype):
    told = prove("max_pool", dtype)
    assert told["differ"] == []
    wide = dtype in ("float32", "float64")  # a NaN of the others does not come out as it went in
    assert told["lean"] == (told["cases"] if wide else 0)


@pytest.mark.parametrize(("rule", "dtype"), [("batch_norm", "float32"), ("norm_chain", "float32"), ("layer_norm", "float32"), ("cast_norm", "bfloat16")])
def test_norms_have_no_rule_on_the_cpu(rule, dtype):
    told = prove(rule, dtype)
    assert told["differ"] == []
    assert told["lean"] == 0 < told["ops"]


def test_a_sum_with_a_dropout_goes_op_by_op_on_the_cpu():
    told = prove("dropout_sum", "float32")
    assert told["differ"] == []
    assert told["ops"] == 2 * told["cases"] > 0


TRAINS = """
import torch, spillway, hashlib, sys
from torch import nn
budget, mode, made = sys.argv[1] != "0", int(sys.argv[2]), []
torch.set_num_threads(1)
if budget:
    spillway.enable(sys.argv[1], device="cpu", policy="dtr")
    from spillway import native
    native.load().lean(mode)
torch.manual_seed(0)
class Dropout(nn.Module):  # torch's own takes the operator with a mask on a card only
    def forward(self, x):
        made.append(torch.native_dropout(x, 0.2, True)[0])
        return made[-1]
layers = []
for _ in range(4):
    layers += [nn.Conv2d(16 if layers else 3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), Dropout()]
model = nn.Sequential(*layers, nn.MaxPool2d(2), nn.Conv2d(16, 16, 3), Dropout())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
found = hashlib.sha256()
for step in range(8):
    optimizer.zero_grad()
    loss = model(torch.randn(8, 3, 32, 32)).square().mean()
    if budget:
        for tensor in made:
            native.load().drop(tensor._cdata)
    made.clear()
    loss.backward()
    optimizer.step()
    found.update(loss.detach().reshape(1).view(torch.uint8).numpy().tobytes())
for tensor in [*model.parameters(), *model.buffers(), torch.get_rng_state()]:
    found.update(tensor.detach().reshape(-1).view(torch.uint8).numpy().tobytes())
print(found.hexdigest(), spillway.stats()["lean_rebuilds"] if budget else 0, spillway.stats()["recomputed_ops"] if budget else 0)
"""


@pytest.fixture(scope="module")
def train(tmp_path_factory):
    script = tmp_path_factory.mktemp("lean") / "trains.py"
    script.write_text(TRAINS)

    def run(budget: str, mode: int = 1) -> tuple[str, int, int]:
        done = run_python(script, budget, mode)
        assert done.returncode == 0, done.stderr
        digest, lean, replayed = done.stdout.split()
        return digest, int(lean), int(replayed)

    return run


@pytest.fixture(scope="module")
def plain(train):
    return train("0")[0]


def test_a_network_whose_dropouts_are_dropped_rebuilds_them_leanly_and_keeps_every_bit(train, plain):
    digest, lean, replayed = train("64MiB")
    assert digest == plain
    assert 0 < lean <= replayed


def test_without_lean_rebuilds_the_operators_are_run(train, plain):
    digest, lean, replayed = train("64MiB", mode=0)
    assert digest == plain
    assert lean == 0 < replayed
