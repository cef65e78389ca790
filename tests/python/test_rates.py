"""How fast a card is: measured once per machine, remembered, and measured anew where the memory of it is no good."""

import inspect
import json
import re

import pytest

from spillway import rates

FAST = {"bytes_per_nano": 3500.0, "half_flops_per_nano": 550e3, "single_flops_per_nano": 45e3,
        "out_bytes_per_nano": 55.0, "in_bytes_per_nano": 55.0, "out_price": 2e-4, "in_price": 6e-4}  # fmt: skip
BEFORE = {name: FAST[name] for name in rates.NAMES[:3]}  # as kept by a version that knew nothing of the link
SLOW = {name: rate / 10 for name, rate in FAST.items()}


def never():
    raise AssertionError("measured although it is known")


def test_measuring_draws_nothing():
    """What a program draws after it must be what it draws without it; a card's generator cannot be asked here, so the words are."""
    source = inspect.getsource(rates)
    assert not re.search(r"torch\.(rand|randn|randint|randperm|normal|bernoulli|empty\(.*\)\.(uniform|normal)_)\b", source)


def test_a_machine_is_measured_once(tmp_path):
    assert rates.find_rates(str(tmp_path), "a card", lambda: FAST) == FAST
    assert rates.find_rates(str(tmp_path), "a card", never) == FAST
    assert rates.find_rates(str(tmp_path), "another", lambda: SLOW) == SLOW
    assert rates.find_rates(str(tmp_path), "a card", never) == FAST
    assert [file.name for file in tmp_path.iterdir()] == [rates.FILE]


@pytest.mark.parametrize("text", ["", "{", "[1]", json.dumps({"a card": {}}), json.dumps({"a card": BEFORE}), json.dumps({"a card": FAST | {"bytes_per_nano": 0.0}}),
                                  json.dumps({"a card": FAST | {"bytes_per_nano": "fast"}})])  # fmt: skip
def test_a_damaged_file_is_measured_anew(tmp_path, text):
    (tmp_path / rates.FILE).write_text(text)
    assert rates.find_rates(str(tmp_path), "a card", lambda: SLOW) == SLOW
    assert rates.find_rates(str(tmp_path), "a card", never) == SLOW


def test_a_folder_that_cannot_be_written_does_no_harm():
    assert rates.find_rates("/dev/null/no", "a card", lambda: FAST) == FAST


def test_a_card_too_full_to_be_measured_has_no_rates_and_is_asked_again(tmp_path):
    def full():
        raise RuntimeError("out of memory")

    assert rates.find_rates(str(tmp_path), "a card", full) is None
    assert rates.find_rates(str(tmp_path), "a card", lambda: FAST) == FAST
