"""Where a step ends: the rule on its own, then on real training loops of torch, without the native library."""

import gc

import pytest
import torch

from spillway.steps import PATIENCE, StepCounter, StepWatcher


class Optimizer:
    """Anything a weak reference can point at."""


def test_each_step_of_the_only_optimizer_ends_a_step():
    counter, optimizer = StepCounter(), Optimizer()
    assert [counter.optimizer_stepped(optimizer) for _ in range(3)] == [True] * 3
    assert counter.steps == 3


def test_two_optimizers_are_one_step():
    counter, critic, generator = StepCounter(), Optimizer(), Optimizer()
    ends = [counter.optimizer_stepped(optimizer) for optimizer in (critic, generator) * 3]
    assert ends == [True, False] * 3


def test_gradient_accumulation_is_one_step():
    counter, optimizer = StepCounter(), Optimizer()
    counter.optimizer_made()
    for _ in range(3):
        assert not any(counter.backward_done() for _ in range(4))
        assert counter.optimizer_stepped(optimizer)
    assert counter.steps == 3


def test_without_an_optimizer_each_backward_ends_a_step():
    counter = StepCounter()
    assert [counter.backward_done() for _ in range(3)] == [True] * 3


def test_by_hand_overrides_from_then_on():
    counter, optimizer = StepCounter(), Optimizer()
    assert counter.by_hand()
    assert not counter.optimizer_stepped(optimizer)
    assert not counter.backward_done()
    assert counter.by_hand()
    assert counter.steps == 2


def test_the_first_step_by_hand_is_the_one_that_was_seen_before_it():
    counter, optimizer = StepCounter(), Optimizer()
    ends = [end for _ in range(6) for end in (counter.optimizer_stepped(optimizer), counter.by_hand())]
    assert ends == [True, False] + [False, True] * 5
    assert counter.steps == 6


def test_when_the_leading_optimizer_is_gone_the_next_one_leads():
    counter, first, second = StepCounter(), Optimizer(), Optimizer()
    counter.optimizer_stepped(first)
    assert not counter.optimizer_stepped(second)
    del first
    gc.collect()
    assert counter.optimizer_stepped(second)


def test_a_leader_that_stays_silent_loses_the_lead():
    counter, put_aside, used = StepCounter(), Optimizer(), Optimizer()
    counter.optimizer_stepped(put_aside)
    ends = [counter.optimizer_stepped(used) for _ in range(PATIENCE + 2)]
    assert ends == [False] * PATIENCE + [True, True]


@pytest.fixture
def watched():
    """A started watcher with the list of events it reported."""
    events = []
    watcher = StepWatcher(lambda: events.append("step"), lambda is_optimizer: events.append("opt" if is_optimizer else "auto"))
    watcher.start()
    yield watcher, events
    watcher.stop()


def make_model():
    return torch.nn.Linear(3, 2)


def loss_of(model):
    return model(torch.ones(4, 3)).sum()


def test_a_training_loop_reports_phase_and_step(watched):
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        loss_of(model).backward()
        optimizer.step()
    assert watched[1] == ["opt", "auto", "step"] * 2


def test_an_optimizer_made_before_the_start_is_known():
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    events = []
    watcher = StepWatcher(lambda: events.append("step"))
    watcher.start()
    loss_of(model).backward()
    loss_of(model).backward()
    optimizer.step()
    watcher.stop()
    assert events == ["step"]


def test_a_loop_without_optimizer_steps_at_each_backward(watched):
    gc.collect()
    watcher, events = watched
    watcher.counter._optimizers_exist = False  # optimizers of other tests may still be alive
    model = make_model()
    loss_of(model).backward()
    torch.autograd.grad(loss_of(model), list(model.parameters()))
    assert events == ["step", "step"]


def test_a_gradient_that_goes_into_a_loss_ends_nothing(watched):
    watcher, events = watched
    watcher.counter._optimizers_exist = False
    point = torch.ones(3, requires_grad=True)
    (gradient,) = torch.autograd.grad((point**3).sum(), point, create_graph=True)
    gradient.sum().backward()
    assert events == ["step"]


def test_a_backward_inside_a_backward_is_not_a_step_of_its_own(watched):
    watcher, events = watched
    watcher.counter._optimizers_exist = False
    model = make_model()
    inputs = torch.ones(4, 3, requires_grad=True)
    torch.utils.checkpoint.checkpoint(model, inputs, use_reentrant=True).sum().backward()
    assert events == ["step"]


def test_evaluation_counts_for_nothing(watched):
    model = make_model()
    with torch.no_grad():
        loss_of(model)
    assert watched[1] == []


def test_a_step_that_raises_does_not_leave_its_phase_behind(watched):
    class Broken(torch.optim.SGD):
        def step(self, closure=None):
            raise RuntimeError("no")

    model = make_model()
    optimizer = Broken(model.parameters(), lr=0.1)
    with pytest.raises(RuntimeError, match="no"):
        optimizer.step()
    loss_of(model).backward()
    assert watched[1] == ["opt", "auto"]


def test_after_stop_torch_is_as_it_was():
    import torch.autograd as autograd
    from torch.optim import optimizer as module

    before = (autograd._engine_run_backward, module.Optimizer.__init__, dict(module._global_optimizer_pre_hooks))
    watcher = StepWatcher(lambda: None)
    watcher.start()
    assert autograd._engine_run_backward is not before[0]
    watcher.stop()
    assert (autograd._engine_run_backward, module.Optimizer.__init__, dict(module._global_optimizer_pre_hooks)) == before
