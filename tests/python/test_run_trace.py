"""`spillway run --trace`: copies have their times, storages their roles, ops the reason why they are not replayed."""

import json
from collections import Counter

import pytest

from spillway import native

pytestmark = pytest.mark.skipif(not native.LIBRARY.exists(), reason=f"{native.LIBRARY} is not built")

TRAINS = """
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(6)])
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    optimizer.zero_grad()
    model(torch.randn(256, 512)).relu_().square().mean().backward()
    optimizer.step()
"""


@pytest.fixture(scope="module")
def events(real_server, tmp_path_factory):
    """The events of a run in a tight budget, checked by importing them again."""
    folder = tmp_path_factory.mktemp("trace")
    (folder / "train.py").write_text(TRAINS)
    flags = ["--device", "cpu", "--budget", "8MiB", "--host-limit", "64MiB", "--stats", "out.json", "--quiet"]
    for arguments in (["run", *flags, "--trace", "out.spt", "train.py"], ["export", "out.spt", "-o", "out.jsonl"],
                      ["import", "out.jsonl", "-o", "again.spt"]):  # fmt: skip
        done = real_server.run(arguments, folder)
        assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()[1:]]
    return {"stats": json.loads((folder / "out.json").read_text()), "all": lines}


def of_kind(events, kind):
    return [event for event in events["all"] if event["event"] == kind]


def test_every_copy_has_its_time_and_nothing_else_does(events):
    moves = of_kind(events, "move")
    copies = [move for move in moves if not move["clean"] and move["to"] != "nowhere"]

    assert len(copies) > 20
    assert all((move in copies) == (move["duration"] > 0) for move in moves)
    end = max(event["at"] for event in of_kind(events, "step_end"))
    assert all(0 < move["start"] < move["start"] + move["duration"] <= end for move in copies)
    for way in ("from", "to"):  # one stream each way: no two copies at once, up to the clock's own grain
        ordered = [move for move in copies if move[way] == "device"]
        assert all(a["start"] + a["duration"] <= b["start"] + 1000 for a, b in zip(ordered, ordered[1:]))


def test_storages_have_their_roles(events):
    kinds = {event["storage"]: event["kind"] for event in of_kind(events, "birth")}
    kinds |= {event["storage"]: event["kind"] for event in of_kind(events, "role")}
    sizes = {event["storage"]: event["size"] for event in of_kind(events, "birth")}
    large = Counter(kind for storage, kind in kinds.items() if sizes[storage] >= 512 * 512 * 4)

    assert large["parameter"] == 6
    assert large["gradient"] == 6 * 3  # freed and made again by zero_grad
    assert large["optimizer_state"] == 6 * 2
    assert Counter(kinds.values())["parameter"] == 12
    inputs = [storage for storage, kind in kinds.items() if kind == "input" and sizes[storage] == 256 * 512 * 4]
    assert len(inputs) == 3
    assert large["activation"] + large["workspace"] > 0 and large["unknown"] == 0


def test_an_op_is_replayable_or_says_why_not(events):
    ops = of_kind(events, "op")

    assert all(op["replayable"] == (op["why_not"] is None) for op in ops)
    reasons = {op["name"]: op["why_not"] for op in ops}
    assert reasons["aten::addmm"] is None
    assert reasons["aten::addcdiv_"] == "it writes a storage whose making is not known"


def test_stalls_in_the_trace_add_up_to_the_statistics(events):
    seconds = Counter()
    for stall in of_kind(events, "stall"):
        seconds[stall["cause"]] += stall["duration"] * 1e-9

    for cause, total in events["stats"]["stall_seconds"].items():
        assert seconds[cause] == pytest.approx(total, rel=0.05, abs=1e-3), cause
    assert seconds["fetch"] > 0 and seconds["room"] > 0 and seconds["host_room"] > 0


def test_the_floor_names_its_op(events):
    floor, op = events["stats"]["floor_bytes"], events["stats"]["floor_op"]

    assert op["name"].startswith("aten::")
    parts = [op[f"{part}_bytes"] for part in ("input", "output", "transient", "cannot_leave")]
    assert sum(parts) == floor and min(parts) >= 0
    assert op["input_bytes"] > 0
