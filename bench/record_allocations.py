"""Allocation sequences for bench/pool_cuda: one line per event, `a <id> <bytes> <stream>` or `f <id>`.

What is alive before the step comes first. Ids and streams are dense numbers from zero. Two sources:

  record_allocations.py --from-trace traces/resnet50_b256.json.gz --out resnet50.seq     a recorded step
  record_allocations.py --model resnet50 --out resnet50.seq                              torch's own memory history of one
                                                                                         steady training step, on a card

bench/sequences holds three of the second kind, taken on an NVIDIA H200 (bf16 autocast; batch 64, 64 and 8 x 512).
"""

import argparse
import gzip
import json

OUTLIVED = 1_000_000_000  # the recorded steps' word for "still there at the end"


class Sequence:
    """Events in program order, with ids handed out as storages appear."""

    def __init__(self):
        self.lines = []
        self.ids = {}
        self.next_id = 0
        self.streams = {}

    def allocate(self, key, size, stream=0):
        if size == 0:
            return
        self.ids[key] = self.next_id
        self.next_id += 1
        number = self.streams.setdefault(stream, len(self.streams))
        self.lines.append(f"a {self.ids[key]} {size} {number}")

    def free(self, key):
        if key in self.ids:
            self.lines.append(f"f {self.ids.pop(key)}")

    def write(self, path):
        with open(path, "w", encoding="ascii") as out:
            out.write("\n".join(self.lines) + "\n")
        print(f"{path}: {len(self.lines)} events, {len(self.streams)} streams, {len(self.ids)} alive at the end")


def there_before(step):
    """Storages that some op read or wrote before any op returned them."""
    made, before = set(), set()
    for op in step["ops"]:
        before.update(s for s in op["i"] + op["m"] if s not in made)
        made.update(op["o"])
    return before


def from_trace(path):
    with gzip.open(path, "rt", encoding="utf-8") as file:
        step = json.load(file)
    before = there_before(step)
    births, deaths = {}, {}
    for index, storage in enumerate(step["sto"]):
        if storage["dev"] != "cuda":
            continue
        births.setdefault(-1 if index in before else storage["birth"], []).append(index)
        if storage["death"] < OUTLIVED:
            deaths.setdefault(storage["death"], []).append(index)
    sequence = Sequence()
    for op in range(-1, len(step["ops"]) + 1):
        for index in deaths.get(op, []):  # gone when the op began
            sequence.free(index)
        for index in births.get(op, []):
            sequence.allocate(index, step["sto"][index]["bytes"])
    return sequence


def make_resnet50():
    import torch
    import torchvision

    model = torchvision.models.resnet50().cuda().to(memory_format=torch.channels_last)
    images = torch.randn(64, 3, 224, 224, device="cuda").to(memory_format=torch.channels_last)
    labels = torch.randint(1000, (64,), device="cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    return optimizer, lambda: torch.nn.functional.cross_entropy(model(images), labels)


def make_vit_b():
    import torch
    import torchvision

    model = torchvision.models.vit_b_16().cuda()
    images = torch.randn(64, 3, 224, 224, device="cuda")
    labels = torch.randint(1000, (64,), device="cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    return optimizer, lambda: torch.nn.functional.cross_entropy(model(images), labels)


def make_gpt2():
    import torch
    import transformers

    model = transformers.GPT2LMHeadModel(transformers.GPT2Config()).cuda()
    tokens = torch.randint(50257, (8, 512), device="cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    return optimizer, lambda: model(input_ids=tokens, labels=tokens).loss


MODELS = {"resnet50": make_resnet50, "vit_b": make_vit_b, "gpt2": make_gpt2}


def live_blocks(snapshot):
    for segment in snapshot["segments"]:
        address = segment["address"]
        for block in segment["blocks"]:
            if block["state"] == "active_allocated":
                yield address, block.get("requested_size", block["size"]), segment["stream"]
            address += block["size"]


def from_model(name):
    import torch

    torch.manual_seed(0)
    optimizer, loss = MODELS[name]()

    def step():
        with torch.autocast("cuda", torch.bfloat16):
            value = loss()
        value.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    for _ in range(3):
        step()
    torch.cuda.synchronize()
    torch.cuda.memory._record_memory_history("all", context=None, max_entries=1_000_000)
    sequence = Sequence()
    for address, size, stream in live_blocks(torch.cuda.memory._snapshot()):
        sequence.allocate(address, size, stream)
    torch.cuda.reset_peak_memory_stats()
    step()
    torch.cuda.synchronize()
    print(f"{name}: peak allocated {torch.cuda.max_memory_allocated()}, reserved {torch.cuda.max_memory_reserved()}")
    for event in torch.cuda.memory._snapshot()["device_traces"][0]:
        if event["action"] == "alloc":
            sequence.allocate(event["addr"], event["size"], event["stream"])
        elif event["action"] == "free_requested":
            sequence.free(event["addr"])
    torch.cuda.memory._record_memory_history(None)
    return sequence


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--from-trace", metavar="FILE", help="a recorded step of traces/")
    source.add_argument("--model", choices=sorted(MODELS), help="train it on the card and record one step")
    parser.add_argument("--out", required=True)
    arguments = parser.parse_args()
    sequence = from_trace(arguments.from_trace) if arguments.from_trace else from_model(arguments.model)
    sequence.write(arguments.out)


if __name__ == "__main__":
    main()
