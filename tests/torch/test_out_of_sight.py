"""Where tensors leave the dispatcher's sight: with everything evicted, each way of reading still reads the plain bytes,
and each stops doing so when the hook it rests on is taken away."""

import functools
import json
import signal
import subprocess
import sys
from dataclasses import dataclass

import pytest
from harness import HERE, environment
from out_of_sight import BUDGET, CASES

# Small storages leave too, and memory that was left is overwritten at once.
OPTIONS = {"budget": BUDGET, "device": "cpu", "min_evict": 1, "poison": True}

HOOKS_WITHOUT_A_CASE = {
    "triton": "needs a card",
    "cuda_graphs": "needs a card",
    "fork": "the engine's own fork handlers do the work; the hook only tells the library",
    "faulthandler": "puts the report before Python's own: test_faults.py has its cases",
    "dynamo": "keeps the compiler from tracing the hooks: a matter of time, not of bytes",
}


@dataclass(frozen=True)
class Done:
    code: int  # below zero: the signal that ended it
    said: str

    @property
    def answer(self) -> str | None:
        lines = [line for line in self.said.splitlines() if line.startswith("answer ")]
        return lines[-1] if self.code == 0 and lines else None


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Runs one case in a process of its own."""
    folder = tmp_path_factory.mktemp("out_of_sight")
    variables = environment() | {"OUT_OF_SIGHT_BUILD": str(folder)}  # extensions are compiled once for all
    command = [sys.executable, str(HERE / "out_of_sight.py"), "--serve"]
    server = subprocess.Popen(command, env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run_case(name: str, *arguments: str) -> Done:
        said = folder / "said"
        server.stdin.write(json.dumps([[name, *arguments], str(said)]) + "\n")
        server.stdin.flush()
        return Done(int(server.stdout.readline()), said.read_text(errors="replace"))

    yield run_case
    server.stdin.close()
    server.wait()


@pytest.fixture(scope="module")
def plain(run):
    """The answer of a case without the engine."""

    @functools.cache
    def answer(name: str) -> str:
        done = run(name)
        assert done.answer, done.said[-4000:]
        return done.answer

    return answer


@pytest.fixture(scope="module")
def budgeted(run):
    """A case under the engine, all hooks in."""
    return functools.cache(lambda name, policy: run(name, json.dumps(OPTIONS | {"policy": policy})))


def long_where(is_long: bool):
    return [pytest.mark.long] if is_long else []


def budgeted_cases():
    for name, case in CASES.items():
        for policy in ("lru", "dtr"):
            yield pytest.param(name, policy, marks=long_where(case.compiles))


@pytest.mark.parametrize("name, policy", list(budgeted_cases()))
def test_what_left_is_there_when_it_is_reached_unseen(budgeted, plain, name, policy):
    done = budgeted(name, policy)

    assert done.answer == plain(name), done.said[-4000:]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=long_where(case.compiles)) for name, case in CASES.items() if case.hooks]
)
def test_without_its_hook_the_access_fails(run, budgeted, plain, name):
    assert budgeted(name, "lru").answer == plain(name), "fails even with its hook"

    done = run(name, json.dumps(OPTIONS | {"policy": "lru"}), "--without", *CASES[name].hooks)

    assert done.answer != plain(name), f"{name} does not need {CASES[name].hooks}"
    if done.code == -signal.SIGSEGV:
        assert "spillway: memory at 0x" in done.said and "made by " in done.said, done.said[-4000:]


def test_every_hook_has_a_case_or_a_reason():
    from spillway import hooks

    tested = {hook for case in CASES.values() for hook in case.hooks}
    assert set(hooks.TABLE) == tested | set(HOOKS_WITHOUT_A_CASE)
