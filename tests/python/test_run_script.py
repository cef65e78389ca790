"""`spillway run` around scripts of every temper, on a stand-in for the native library.

Whatever a script does (exit codes, exceptions, signals, pickling, arguments) must look as it does under plain Python: most
tests run it both ways and compare.
"""

import itertools
import json
import os
import pty
import signal
import subprocess
import sys
import time

import pytest

import fork_server
from spillway import run

FAKE = fork_server.__file__


@pytest.fixture
def script(tmp_path):
    """Writes a script and returns its path."""

    def write(text, name="train.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return write


@pytest.fixture
def spillway(fake_server, tmp_path):
    """Runs the spillway command in a folder of its own."""
    return lambda *arguments, env=None: fake_server.run(arguments, tmp_path, env)


def plainly(tmp_path, *arguments):
    return subprocess.run([sys.executable, *map(str, arguments)], capture_output=True, text=True, cwd=tmp_path)


def test_the_script_is_main_with_its_own_arguments_and_path(spillway, script, tmp_path):
    path = script(
        "import sys, json, pickle\nimport neighbour\n"
        "class Config:\n    lr = 1\n"
        "assert type(pickle.loads(pickle.dumps(Config()))) is Config\n"
        "print(json.dumps([__name__, __file__, sys.argv, sys.path[0], __spec__ is None, __package__, neighbour.x]))\n")
    script("x = 5\n", "neighbour.py")
    arguments = [path, "--lr", "3", "--budget", "theirs", "-m", "x"]
    ours = spillway("run", "--quiet", *arguments)
    assert ours.stderr == ""
    assert json.loads(ours.stdout) == json.loads(plainly(tmp_path, *arguments).stdout)


def test_a_module_is_main_with_its_own_arguments_and_path(spillway, script, tmp_path):
    script("")
    script("import sys\nfrom . import __name__ as package\nprint(__name__, __spec__.name, package, sys.argv, sys.path[0])\n", "pkg/tool.py")
    script("", "pkg/__init__.py")
    ours = spillway("run", "--quiet", "-m", "pkg.tool", "a", "--b")
    assert ours.stdout == plainly(tmp_path, "-m", "pkg.tool", "a", "--b").stdout != ""


@pytest.mark.parametrize("arguments", [["-m", "tool", "a", "--", "z", "-m"], ["tool.py", "a", "--", "z", "--budget", "3"]])
def test_dashes_among_the_programs_arguments_are_its_own(spillway, script, tmp_path, arguments):
    script("import sys\nprint(sys.argv[1:])\n", "tool.py")
    assert spillway("run", "--quiet", *arguments).stdout == plainly(tmp_path, *arguments).stdout != ""


def test_dashes_before_the_script_end_our_flags(spillway, script):
    script("import sys\nprint(sys.argv[1:])\n", "tool.py")
    assert spillway("run", "--quiet", "--", "tool.py", "a").stdout == "['a']\n"


def test_a_folder_with_a_main_is_a_script(spillway, script, tmp_path):
    script("import helper, sys\nprint(__name__, helper.x, sys.argv)\n", "app/__main__.py")
    script("x = 3\n", "app/helper.py")
    ours = spillway("run", "--quiet", "app", "1")
    assert ours.stdout == plainly(tmp_path, "app", "1").stdout != ""


@pytest.mark.parametrize("text", [
    "import sys; sys.exit(7)", "import sys; sys.exit()", "import sys; sys.exit('stopped')", "raise SystemExit(None)", "pass",
    "import atexit; atexit.register(print, 'last'); print('first')", "import os; os._exit(9)",
    "import threading; threading.Thread(target=lambda: (__import__('time').sleep(0.2), print('late'))).start()",
])  # fmt: skip
def test_ends_as_without_us(spillway, script, tmp_path, text):
    path = script(text)
    ours, plain = spillway("run", "--quiet", path), plainly(tmp_path, path)
    assert (ours.returncode, ours.stdout, ours.stderr) == (plain.returncode, plain.stdout, plain.stderr)


FAILING = {
    "an exception": "def f():\n    return 1 / 0\nf()\n",
    "a chained one": "try:\n    {}['a']\nexcept KeyError as e:\n    raise ValueError('b') from e\n",
    "one in backward": "import torch\n"
                       "class F(torch.autograd.Function):\n"
                       "    @staticmethod\n    def forward(ctx, x):\n        return x.clone()\n"
                       "    @staticmethod\n    def backward(ctx, g):\n        raise RuntimeError('backward')\n"
                       "F.apply(torch.ones(1, requires_grad=True)).backward()\n",
    "one in a thread": "import threading\ndef f():\n    raise ValueError('thread')\nt = threading.Thread(target=f, name='t')\nt.start()\n",
    "a hook of its own": "import sys\nsys.excepthook = lambda t, v, tb: print('mine', t, v, len(__import__('traceback').extract_tb(tb)))\nint('x')\n",
    "a syntax error": "def f(:\n",
    "a null byte": None,
    "an interrupt": "raise KeyboardInterrupt\n",
}  # fmt: skip


@pytest.mark.parametrize("kind", [kind for kind in FAILING if FAILING[kind]])
def test_tracebacks_and_exit_codes_are_the_scripts(spillway, script, tmp_path, kind):
    path = script(FAILING[kind])
    ours, plain = spillway("run", "--quiet", path), plainly(tmp_path, path)
    assert plain.stderr or plain.stdout
    assert (ours.returncode, ours.stdout, ours.stderr) == (plain.returncode, plain.stdout, plain.stderr)


WAITS = "import time, sys\nprint('on', flush=True)\ntime.sleep(60)\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_signal_ends_it_as_without_us_and_statistics_are_there(script, tmp_path, number):
    stats = tmp_path / "out.json"
    process = subprocess.Popen([sys.executable, FAKE, "fake", "run", "--stats", stats, script(WAITS)],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))  # a job in the background ignores it
    assert process.stdout.readline() == "on\n"
    while not stats.exists():
        time.sleep(0.01)
    process.send_signal(number)
    assert process.wait() == -number
    assert json.loads(stats.read_text())["finished"] is False


