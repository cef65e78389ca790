"""A compiled graph is one op: what it reads, makes and keeps is there at once, and between its calls what it saved can leave."""

import json
import subprocess
import sys

import pytest
from harness import HERE, environment


@pytest.mark.long  # half a minute of compiling
@pytest.mark.parametrize("policy", ["dtr", "lru"])
def test_a_compiled_net_trains_near_the_floor_it_was_told_with_the_same_bits(policy):
    command = [sys.executable, str(HERE / "compiled_net.py"), policy]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout.splitlines()[-1])

    watched = found["watched"]["stats"]
    assert watched["floor_bytes"] * 11 // 10 < watched["plain_peak_bytes"] * 2 // 3
    assert found["watched"]["answers"] == found["plain"]
    for budgeted in found["budgeted"]:
        stats = budgeted["stats"]
        assert budgeted["answers"] == found["plain"], stats
        assert stats["violations"] == 0 and stats["peak_bytes"] <= stats["budget_bytes"]
        assert stats["moved_out_bytes"] > 0
