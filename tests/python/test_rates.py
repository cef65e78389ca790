"""How fast a card is: measured once per machine, remembered, and measured anew where the memory of it is no good."""

import inspect
import json
import re

import pytest
import torch

import spillway
from fake_library import FakeLibrary
from spillway import api, native, rates

FAST = {"bytes_per_nano": 3500.0, "half_flops_per_nano": 550e3, "single_flops_per_nano": 45e3,
        "out_bytes_per_nano": 55.0, "in_bytes_per_nano": 55.0, "out_price": 2e-4, "in_price": 6e-4}  # fmt: skip
BEFORE = {name: FAST[name] for name in rates.NAMES[:3]}  # as kept by a version that knew nothing of the link
SLOW = {name: rate / 10 for name, rate in FAST.items()}


@pytest.fixture(autouse=True)
def nothing_measured_yet(monkeypatch):
    monkeypatch.setattr(rates, "_measured_here", {})


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


def test_where_nothing_is_kept_a_process_measures_once():
    assert rates.find_rates(None, "a card", lambda: FAST) == FAST
    assert rates.find_rates(None, "a card", never) == FAST
    assert rates.find_rates(None, "another", lambda: SLOW) == SLOW


def test_a_folder_that_cannot_be_written_does_no_harm_and_a_process_measures_once():
    assert rates.find_rates("/dev/null/no", "a card", lambda: FAST) == FAST
    assert rates.find_rates("/dev/null/no", "a card", never) == FAST


def test_a_card_too_full_to_be_measured_has_no_rates_and_is_asked_again(tmp_path):
    def full():
        raise RuntimeError("out of memory")

    assert rates.find_rates(str(tmp_path), "a card", full) is None
    assert rates.find_rates(str(tmp_path), "a card", lambda: FAST) == FAST


@pytest.fixture
def on_a_card(monkeypatch):
    """enable() on a card that is not there, and how often it was measured."""
    library, measured = FakeLibrary(), []
    monkeypatch.setattr(native, "load", lambda: library)
    monkeypatch.setattr(api, "_last_stats", None)
    monkeypatch.setattr(api.card, "budget_terms", lambda: lambda: None)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: "a card")
    monkeypatch.setattr(rates, "_measured_here", {})
    monkeypatch.setattr(rates, "measure_card", lambda device: measured.append(device) or FAST)

    def enable(budget="1GiB", **words):
        spillway.enable(budget, device="cuda", **words)
        spillway.disable()
        return library.named("enable")[-1][0].get("rates"), measured

    return enable


def test_with_a_folder_the_second_process_measures_nothing(on_a_card, monkeypatch, tmp_path):
    assert on_a_card(cache=tmp_path) == (FAST, ["cuda:0"])
    monkeypatch.setattr(rates, "_measured_here", {})
    assert on_a_card(cache=tmp_path) == (FAST, ["cuda:0"])


def test_a_card_is_measured_where_nothing_is_kept_too(on_a_card):
    assert on_a_card(cache=False) == (FAST, ["cuda:0"])


def test_a_home_that_cannot_be_written_does_not_keep_a_card_from_being_measured(on_a_card, monkeypatch):
    monkeypatch.setenv("SPILLWAY_CACHE_DIR", "/dev/null/no")
    assert on_a_card() == (FAST, ["cuda:0"])


@pytest.mark.parametrize("before", [{"policy": policy} for policy in api.REACTIVE] + [{"budget": None}])
def test_a_process_that_has_not_planned_so_far_measures_when_it_does(on_a_card, before):
    assert on_a_card(**before) == (None, [])
    assert on_a_card() == (FAST, ["cuda:0"])
    assert on_a_card() == (FAST, ["cuda:0"])


@pytest.mark.parametrize("policy", api.REACTIVE)
def test_policies_that_do_not_plan_measure_nothing(on_a_card, policy):
    assert on_a_card(policy=policy) == (None, [])