def test_statistics_of_a_run_that_is_killed_early_are_no_older_than_it_was():
    waits = list(itertools.islice(run.refresh_waits(), 20))
    ages = [0, *itertools.accumulate(waits)]
    assert all(wait <= max(age, 0.05) for wait, age in zip(waits, ages)) and max(waits) == waits[-1] == 1.0


def test_the_scripts_own_handler_for_sigterm_works(script, tmp_path):
    path = script("import signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *a: sys.exit(5))\n" + WAITS)
    process = subprocess.Popen([sys.executable, FAKE, "fake", "run", "--quiet", path], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "on\n"
    process.terminate()
    assert process.wait() == 5


TRAINS = """
import torch
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    model(torch.ones(5, 4)).sum().backward()
    optimizer.step()
"""


def test_the_table_comes_last_and_tells_the_run(spillway, script):
    done = spillway("run", "--budget", "8MiB", script(TRAINS + "raise RuntimeError('after training')\n"))
    assert done.returncode == 1
    traceback, table = done.stderr.split("spillway on cpu\n")
    assert "after training" in traceback
    rows = {line.split("  ")[1]: line.split("  ", 2)[2].strip() for line in table.splitlines()}
    assert rows["budget"] == "8.00 MiB" and rows["peak"] == "3.00 MiB" and rows["steps"] == "3"
    assert {"moved", "recomputed", "stalls", "plain peak"} <= rows.keys()


def test_without_a_budget_the_table_tells_what_was_watched(spillway, script):
    done = spillway("run", script(TRAINS))
    assert "only watching" in done.stderr and "floor" in done.stderr and "1.00 MiB" in done.stderr


ELSEWHERE = {
    "a fork": "import multiprocessing\ndef train():\n    exec(TRAINS)\nchild = multiprocessing.get_context('fork').Process(target=train)\n"
              "child.start()\nchild.join()\n",
    "another program": "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'print(3)'], check=True)\n",
    "nowhere": "import torch\ntorch.ones(3)\n",
}  # fmt: skip


@pytest.mark.parametrize("where", ELSEWHERE)
def test_where_no_step_was_seen_the_table_says_so_and_who_is_not_seen(spillway, script, where):
    trains = script(f"TRAINS = {TRAINS!r}\n" + ELSEWHERE[where])
    for flags, elsewhere in ((["--budget", "8MiB"], "outside this budget"), ([], "not watched")):
        done = spillway("run", *flags, trains)
        assert done.returncode == 0, done.stderr
        assert f" 0 (none was seen in this process; child processes are {elsewhere})\n" in done.stderr


def test_quiet_prints_nothing(spillway, script):
    assert spillway("run", "--quiet", "--budget", "8MiB", script(TRAINS)).stderr == ""


@pytest.mark.parametrize("end, finished", [
    ("", True), ("import sys; sys.exit(3)\n", True), ("raise ValueError\n", False), ("raise KeyboardInterrupt\n", False),
])  # fmt: skip
def test_statistics_are_written_however_the_script_ends(spillway, script, tmp_path, end, finished):
    spillway("run", "--budget", "8MiB", "--stats", "out.json", script(TRAINS + end))
    stats = json.loads((tmp_path / "out.json").read_text())
    assert stats["budget_bytes"] == 8 * 2**20 and stats["steps"] == 3 and stats["finished"] is finished
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_script_that_disables_keeps_its_statistics(spillway, script, tmp_path):
    done = spillway("run", "--stats", "out.json", script(TRAINS + "import spillway\nspillway.disable()\n"))
    assert done.returncode == 0
    assert json.loads((tmp_path / "out.json").read_text())["steps"] == 3


def test_each_rank_writes_its_own_file(spillway, script, tmp_path):
    for rank in "01":
        spillway("run", "--quiet", "--stats", "out.json", script(TRAINS), env={**os.environ, "RANK": rank, "LOCAL_RANK": rank})
    assert sorted(path.name for path in tmp_path.glob("*.json")) == ["out.rank0.json", "out.rank1.json"]


def test_a_forked_child_that_ends_by_itself_reports_nothing(spillway, script):
    done = spillway("run", script("import os\npid = os.fork()\nif pid:\n    os.waitpid(pid, 0)\n"))
    assert done.stderr.count("spillway on") == 1


def test_a_live_line_on_a_terminal_only(script):
    leader, follower = pty.openpty()
    process = subprocess.Popen([sys.executable, FAKE, "fake", "run", "--budget", "1GiB", script("import time; time.sleep(0.5)")], stderr=follower)
    process.wait()
    os.close(follower)
    shown = os.read(leader, 100000).decode()
    assert "spillway: step 0, peak 3.00 MiB of 1.00 GiB" in shown
    assert shown.rstrip().endswith("0.00 s")


def refused(done):
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("spillway run: ")
    return done.stderr


BAD = {
    "--budget 8gigs train.py": "cannot read budget '8gigs'",
    "--budget 0 train.py": "less than one byte",
    "--budget train.py": "no script given",
    "--budget 1G missing.py": "cannot open the script missing.py: No such file",
    "--budget 1G -m no_such_module": "No module named no_such_module",
    "--budget 1G": "no script given",
    "--budget 1G -m": "no script given",
    "--budget 1G --policy no-such-policy train.py": "unknown policy 'no-such-policy'",
    "--budget 1G --device tpu train.py": "unknown device 'tpu': write auto, cpu, cuda or cuda:N",
    "--budget 1G --device cuda:x train.py": "unknown device 'cuda:x'",
    "--budget 1G --workspace big train.py": "plain",
    "--budget 1G --no-such-flag train.py": "--no-such-flag",
    "--budget 1G --host-limit lots train.py": "cannot read host limit 'lots'",
    "--budget 1G --spill-dir missing train.py": "does not exist",
    "--budget 1G --spill-dir /dev/shm train.py": "memory",
    "--budget 1G --spill-dir train.py train.py": "is not a directory",
    "--budget 1G --spill-dir /proc train.py": "the spill directory /proc cannot be written",
    "--budget 1G --stats missing/out.json train.py": "cannot write missing/out.json: No such file",
    "--budget 1G --stats . train.py": "cannot write .",
    "--budget 1G --trace missing/out.spt train.py": "cannot write missing/out.spt",
}  # fmt: skip


@pytest.mark.parametrize("flags", BAD)
def test_bad_input_is_one_sentence_and_exit_code_two(spillway, script, flags):
    script("print('must not start')\n")
    assert BAD[flags] in refused(spillway("run", *flags.split()))


def test_a_null_byte_in_the_script_is_bad_input(spillway, script):
    assert "null bytes" in spillway("run", script("x = 1\0\n")).stderr


def test_help_names_every_flag(spillway):
    done = spillway("run", "--help")
    assert done.returncode == 0
    for flag in "budget device policy host-limit spill-dir workspace trace stats quiet".split():
        assert f"--{flag}" in done.stdout


def test_a_page_that_cannot_be_drawn_is_told_and_changes_nothing_else(spillway, script, tmp_path):
    done = spillway("run", "--report", "page.html", script("print('mine')\nraise SystemExit(7)\n"))
    assert (done.returncode, done.stdout) == (7, "mine\n")
    assert f"spillway: no page was drawn: spillway: {tmp_path / 'page.spt'}: " in done.stderr
    assert not (tmp_path / "page.html").exists()


def test_a_page_in_a_folder_that_is_not_there_is_refused_before_anything_runs(spillway, script):
    done = spillway("run", "--report", "no/such/page.html", script("print('mine')\n"))
    assert (done.returncode, done.stdout) == (2, "")
    assert "cannot write no/such/page.html" in done.stderr
