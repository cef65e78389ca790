"""The `spillway` command in forks of one process that has torch loaded already: importing torch takes seconds.

`Server("fake")` puts the stand-in in the place of the native library, `Server("real")` uses the library itself. As a program,
`python fork_server.py fake run ...` is the command without forking.
"""

import ctypes
import gc
import json
import os
import subprocess
import sys
import tempfile
import traceback


class Server:
    def __init__(self, library):
        command = [sys.executable, __file__, library, "--serve"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, arguments, cwd, env=None):
        """The command with these arguments, finished."""
        return self._ask({"arguments": list(map(str, arguments))}, cwd, env)

    def execute(self, code, cwd, env=None):
        """A piece of Python instead of the command, finished."""
        return self._ask({"code": code}, cwd, env)

    def _ask(self, request, cwd, env):
        with tempfile.TemporaryDirectory() as folder:
            out, err = f"{folder}/out", f"{folder}/err"
            request = {**request, "cwd": str(cwd), "env": dict(env or os.environ), "stdout": out, "stderr": err}
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            code = int(self._process.stdout.readline())
            return subprocess.CompletedProcess(request.get("arguments", "code"), code, open(out).read(), open(err).read())

    def stop(self):
        self._process.stdin.close()
        self._process.wait()


def serve():
    """Answers requests (one JSON line each) by a forked child that goes on as the program; importing torch takes seconds.

    The child returns from here, so it ends as any interpreter does. The parent answers with its exit code.
    """
    import torch
    import torch._dynamo  # every optimizer imports it when it is made
    from torch.utils._python_dispatch import TorchDispatchMode

    class Pass(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            return function(*args, **(kwargs or {}))

    with Pass():  # the first op in a mode imports hundreds of modules
        torch.ones(1)
    gc.freeze()  # a child whose collector looks at all that was imported copies the pages it lies in
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            become(request)
            return request.get("code")
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    sys.exit(0)


def become(request):
    for target, name in enumerate(("/dev/null", request["stdout"], request["stderr"])):
        os.dup2(os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600), target)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.argv[1:] = request.get("arguments", [])


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


def main(library):
    from spillway import cli, native, verify

    if library == "fake":
        fake = FakeLibrary()
        native.load = lambda: fake
    else:
        native.load()
    code = None
    if sys.argv[1:] == ["--serve"]:
        code = serve()
        verify.record_in_child = record_in_fork
    sys.argv[0] = "spillway"
    if code is None:
        sys.exit(cli.main())
    exec(compile(code, "code", "exec"), {"__name__": "__main__"})


if __name__ == "__main__":
    from fake_library import FakeLibrary

    main(sys.argv.pop(1))
