"""torch's own allocator settings: each honoured, told about or refused."""

import re
from pathlib import Path

import pytest
import torch

import spillway
from fake_library import FakeLibrary
from spillway import alloc_conf, api, flags, native, run, verify
from spillway.alloc_conf import AllocatorWarning, judge


def conf(text, variable="PYTORCH_ALLOC_CONF"):
    return {variable: text}


def test_nothing_set_says_nothing():
    verdict = judge({"PATH": "/bin"}, "spillway")
    assert verdict.notices == [] and verdict.fraction is None


@pytest.mark.parametrize("setting, says", [
    ("expandable_segments:True", "one range"), ("max_split_size_mb:128", "split and merged"),
    ("max_non_split_rounding_mb:32", "512 bytes"), ("roundup_power2_divisions:4", "512 bytes"),
    ("roundup_power2_divisions:[256:1,512:2,>:4]", "512 bytes"),
    ("garbage_collection_threshold:0.8", "budget needs it"),
    ("large_segment_size_mb:40", "no segments"), ("release_lock_on_cudamalloc:True", "not called"),
])  # fmt: skip
def test_what_has_no_effect_is_one_line_that_says_why(setting, says):
    (line,) = judge(conf(setting), "spillway").notices
    assert setting.split(":")[0] in line and "PYTORCH_ALLOC_CONF" in line and says in line and "\n" not in line


@pytest.mark.parametrize("setting", [
    "backend:native", "expandable_segments:False", "pinned_use_background_threads:True",
    "pinned_use_cuda_host_register:True", "pinned_num_register_threads:8", "pinned_reserve_segment_size_mb:64", "graph_capture_record_stream_reuse:True",
])  # fmt: skip
def test_what_still_does_what_it_says_passes_in_silence(setting):
    assert judge(conf(setting), "spillway").notices == []


def test_torchs_own_allocator_obeys_its_settings_itself():
    assert judge(conf("expandable_segments:True,max_split_size_mb:64"), "native").notices == []


@pytest.mark.parametrize("allocator", ["spillway", "native"])
@pytest.mark.parametrize("environment, says", [
    (conf("backend:cudaMallocAsync"), "backend:cudaMallocAsync"), (conf("backend:mine"), "backend:mine"),
    (conf("no_such_key:1"), "unknown setting 'no_such_key'"), ({"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}, "unset it"),
    (conf("per_process_memory_fraction:2"), "no share"), (conf("per_process_memory_fraction:half"), "no share"),
])  # fmt: skip
def test_what_would_break_the_budget_is_refused_in_a_sentence(environment, says, allocator):
    with pytest.raises(ValueError, match=says) as refused:
        judge(environment, allocator)
    assert "\n" not in str(refused.value)


def test_the_old_variable_counts_before_the_new_one_as_for_torch():
    both = conf("max_split_size_mb:1", "PYTORCH_CUDA_ALLOC_CONF") | conf("backend:cudaMallocAsync")
    (line,) = judge(both, "spillway").notices
    assert "PYTORCH_CUDA_ALLOC_CONF" in line


def test_the_variable_for_other_makers_is_told_to_have_no_effect():
    (line,) = judge(conf("backend:cudaMallocAsync", "PYTORCH_HIP_ALLOC_CONF"), "spillway").notices
    assert "does not read it" in line


def test_several_settings_are_each_told():
    text = " max_split_size_mb:64 , roundup_power2_divisions:[256:1,>:2],pinned_num_register_threads:2,"
    assert len(judge(conf(text), "spillway").notices) == 2


def test_the_keys_are_those_torch_has():
    """A key this torch knows and we do not, or the other way round, is a setting nobody decided about."""
    headers = Path(torch.__file__).parent / "include/c10"
    known = set()
    for name in ("core/AllocatorConfig.h", "cuda/CUDAAllocatorConfig.h"):
        if not (headers / name).exists():
            pytest.skip(f"this torch comes without {name}")
        text = re.sub(r"//[^\n]*", "", (headers / name).read_text())
        keys = re.search(r"std::unordered_set<std::string> keys\{(.*?)\}", text, re.DOTALL)[1]
        known |= set(re.sub(r'["\s]', "", keys).split(","))
    assert known == alloc_conf._KNOWN


# --- at the door ----------------------------------------------------------------------------------------------------


@pytest.fixture
def one_card(monkeypatch):
    library = FakeLibrary()
    monkeypatch.setattr(native, "load", lambda: library)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(api, "card_bytes", lambda index: 1 << 30)
    monkeypatch.setattr(api, "_last_stats", None)
    monkeypatch.setattr(api, "_what_plans_reckon_with", lambda options: {})  # asks the card
    yield library
    if spillway.is_enabled():
        spillway.disable()


def test_enable_warns(one_card, monkeypatch):
    monkeypatch.setenv("PYTORCH_ALLOC_CONF", "max_split_size_mb:64")
    with pytest.warns(AllocatorWarning, match="no effect"):
        spillway.enable("1GiB", device="cuda")


def test_a_fraction_of_the_card_is_the_most_a_budget_can_be(one_card, monkeypatch):
    monkeypatch.setenv("PYTORCH_ALLOC_CONF", "per_process_memory_fraction:0.25")
    spillway.enable("1GiB", device="cuda")
    assert one_card.named("enable")[0][0]["budget_bytes"] == 1 << 28


def test_on_the_cpu_they_mean_nothing(one_card, monkeypatch):
    monkeypatch.setenv("PYTORCH_NO_CUDA_MEMORY_CACHING", "1")
    spillway.enable("1GiB", device="cpu")
    assert spillway.is_enabled()


@pytest.mark.parametrize("command", [run, verify])
def test_refused_settings_end_the_command_with_code_2(one_card, monkeypatch, capsys, tmp_path, command):
    script = tmp_path / "train.py"
    script.write_text("raise SystemExit('must not run')")
    monkeypatch.setenv("PYTORCH_ALLOC_CONF", "backend:cudaMallocAsync")
    with pytest.raises(SystemExit) as ended:
        command.main(["--budget", "1GiB", "--device", "cuda", str(script)])
    assert ended.value.code == flags.BAD_INPUT and "cudaMallocAsync" in capsys.readouterr().err


def test_the_command_tells_each_in_one_line(capsys):
    import warnings

    with flags.telling("spillway run"):
        warnings.warn("max_split_size_mb has no effect", AllocatorWarning, stacklevel=1)
    assert capsys.readouterr().err == "spillway run: max_split_size_mb has no effect\n"
