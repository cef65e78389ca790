"""Facts compared, elements found, digests that see every bit: the parts of `spillway verify` on their own."""

import gc
import json
import weakref

import pytest
import torch

from spillway import compare, digest, recorder
from spillway.seen import SeenModules
from spillway.unwritten import Unwritten


def line(kind="op", step=0, index=0, name="aten.mm.default", tensors=(("float32[2]", 1),)):
    return json.dumps([kind, step, index, name, [list(tensor) for tensor in tensors]]) + "\n"


def test_equal_records_have_no_difference():
    assert compare.find_difference([line(), line(index=1)], [line(), line(index=1)]) is None


def test_the_first_difference_names_step_op_and_tensor():
    left = [line(), line(step=2, index=7, tensors=[("float32[2]", 1), ("float32[3]", 5)]), line(index=8)]
    right = [line(), line(step=2, index=7, tensors=[("float32[2]", 1), ("float32[3]", 6)]), line(index=9)]
    difference = compare.find_difference(left, right)
    assert difference.number == 1 and difference.tensor() == 1
    assert difference.text() == "step 2, op 7 aten.mm.default, output 1 (float32[3])"


def test_a_record_that_ends_early_differs():
    difference = compare.find_difference([line(), line(index=1)], [line()])
    assert difference.text() == "one run has step 0, op 1 aten.mm.default, the other nothing more"


def test_runs_that_go_different_ways_are_told_as_such():
    difference = compare.find_difference([line(name="aten.add.Tensor")], [line(name="aten.mul.Tensor")])
    assert difference.tensor() is None
    assert difference.text() == "one run has step 0, op 0 aten.add.Tensor, the other step 0, op 0 aten.mul.Tensor"


@pytest.mark.parametrize("kind, says", [("gradient", "step 1, gradient Net.fc.weight, float32[2]"), ("loss", "step 1, the loss, float32[2]")])
def test_other_facts_are_named_as_what_they_are(kind, says):
    left, right = (line(kind, 1, name="Net.fc.weight", tensors=[("float32[2]", value)]) for value in (1, 2))
    assert compare.find_difference([left], [right]).text() == says


def test_outputs_that_differ_between_plain_runs_alone_are_noise():
    left = [line(tensors=[("float32[2]", 1)]), line("loss", name="backward")]
    right = [line(tensors=[("float32[2]", 2)]), line("loss", name="backward")]
    noise = compare.find_noise(left, right)
    assert noise == {"aten.mm.default"}
    assert compare.find_difference(left, right, noise) is None


def test_noise_that_reaches_a_loss_is_not_noise():
    left = [line(tensors=[("float32[2]", 1)]), line("loss", name="backward", tensors=[("float32[]", 3)])]
    right = [line(tensors=[("float32[2]", 2)]), line("loss", name="backward", tensors=[("float32[]", 4)])]
    assert compare.find_noise(left, right) is None


def test_an_ignored_op_of_another_shape_still_differs():
    left, right = [line(tensors=[("float32[2]", 1)])], [line(tensors=[("float32[3]", 1)])]
    assert compare.find_difference(left, right, frozenset(["aten.mm.default"])) is not None


def bytes_of(tensor):
    return digest.with_bytes(tensor, bytes)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.bool, torch.complex64])
def test_the_differing_element_is_found_with_both_values(dtype):
    good = torch.ones(3, 4, 5, dtype=dtype)
    bad = good.clone()
    bad[1, 2, 3] = 0
    bad[2, 0, 0] = 0
    element = compare.find_element(str(dtype).removeprefix("torch."), [3, 4, 5], bytes_of(bad), bytes_of(good))
    assert element.index == [1, 2, 3] and element.count == 2
    assert " instead of " in element.text() and element.text().endswith(", and 1 more")


def test_values_are_shown_with_their_bits():
    element = compare.find_element("bfloat16", [2], bytes_of(torch.tensor([1, 2]).bfloat16()), bytes_of(torch.tensor([1, 3]).bfloat16()))
    assert element.text() == "element [1]: 2.0 (0x40000000) instead of 3.0 (0x40400000)"


def test_a_scalar_has_an_element_too():
    element = compare.find_element("float32", [], bytes_of(torch.tensor(1.0)), bytes_of(torch.tensor(2.0)))
    assert element.index == []


