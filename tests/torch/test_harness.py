"""The measuring tools themselves: what they must see, on cases small enough to know the answer."""

import copy
import math

import pytest
import torch
from floor_oracle import measure
from harness import RunFailed, run, run_plain
from record import digest, first_difference, raw
from zoo import PROGRAMS

KiB = 1024


@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if i % 9 == 0 else pytest.mark.long) for i, n in enumerate(PROGRAMS)])
def test_a_program_repeats_every_bit_in_another_process(name):
    plain = run_plain(name)
    assert first_difference(plain, run_plain(name, again=1)) is None
    assert all(a["tensors"] != b["tensors"] for a, b in zip(plain["steps"], plain["steps"][1:])), "a step changed nothing"


def test_a_run_that_fails_says_what_it_said():
    with pytest.raises(RunFailed, match="invalid choice"):
        run("no_such_program")


def test_a_digest_sees_the_sign_of_zero_the_payload_of_nan_and_the_last_bit():
    one = torch.tensor([0.0, math.nan, 1.0])
    for index, bits in ((0, 1 << 31), (1, 1), (2, 1)):
        other = one.clone()
        other.view(torch.int32)[index] ^= torch.tensor(bits - (1 << 32) if bits == 1 << 31 else bits, dtype=torch.int32)
        assert digest(other) != digest(one)
    assert digest(one.clone()) == digest(one)


def test_a_digest_covers_all_of_a_large_tensor_and_any_layout():
    large = torch.zeros(3, 1 << 18)
    changed = large.clone()
    changed[2, -1] = 1
    assert digest(changed) != digest(large)

    strided = torch.arange(24.0).view(2, 3, 4)
    assert raw(strided[:, :, ::2]) == raw(strided[:, :, ::2].contiguous())
    assert digest(strided.transpose(0, 2)) != digest(strided)


def record_of(value: float) -> dict:
    step = {"losses": {"loss": "00"}, "tensors": {"parameter a": "11", "parameter b": digest(torch.tensor(value))}, "random": "22"}
    return {"steps": [copy.deepcopy(step), step]}


def test_the_first_difference_is_named_by_step_and_tensor():
    one, other = record_of(1.0), record_of(1.0)
    assert first_difference(one, other) is None

    other["steps"][1]["tensors"]["parameter b"] = digest(torch.tensor(1.0 + 2**-23))
    assert first_difference(one, other) == "step 1: parameter b differs"

    del other["steps"][1]["tensors"]["parameter b"]
    assert first_difference(one, other) == "step 1: parameter b is in one run only"

    other["steps"][0]["random"] = "23"
    assert first_difference(one, other) == "step 0: random state differs"


def test_the_oracle_counts_inputs_and_outputs_of_the_neediest_op():
    a, b = torch.ones(64 * KiB), torch.ones(64 * KiB)  # 256 KiB each

    def work():
        c = a + b  # 256 + 256 + 256 KiB
        c.mul_(2)  # 256 KiB: in place
        a + a  # 256 + 256 KiB: one storage, given twice

    found = measure(work)

    assert found.floor_bytes == 768 * KiB
    assert found.op == "aten.add.Tensor"


def test_the_oracle_counts_what_an_op_allocates_and_frees_inside():
    a = torch.rand(64 * KiB)

    found = measure(lambda: torch.sort(a))  # values 256 KiB, indices 512 KiB; and what sorting itself needs

    assert found.floor_bytes >= (256 + 256 + 512) * KiB


def test_the_oracle_takes_a_list_op_one_element_at_a_time():
    ones, twos = ([torch.ones(64 * KiB) for _ in range(5)] for _ in range(2))

    found = measure(lambda: torch._foreach_add_(ones, twos))
    assert found.floor_bytes == 512 * KiB

    found = measure(lambda: torch._foreach_add(ones, twos))
    assert found.floor_bytes == 768 * KiB


def test_the_oracle_counts_the_most_that_lived():
    def work():
        first = torch.ones(64 * KiB)
        second = first + 1
        del first
        return second + 1

    assert measure(work).peak_live_bytes == pytest.approx(512 * KiB, abs=KiB)  # the numbers added are tensors too
