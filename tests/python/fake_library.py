"""A stand-in for the native library: remembers every call, answers made-up statistics, moves nothing.

As a program, `python fake_library.py run ...` is the `spillway` command on top of it.
"""

import ctypes
import json
import os
import subprocess
import sys
import tempfile
import traceback


class FakeLibrary:
    """What spillway.native.Library offers, as far as Python can tell."""

    def __init__(self):
        self.calls = []
        self.statistics = {
            "budget_bytes": None, "peak_bytes": 3 * 2**20, "peak_live_bytes": 2 * 2**20, "floor_bytes": 2**20,
            "steps": 0, "ops": 7, "moved_out_bytes": 0, "moved_in_bytes": 0, "recomputed_ops": 0, "recompute_seconds": 0.0,
            "stall_seconds": {"fetch": 0.0, "room": 0.0, "host_room": 0.0, "file": 0.0}, "violations": 0,
            "device": "cpu", "policy": "lru", "torch": "2.11.0",
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


def serve():
    """Answers requests (one JSON line each) by a forked child that goes on as the program; importing torch takes seconds.

    The child returns from here, so it ends as any interpreter does. The parent answers with its exit code.
    """
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class Pass(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            return function(*args, **(kwargs or {}))

    with Pass():  # the first op in a mode imports hundreds of modules
        torch.ones(1)
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            become(request)
            return
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    sys.exit(0)


def become(request):
    for target, name in enumerate(("/dev/null", request["stdout"], request["stderr"])):
        os.dup2(os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600), target)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.argv[1:] = request["arguments"]


def record_in_fork(arguments, environment, output):
    """spillway.verify.record_in_child without the seconds a new interpreter needs to import torch."""
    from spillway import recorder

    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
        if "MALLOC_PERTURB_" in environment:  # read by the C library when a process starts; M_PERTURB is -6
            ctypes.CDLL(None).mallopt(-6, int(environment["MALLOC_PERTURB_"]))
        os._exit(_code_of(lambda: recorder.main(arguments)))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _code_of(program):
    code = 0
    try:
        program()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        print(end.code if isinstance(end.code, str) else "", file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    return code


class Server:
    """The spillway command on the stand-in, started once for many tests."""

    def __init__(self):
        self._process = subprocess.Popen([sys.executable, __file__, "--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, arguments, cwd, env=None):
        with tempfile.TemporaryDirectory() as folder:
            out, err = f"{folder}/out", f"{folder}/err"
            request = {"arguments": list(map(str, arguments)), "cwd": str(cwd), "env": dict(env or os.environ), "stdout": out, "stderr": err}
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            code = int(self._process.stdout.readline())
            return subprocess.CompletedProcess(arguments, code, open(out).read(), open(err).read())

    def stop(self):
        self._process.stdin.close()
        self._process.wait()


if __name__ == "__main__":
    from spillway import cli, native

    if sys.argv[1:] == ["--serve"]:
        serve()
        from spillway import verify

        verify.record_in_child = record_in_fork
    library = FakeLibrary()
    native.load = lambda: library
    sys.argv[0] = "spillway"
    sys.exit(cli.main())
