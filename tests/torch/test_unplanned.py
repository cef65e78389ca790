"""Without a word about policies steps are planned where they repeat; a run that offers none is held by reaction alone."""

import json
import pathlib

from harness import run_python

SCRIPT = pathlib.Path(__file__).with_name("unplanned.py")


def test_runs_with_nothing_to_plan_for_keep_the_budget_and_every_bit():
    done = run_python(SCRIPT)
    assert done.returncode == 0, done.stderr

    for name, run in json.loads(done.stdout).items():
        stats = run["stats"]
        assert run["digest"] == run["plain"], name
        assert stats["policy"] == "hybrid", name
        assert stats["violations"] == 0, name
        assert stats["peak_bytes"] <= stats["budget_bytes"], name
        assert stats["moved_out_bytes"] + stats["recomputed_ops"] > 0, name
