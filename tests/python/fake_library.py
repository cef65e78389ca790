"""A stand-in for the native library: remembers every call, answers made-up statistics, moves nothing."""


class FakeLibrary:
    """What spillway.native.Library offers, as far as Python can tell."""

    def __init__(self):
        self.calls = []
        self.statistics = {
            "budget_bytes": None, "peak_bytes": 3 * 2**20, "peak_live_bytes": 2 * 2**20, "floor_bytes": 2**20,
            "steps": 0, "ops": 7, "moved_out_bytes": 0, "moved_in_bytes": 0, "recomputed_ops": 0, "recompute_seconds": 0.0,
            "stall_seconds": {"fetch": 0.0, "room": 0.0, "host_room": 0.0, "file": 0.0}, "violations": 0,
            "device": "cpu", "policy": "dtr", "torch": "2.11.0",
        }  # fmt: skip
        self.fails = {}  # name of a call -> the exception it raises

    def enable(self, options):
        if options["policy"] == "no-such-policy":
            raise ValueError("unknown policy 'no-such-policy': choose lru or dtr")
        self._called("enable", options)
        self.statistics.update(budget_bytes=options["budget_bytes"], device=options["device"], policy=options["policy"])

    def step(self):
        self._called("step")
        self.statistics["steps"] += 1

    def set_budget(self, amount):
        self._called("set_budget", amount)
        self.statistics["budget_bytes"] = amount

    def lend(self, address):
        self._called("lend", address)
        return len(self.named("lend"))

    def cpu_allocator(self):
        self._called("cpu_allocator")

    def stats(self):
        return dict(self.statistics)

    def __getattr__(self, name):
        return lambda *arguments: self._called(name, *arguments)

    def _called(self, name, *arguments):
        if name in self.fails:
            raise self.fails[name]
        self.calls.append((name, *arguments))

    def named(self, name):
        """The arguments of every call of one name."""
        return [call[1:] for call in self.calls if call[0] == name]
