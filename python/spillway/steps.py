"""Where one training step ends and the next begins, seen from outside an unmodified script.

A step ends when the leading optimizer (the first one seen stepping) has stepped: gradient accumulation is one step,
a GAN's two optimizers are one step. A job without optimizers ends a step at each backward. `by_hand` overrides both from
then on; the first time it only confirms the end that was seen before it, if one was. `StepCounter` decides and touches nothing; `StepWatcher` listens to torch and acts on its answers.
"""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

# A leader that stays silent while another optimizer steps this often has been put aside (pretraining is over, a new
# optimizer took its place). Well above the critic-to-generator ratios of published GANs (5, early WGAN 100).
PATIENCE = 128


class StepCounter:
    """Each method says whether a step ends at this event."""

    def __init__(self) -> None:
        self.steps = 0
        self._optimizers_exist = False
        self._by_hand = False
        self._leader: Callable[[], object | None] = lambda: None
        self._since_leader = 0

    def optimizer_made(self) -> None:
        """From here on a backward is part of a step, not the end of one."""
        self._optimizers_exist = True

    def optimizer_stepped(self, optimizer: object) -> bool:
        self._optimizers_exist = True
        leader = self._leader()
        self._since_leader += 1
        if leader is None or self._since_leader > PATIENCE:
            self._leader = weakref.ref(optimizer)
            leader = optimizer
        if leader is not optimizer:
            return False
        self._since_leader = 0
        return self._ends(not self._by_hand)

    def backward_done(self) -> bool:
        return self._ends(not (self._optimizers_exist or self._by_hand))

    def by_hand(self) -> bool:
        confirms = not self._by_hand and self.steps > 0
        self._by_hand = True
        return self._ends(not confirms)

    def _ends(self, it_does: bool) -> bool:
        self.steps += it_does
        return it_does


class StepWatcher:
    """Reports step ends and optimizer phases of whatever trains in this process, between start() and stop().

    `on_step()` is called after the event that ended a step, `on_phase(is_optimizer)` on the thread that steps,
    `on_optimizer(optimizer, has_stepped)` around its step.
    """

    def __init__(
        self,
        on_step: Callable[[], None],
        on_phase: Callable[[bool], None] = lambda is_optimizer: None,
        on_optimizer: Callable[[object, bool], None] = lambda optimizer, has_stepped: None,
    ) -> None:
        self.counter = StepCounter()
        self._on_step = on_step
        self._on_phase = on_phase
        self._on_optimizer = on_optimizer
        self._local = threading.local()
        self._undo: list[Callable[[], None]] = []

    def start(self) -> None:
        from torch.optim import optimizer as module

        if any(issubclass(type(thing), module.Optimizer) for thing in gc.get_objects()):
            self.counter.optimizer_made()
        self._undo = [
            module.register_optimizer_step_pre_hook(self._before_optimizer).remove,
            module.register_optimizer_step_post_hook(self._after_optimizer).remove,
            self._watch_constructor(module.Optimizer),
            *self._watch_backward(),
        ]

    def stop(self) -> None:
        while self._undo:
            self._undo.pop()()

    def by_hand(self) -> None:
        if self.counter.by_hand():
            self._on_step()

    def _before_optimizer(self, optimizer: object, args: Any, kwargs: Any) -> None:
        self._on_optimizer(optimizer, False)
        self._set_phase(True)

    def _after_optimizer(self, optimizer: object, args: Any, kwargs: Any) -> None:
        self._set_phase(False)
        self._on_optimizer(optimizer, True)
        if self.counter.optimizer_stepped(optimizer):
            self._on_step()

    def _set_phase(self, is_optimizer: bool) -> None:
        if getattr(self._local, "is_optimizer", False) != is_optimizer:
            self._local.is_optimizer = is_optimizer
            self._on_phase(is_optimizer)

    def _watch_constructor(self, optimizer_class: type) -> Callable[[], None]:
        original = optimizer_class.__init__
        counter = self.counter

        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            counter.optimizer_made()
            original(self, *args, **kwargs)

        return replace(optimizer_class, "__init__", __init__)

    def _watch_backward(self) -> list[Callable[[], None]]:
        # torch.autograd.backward, Tensor.backward and torch.autograd.grad all run the engine through this one name.
        import torch.autograd as autograd

        original = autograd._engine_run_backward

        def run_backward(*args: Any, **kwargs: Any) -> Any:
            # A step that raised left its phase behind; a closure (LBFGS) runs backward inside the optimizer's step.
            self._set_phase(False)
            depth = self._local.__dict__.setdefault("depth", 0)
            self._local.depth = depth + 1  # reentrant checkpointing runs a backward inside a backward
            try:
                result = original(*args, **kwargs)
            finally:
                self._local.depth = depth
            # With create_graph the result goes on into a loss (gradient penalty): not the end of anything.
            if depth == 0 and not _creates_graph(args, kwargs) and self.counter.backward_done():
                self._on_step()
            return result

        return [replace(autograd, "_engine_run_backward", run_backward)]


def _creates_graph(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    # (tensors, grad_tensors, retain_graph, create_graph, inputs, ...): both callers pass them in this order.
    return bool(kwargs.get("create_graph", args[3] if len(args) > 3 else False))


def replace(owner: Any, name: str, value: Any) -> Callable[[], None]:
    """Sets an attribute and gives back the function that puts things as they were, inherited attributes included."""
    missing = object()
    before = vars(owner).get(name, missing)
    setattr(owner, name, value)

    def undo() -> None:
        if before is missing:
            delattr(owner, name)
        else:
            setattr(owner, name, before)

    return undo
