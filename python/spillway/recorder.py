"""What a training script computed, written down as it happens: the child process of `spillway verify`.

A record is a text file with one fact per line, in the order of events: the checksum of every op's outputs (views by the elements
they show), of what is read by an op without any (item(), tolist(), equal()), losses (what backward was called on), gradients before and parameters after each optimizer step, buffers and random state at step ends. Two
runs are equal when their files are; the first line that differs is the first difference. The script is not
changed: optimizers and modules are found through torch's global hooks, ops by a dispatch mode, which sits above the engine
and never sees its moves and replays.

    python -m spillway.recorder --out FILE [--engine JSON] [--steps-only] [--dump N:FILE] [-m] script.py ...
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import enum
import functools
import json
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from spillway import api, flags, script
from spillway.alloc_conf import AllocatorWarning
from spillway.digest import describe, digest, has_bytes, with_bytes
from spillway.native import WRITES
from spillway.seen import SeenModules
from spillway.steps import StepWatcher, replace
from spillway.unwritten import Unwritten

# Their results, or the new part of them, are whatever lay in memory.
_UNWRITTEN = {"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided", "resize_",
              "resize_as_", "set_", "_cudnn_init_dropout_state"}  # fmt: skip


class Record:
    """The file of facts. A fact is [kind, step, index, name, [[description, digest], ...]]."""

    def __init__(self, path: str, dump: tuple[int, str] | None = None) -> None:
        self._file = open(path, "w", buffering=1 << 20)
        self._process = os.getpid()
        self._dump = dump
        self._facts = 0
        self.step = 0
        self.op = 0

    def fact(self, kind: str, index: int, name: str, tensors: Sequence[Any], digests: Sequence[Any] | None = None) -> None:
        if os.getpid() != self._process:  # a forked worker has facts of its own, which nobody asked for
            return
        digests = [digest(tensor) for tensor in tensors] if digests is None else digests
        described = [[describe(tensor), value] for tensor, value in zip(tensors, digests)]
        self._file.write(json.dumps([kind, self.step, index, name, described]) + "\n")
        self._facts += 1
        if self._dump is not None and self._facts == self._dump[0] + 1:
            self._file.flush()
            dump(self._dump[1], tensors)
            os._exit(0)  # the answer is found; what the script would do next has been seen already

    def end_step(self) -> None:
        self.step += 1
        self.op = 0
        self._file.flush()

    def close(self) -> None:
        if os.getpid() == self._process:
            self._file.close()


def dump(path: str, tensors: Sequence[Any]) -> None:
    """The bytes of a fact's tensors, and the line of the script that led there."""
    parts = [
        with_bytes(tensor.detach().cpu().contiguous(), bytes) if has_bytes(tensor) and tensor.numel() else b"" for tensor in tensors
    ]
    names = [[str(tensor.dtype).removeprefix("torch."), list(tensor.shape)] for tensor in tensors]
    with open(path, "wb") as file:
        head = {"tensors": names, "sizes": [len(part) for part in parts], "line": _line_of_the_script()}
        file.write(json.dumps(head).encode() + b"\n" + b"".join(parts))


def _line_of_the_script() -> str | None:
    own = (os.path.dirname(__file__), os.path.dirname(sys.modules["torch"].__file__ or ""))
    for frame in reversed(traceback.extract_stack()):
        if not frame.filename.startswith((*own, "<")) and os.path.exists(frame.filename):
            return f"{frame.filename}:{frame.lineno}"
    return None