@pytest.mark.parametrize("numel", [1, 2, 3, 4, 5, 8, 1023])
@pytest.mark.parametrize("function", [digest.digest, digest._digest_on_card])
def test_every_single_flipped_bit_changes_the_digest(numel, function):
    tensor = torch.arange(numel, dtype=torch.uint8)
    before = function(tensor)
    for bit in range(0, numel * 8, max(1, numel // 16)):
        recorder.flip_bit(tensor, bit)
        assert function(tensor) != before, bit
        recorder.flip_bit(tensor, bit)
    assert function(tensor) == before


def test_the_card_digest_sees_the_order_of_words():
    tensor = torch.randn(1000)
    assert digest._digest_on_card(tensor) != digest._digest_on_card(tensor.flip(0))


def test_only_reachable_elements_count():
    storage = torch.zeros(100)
    view = storage[10:20]
    before = digest.digest(view)
    storage[50] = 1
    assert digest.digest(view) == before
    storage[15] = 1
    assert digest.digest(view) != before


@pytest.mark.parametrize("place", [0, 1, 300_001, 599_999])
@pytest.mark.parametrize("show", [lambda t: t.view(3, 2, -1)[:, :, ::2].transpose(0, 2), lambda t: t.view(2, 1, -1).expand(2, 1000, -1)])
def test_what_has_gaps_or_repeats_is_seen_whole_and_never_copied_whole(show, place):
    tensor = torch.zeros(600_000)
    shown = show(tensor)
    before, copied = digest.digest(shown), []
    tensor[place] = 1
    assert (digest.digest(shown) != before) == bool(shown.ne(0).any())
    for piece in digest._pieces(shown):
        copied.append(0 if digest.is_dense(piece.shape, piece.stride()) else piece.numel() * 4)
    assert max(copied) <= 1 << 20


@pytest.mark.parametrize("make", [
    lambda t: t.t(), lambda t: t[:, ::2], lambda t: t[0].expand(5, 6), lambda t: t.to_sparse(), lambda t: t.as_strided((3, 3), (1, 1)),
    lambda t: torch.complex(t, t).conj(), lambda t: t.requires_grad_(), lambda t: t[:0],
])  # fmt: skip
def test_odd_tensors_have_digests_that_repeat(make):
    torch.manual_seed(1)
    first = make(torch.randn(4, 6))
    torch.manual_seed(1)
    assert digest.digest(first) == digest.digest(make(torch.randn(4, 6))) is not None


@pytest.mark.parametrize("shape, strides, dense", [
    ((2, 3), (3, 1), True), ((2, 3), (1, 2), True), ((2, 3), (4, 1), False), ((2, 3), (0, 1), False), ((1, 3), (99, 1), True), ((), (), True),
])  # fmt: skip
def test_density_is_read_from_strides(shape, strides, dense):
    assert digest.is_dense(shape, strides) is dense


def test_taking_a_digest_dispatches_nothing():
    class Refuse(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            raise AssertionError(f"dispatched {function}")

    tensor = torch.randn(5, 4).t().requires_grad_()
    with Refuse():
        digest.digest(tensor)


def test_modules_are_named_from_their_roots():
    seen = SeenModules()
    one, two = (torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2)) for _ in range(2))
    for module in (one[0], one, two, one):
        seen._called(module, ())
    assert [name for name, _ in seen.roots()] == ["Sequential", "Sequential#2"]
    assert seen.names()[id(two[0].weight)] == "Sequential#2.0.weight"
    assert "Sequential.1.running_mean" in dict(seen.buffers())
    del one, module
    assert [name for name, _ in seen.roots()] == ["Sequential"]


@pytest.mark.parametrize("op, kind, places, names", [
    ("view.default", "VIEWS", (), ()), ("split.Tensor", "VIEWS", (), ()), ("empty.memory_format", "UNWRITTEN", (), ()),
    ("_local_scalar_dense.default", "READS", (), ()), ("equal.default", "READS", (), ()), ("mm.default", "MAKES", (), ()),
    ("unbind.int", "VIEWS", (), ()), ("add_.Tensor", "MAKES", (0,), ("self",)), ("mm.out", "MAKES", (2,), ("out",)),
    ("_foreach_add_.List", "MAKES", (0,), ("self",)),
])  # fmt: skip
def test_an_ops_schema_tells_what_to_look_at(op, kind, places, names):
    packet, overload = op.split(".")
    traits = recorder._traits(getattr(getattr(torch.ops.aten, packet), overload))
    assert (traits.kind.name, traits.places, traits.names) == (kind, places, names)


def test_memory_is_unwritten_until_one_op_has_written_all_of_it():
    seen, fresh, other = Unwritten(), torch.empty(4, 3), torch.zeros(4)
    seen.add([fresh])
    assert fresh in seen and fresh.t()[1:] in seen and other not in seen
    seen.wrote([fresh[1:], other])
    assert fresh in seen
    seen.wrote([fresh.t()])
    assert fresh not in seen


def test_looking_at_an_op_keeps_nothing_alive(tmp_path):
    gc.disable()
    try:
        watcher = recorder.Recorder(recorder.Record(tmp_path / "facts"), with_ops=True)
        result = (torch.ones(2), [torch.ones(3)])
        references = [weakref.ref(result[0]), weakref.ref(result[1][0])]
        watcher.op(torch.ops.aten.mm.default, (), {}, result)
        del result
        assert [reference() for reference in references] == [None, None]
    finally:
        gc.enable()
