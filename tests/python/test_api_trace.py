"""Several traces of one process: each can be read for itself, whatever lives when it begins."""

import json

import pytest

from spillway import native

pytestmark = pytest.mark.skipif(not native.LIBRARY.exists(), reason=f"{native.LIBRARY} is not built")

TRAINS = """
import torch, spillway

def train():
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(512, 256)).relu().square().mean().backward()
        optimizer.step()
        spillway.step()

spillway.enable("6MiB", device="cpu", cache=False{first})
model = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(4)])
optimizer = torch.optim.Adam(model.parameters())
train()
kept = model(torch.randn(16, 256))
spillway.disable()
other = torch.ones(1 << 16)
spillway.enable("6MiB", device="cpu", cache=False, trace="second.spt")
kept.sum().backward()
del kept, other
train()
spillway.disable()
"""


@pytest.fixture(scope="module", params=[', trace="first.spt"', ""], ids=["after another", "after a run without"])
def folder(request, real_server, tmp_path_factory):
    folder = tmp_path_factory.mktemp("traces")
    done = real_server.execute(TRAINS.replace("{first}", request.param), folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def tool(real_server, folder):
    def run(*arguments):
        done = real_server.run(arguments, folder)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_every_trace_of_a_process_can_be_read(folder, tool):
    for trace in sorted(file.name for file in folder.glob("*.spt")):
        tool("export", trace, "-o", "out.jsonl")
        tool("import", "out.jsonl", "-o", "again.spt")
        (folder / "again.spt").unlink()
        assert "floor" in tool("plan", trace)
        tool("report", trace, "-o", "page.html")


def test_ops_of_the_second_name_the_parameters_that_were_there(folder, tool):
    tool("export", "second.spt", "-o", "out.jsonl")
    events = [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()[1:]]
    begins = next(i for i, event in enumerate(events) if event["event"] == "step_begin")
    weights = {event["storage"] for event in events[:begins] if event["event"] == "birth" and event["size"] == 256 * 256 * 4}
    reads = {storage for event in events if event["event"] == "op" for storage in event["inputs"]}
    parameters = {event["storage"] for event in events if event["event"] == "role" and event["kind"] == "parameter"}
    assert len(weights & reads & parameters) == 4