class Recorder:
    """Listens to one process. start() before the script, finish() after it."""

    def __init__(self, record: Record, with_ops: bool, flip: tuple[int, int, int] | None = None) -> None:
        self._record = record
        self._with_ops = with_ops
        self._flip = flip
        self._modules = SeenModules()
        self._watcher = StepWatcher(self._step_ended)
        self._optimizers: dict[int, int] = {}  # id -> in order of appearance
        self._unwritten = Unwritten()
        self._stack = contextlib.ExitStack()

    def start(self) -> None:
        import torch
        import torch.autograd as autograd
        from torch.optim import optimizer as module

        self._modules.start()
        # Before the watcher's, so that an optimizer's facts are told before the step they end.
        module.register_optimizer_step_pre_hook(self._before_optimizer)
        module.register_optimizer_step_post_hook(self._after_optimizer)
        self._watcher.start()
        replace(autograd, "_engine_run_backward", self._told_of_losses(autograd._engine_run_backward))
        if self._with_ops or self._flip is not None:
            self._stack.enter_context(_make_mode(self))
            self._stack.callback(replace(torch.Tensor, "tolist", self._told_of_reads(torch.Tensor.tolist)))

    def finish(self, raised: BaseException | None) -> None:
        self._stack.close()
        self._model_facts()
        if raised is not None and not isinstance(raised, SystemExit):
            self._record.fact("raised", 0, f"{type(raised).__name__}: {raised}", [])
        self._record.fact("end", 0, "", [])
        self._record.close()

    # --- facts ---

    def _told_of_losses(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def run_backward(roots: Any, *args: Any, **kwargs: Any) -> Any:
            with _unrecorded():
                import torch

                self._record.fact("loss", 0, "backward", [root for root in roots if isinstance(root, torch.Tensor)])
            return original(roots, *args, **kwargs)

        return run_backward

    def _before_optimizer(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        with _unrecorded():
            for name, parameter in self._parameters(optimizer):
                if parameter.grad is not None:
                    self._record.fact("gradient", 0, name, [parameter.grad])

    def _after_optimizer(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        import torch

        with _unrecorded():
            for name, parameter in self._parameters(optimizer):
                self._record.fact("parameter", 0, name, [parameter])
                for key, value in optimizer.state.get(parameter, {}).items():
                    if isinstance(value, torch.Tensor):
                        self._record.fact("optimizer state", 0, f"{key} of {name}", [value])

    def _parameters(self, optimizer: Any) -> Iterator[tuple[str, Any]]:
        names = self._modules.names()
        number = self._optimizers.setdefault(id(optimizer), len(self._optimizers))
        for group_number, group in enumerate(optimizer.param_groups):
            for place, parameter in enumerate(group["params"]):
                unnamed = f"parameter {place} of group {group_number} of optimizer {number}"
                yield names.get(id(parameter), unnamed), parameter

    def _step_ended(self) -> None:
        with _unrecorded():
            if not self._optimizers:
                self._model_facts()
            for name, buffer in self._modules.buffers():
                self._record.fact("buffer", 0, name, [buffer])
            self._random_facts()
            self._record.end_step()

    def _model_facts(self) -> None:
        for name, parameter in self._modules.parameters():
            if parameter.grad is not None:
                self._record.fact("gradient", 0, name, [parameter.grad])
            self._record.fact("parameter", 0, name, [parameter])

    def _random_facts(self) -> None:
        import torch

        self._record.fact("random state", 0, "cpu", [torch.get_rng_state()])
        if torch.cuda.is_initialized():
            for index in range(torch.cuda.device_count()):
                self._record.fact("random state", 0, f"cuda:{index}", [torch.cuda.get_rng_state(index)])

    def _told_of_reads(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """tolist() on the CPU is no op."""

        def tolist(tensor: Any) -> Any:
            self._flip_before(_Kind.READS, [tensor])
            result = original(tensor)
            with _unrecorded():
                self._read(self._next_op(), "torch.Tensor.tolist", [tensor])
            return result

        return tolist

    def before(self, function: Any, args: Any) -> None:
        if self._flip is not None:
            self._flip_before(_traits(function).kind, _tensors_of(args))

    def _flip_before(self, kind: _Kind, tensors: Sequence[Any]) -> None:
        # What makes nothing of its own can only be given wrong bytes.
        if kind in (_Kind.READS, _Kind.VIEWS) and self._is_flipped(self._record.op) and tensors:
            flip_bit(tensors[0], self._flip[2])

    def _is_flipped(self, index: int) -> bool:
        return self._flip is not None and self._flip[:2] == (self._record.step, index)

    def _next_op(self) -> int:
        self._record.op += 1
        return self._record.op - 1

    def op(self, function: Any, args: Any, kwargs: Any, result: Any) -> None:
        """One op has run. Profiler marks are no ops."""
        if function.namespace == "profiler":
            return
        traits, index = _traits(function), self._next_op()
        written = _tensors_of([[args[place] for place in traits.places if place < len(args)],
                               [kwargs[name] for name in traits.names if name in kwargs]])  # fmt: skip
        tensors = _tensors_of([result, written])
        if traits.kind is _Kind.UNWRITTEN:
            self._unwritten.add(tensors)
        elif traits.kind is _Kind.READS:
            self._read(index, str(function), _tensors_of([args, list(kwargs.values())]))
        else:
            self._unwritten.wrote(written)
            if traits.kind is _Kind.MAKES and self._is_flipped(index) and tensors:
                flip_bit(tensors[0], self._flip[2])
            if self._with_ops:
                digests = self._digests(tensors) if traits.kind is _Kind.VIEWS else None
                self._record.fact("op", index, str(function), tensors, digests)

    def _read(self, index: int, name: str, tensors: Sequence[Any]) -> None:
        if self._with_ops:
            self._record.fact("read", index, name, tensors, self._digests(tensors))

    def _digests(self, tensors: Sequence[Any]) -> list[int | None]:
        return [None if tensor in self._unwritten else digest(tensor) for tensor in tensors]


def flip_bit(tensor: Any, bit: int) -> None:
    """For the test that shows a single wrong bit is found."""
    import torch

    if tensor.device.type == "cpu":
        def flip(raw: Any) -> None:
            raw[bit // 8] ^= 1 << bit % 8

        with_bytes(tensor, flip, WRITES)
    else:
        tensor.detach().view(-1).view(torch.uint8)[bit // 8].bitwise_xor_(1 << bit % 8)


class _Kind(enum.Enum):
    MAKES = "gives tensors of its own, or writes"
    VIEWS = "gives other tensors on the memory of its arguments"
    READS = "gives no tensor"
    UNWRITTEN = "gives memory nobody has written"


@dataclasses.dataclass(frozen=True)
class _Traits:
    kind: _Kind
    places: tuple[int, ...] = ()  # of the arguments it writes
    names: tuple[str, ...] = ()


@functools.cache
def _traits(function: Any) -> _Traits:
    schema = getattr(function, "_schema", None)
    if schema is None:
        return _Traits(_Kind.MAKES)
    written = [argument.alias_info is not None and argument.alias_info.is_write for argument in schema.arguments]
    places = tuple(place for place, is_written in enumerate(written) if is_written)
    return _Traits(_kind(schema, bool(places)), places, tuple(schema.arguments[place].name for place in places))


def _kind(schema: Any, writes: bool) -> _Kind:
    if schema.name.partition("::")[2] in _UNWRITTEN:
        return _Kind.UNWRITTEN
    if writes:
        return _Kind.MAKES
    if not any("Tensor" in str(result.type) for result in schema.returns):
        return _Kind.READS
    return _Kind.VIEWS if any(result.alias_info is not None for result in schema.returns) else _Kind.MAKES


def _tensors_of(things: Any) -> list[Any]:
    """The tensors inside nested lists and tuples, each once: in-place ops return what they wrote.

    No reference may outlive the call, not even in a cycle: torch looks at counts, and copies what somebody else holds.
    """
    return list({id(tensor): tensor for tensor in _walk(things)}.values())


def _walk(thing: Any) -> Iterator[Any]:
    import torch

    if isinstance(thing, torch.Tensor):
        yield thing
    elif isinstance(thing, list | tuple):
        for inner in thing:
            yield from _walk(inner)


@contextlib.contextmanager
def _unrecorded() -> Iterator[None]:
    """Facts are gathered without the mode seeing the gathering."""
    import torch
    from torch.utils._python_dispatch import _disable_current_modes

    with _disable_current_modes(), torch.no_grad():
        yield


def _make_mode(recorder: Recorder) -> Any:
    from torch.utils._python_dispatch import TorchDispatchMode

    class OpsMode(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            recorder.before(function, args)
            result = function(*args, **(kwargs or {}))
            recorder.op(function, args, kwargs or {}, result)
            return result

    return OpsMode()


def read_flip(text: str | None) -> tuple[int, int, int] | None:
    """`step:op:bit`, all counted from 0."""
    if not text:
        return None
    step, op, bit = map(int, text.split(":"))
    return step, op, bit


def _enable(words: dict[str, Any]) -> None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AllocatorWarning)  # verify has said it
            api.enable(**words)
    except (ValueError, RuntimeError) as error:
        raise SystemExit(str(error)) from None


def main(arguments: Sequence[str]) -> None:
    parser = flags.Parser(prog="spillway.recorder")
    parser.add_argument("--out", required=True)
    parser.add_argument("--engine")
    parser.add_argument("--start-only", action="store_true")  # whoever refuses to begin does it here
    parser.add_argument("--stats")
    parser.add_argument("--steps-only", action="store_true")
    parser.add_argument("--dump")
    parser.add_argument("-m", dest="module", nargs=argparse.REMAINDER)
    parser.add_argument("script", nargs=argparse.REMAINDER)
    given = parser.parse_args(arguments)
    program = script.load(given.module or given.script, given.module is not None)
    if given.engine is not None:
        _enable(json.loads(given.engine))
    if given.start_only:
        return
    fact, _, file = (given.dump or "").partition(":")
    record = Record(given.out, (int(fact), file) if given.dump else None)
    flip = read_flip(os.environ.get("SPILLWAY_TEST_FLIP")) if api.is_enabled() else None
    recorder = Recorder(record, not given.steps_only, flip)
    recorder.start()
    raised: BaseException | None = None
    try:
        program.run()
    except BaseException as error:
        raised = error
        raise
    finally:
        recorder.finish(raised)
        if given.stats is not None and api.is_enabled():
            with open(given.stats, "w") as stats:
                json.dump(api.stats(), stats)


if __name__ == "__main__":
    main(sys.argv[1:])
