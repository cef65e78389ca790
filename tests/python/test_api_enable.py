"""enable, disable, budgets and steps from Python, on a stand-in for the native library."""

import ctypes
import threading

import pytest
import torch

import spillway
from fake_library import FakeLibrary
from spillway import api, hooks, native, spill


@pytest.fixture
def library(monkeypatch):
    library = FakeLibrary()
    monkeypatch.setattr(native, "load", lambda: library)
    monkeypatch.setattr(api, "_last_stats", None)
    yield library
    library.fails.clear()
    if spillway.is_enabled():
        spillway.disable()


def test_the_words_arrive_as_the_library_takes_them(library, tmp_path):
    spillway.enable("2GiB", device="cpu", policy="dtr", host_limit="1GB", spill_dir=tmp_path, workspace="adaptive",
                    trace=tmp_path / "a.spt", allocator="native", poison=True, min_evict="64k")  # fmt: skip
    assert library.named("enable") == [({
        "budget_bytes": 2**31, "device": "cpu", "policy": "dtr", "host_limit_bytes": 10**9, "spill_dir": str(tmp_path),
        "workspace": "adaptive", "trace": str(tmp_path / "a.spt"), "allocator": "native", "poison": True,
        "min_evict_bytes": 65536,
    },)]  # fmt: skip


def test_without_a_budget_it_only_watches(library):
    spillway.enable(device="cpu")
    ((options,),) = library.named("enable")
    assert options["budget_bytes"] is None and options["host_limit_bytes"] is None


def test_a_percentage_is_of_ram_on_the_cpu(library, monkeypatch):
    monkeypatch.setattr(api, "ram_bytes", lambda: 1000)
    spillway.enable("60%", device="cpu")
    assert library.named("enable")[0][0]["budget_bytes"] == 600


def test_errors_say_of_what_a_percentage_is(library, monkeypatch):
    with pytest.raises(ValueError, match=r"60% \(of RAM\)"):
        spillway.enable("8gigs", device="cpu")
    with pytest.raises(ValueError, match="a percentage of RAM lies between 0 and 100"):
        spillway.enable("8GiB", device="cpu", host_limit="101%")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(ValueError, match=r"60% \(of the card's memory\)"):
        spillway.enable("8gigs", device="cuda")


@pytest.mark.parametrize("words, says", [
    ({"budget": "8gigs"}, "cannot read budget"), ({"budget": 0}, "less than one byte"), ({"device": "tpu"}, "unknown device"),
    ({"workspace": "none"}, "choose plain or adaptive"), ({"allocator": "jemalloc"}, "choose spillway or native"),
    ({"policy": "no-such-policy"}, "unknown policy"), ({"spill_dir": "/nowhere/at/all"}, "does not exist"),
])  # fmt: skip
def test_bad_words_are_a_value_error_and_change_nothing(library, words, says):
    before = torch.Tensor.__dict__.copy(), torch._C._is_multithreading_enabled()
    with pytest.raises(ValueError, match=says):
        spillway.enable(**{"budget": "1GiB", "device": "cpu", **words})
    assert not spillway.is_enabled()
    assert (dict(torch.Tensor.__dict__), torch._C._is_multithreading_enabled()) == before


def test_a_card_that_is_not_there_is_refused(library, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(ValueError, match="device 'cuda:2' is not here: torch sees 2 cards"):
        spillway.enable("1GiB", device="cuda:2")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with pytest.raises(ValueError, match="torch sees no CUDA card"):
        spillway.enable("1GiB", device="cuda")


@pytest.mark.parametrize("rank, card", [(None, "cuda:0"), ("1", "cuda:1"), ("7", "cuda:0")])
def test_a_rank_takes_its_own_card(monkeypatch, rank, card):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    if rank is not None:
        monkeypatch.setenv("LOCAL_RANK", rank)
    assert api.find_device("auto") == card


def test_enabling_twice_is_refused(library):
    spillway.enable("1GiB", device="cpu")
    with pytest.raises(ValueError, match="already on"):
        spillway.enable("1GiB", device="cpu")


def test_backward_runs_on_the_callers_thread_while_on(library):
    assert torch._C._is_multithreading_enabled()
    spillway.enable("1GiB", device="cpu")
    assert not torch._C._is_multithreading_enabled()
    spillway.disable()
    assert torch._C._is_multithreading_enabled()


def test_new_threads_join_and_leave_no_trace_after_disable(library):
    spillway.enable("1GiB", device="cpu")
    seen = []
    threading.Thread(target=lambda: seen.append(torch._C._is_multithreading_enabled())).start()
    while not seen:
        pass
    assert library.named("thread_on") == [()] and seen == [False]


def test_disable_that_does_not_fit_stays_on(library):
    spillway.enable("1GiB", device="cpu")
    library.fails["disable"] = RuntimeError("3.00 GiB do not fit: ...")
    with pytest.raises(RuntimeError, match="do not fit"):
        spillway.disable()
    assert spillway.is_enabled() and hooks._installed and not torch._C._is_multithreading_enabled()


def test_a_failing_start_gives_the_library_back(library, monkeypatch):
    monkeypatch.setattr(hooks, "install", lambda library: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        spillway.enable("1GiB", device="cpu")
    assert library.named("disable") == [()] and not spillway.is_enabled()
    assert torch._C._is_multithreading_enabled()


def test_steps_by_hand_and_from_an_optimizer_reach_the_library(library):
    spillway.enable("1GiB", device="cpu")
    parameter = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    parameter.grad = torch.ones(2)
    optimizer.step()
    assert [call for call in library.calls if call[0] in ("phase", "step")] == [("phase", 3), ("phase", 0), ("step",)]
    spillway.step()
    assert spillway.stats()["steps"] == 1
    optimizer.step()
    spillway.step()
    assert spillway.stats()["steps"] == 2


def test_the_context_switches_on_and_off(library):
    with spillway.budget("1GiB", device="cpu"):
        assert spillway.stats()["budget_bytes"] == 2**30
    assert not spillway.is_enabled()


@pytest.mark.parametrize("kind", [ValueError, RuntimeError, torch.OutOfMemoryError])
def test_an_error_inside_the_context_comes_out_as_it_is(library, kind):
    library.fails["disable"] = kind("tensors take too much, so spillway stays on")
    with pytest.warns(RuntimeWarning, match="stays on"), pytest.raises(KeyError), spillway.budget("2GiB", device="cpu"):
        raise KeyError("mine")
    assert spillway.is_enabled()


def test_the_context_inside_another_changes_the_budget_for_a_while(library):
    with spillway.budget("4GiB", device="cpu"):
        with spillway.budget("1GiB"):
            assert spillway.stats()["budget_bytes"] == 2**30
        assert spillway.stats()["budget_bytes"] == 2**32
        with pytest.raises(ValueError, match="not policy"), spillway.budget("1GiB", device="cpu", policy="lru"):
            pass


def test_the_context_inside_another_may_say_what_is_so_already(library):
    with spillway.budget("4GiB", device="cpu", policy="dtr"), spillway.budget("1GiB", device="cpu", policy="dtr", poison=False):
        assert spillway.stats()["budget_bytes"] == 2**30


def test_set_budget_reads_the_same_texts(library):
    spillway.enable("1GiB", device="cpu")
    spillway.set_budget("512MiB")
    assert library.named("set_budget") == [(2**29,)]


@pytest.mark.parametrize("call", [spillway.disable, spillway.step, spillway.stats, lambda: spillway.set_budget("1G")])
def test_when_off_the_others_say_so(call, monkeypatch):
    monkeypatch.setattr(api, "_last_stats", None)
    with pytest.raises(RuntimeError, match="Spillway is not on"):
        call()


@pytest.mark.parametrize("thing, kind", [(3, "int"), ([torch.ones(1), "text"], "str"), ({"a": (None,)}, "NoneType"), (torch.nn.ReLU(), "ReLU")])
@pytest.mark.parametrize("is_on", [True, False])
def test_what_is_no_tensor_cannot_be_kept_resident(library, thing, kind, is_on):
    if is_on:
        spillway.enable("1GiB", device="cpu")
    with pytest.raises(TypeError, match=f"^spillway.resident takes tensors, and lists, tuples and dicts of them, not {kind}$"):
        spillway.resident(torch.ones(2), thing)
    assert library.named("materialize") == []


def test_statistics_outlive_the_job(library):
    spillway.enable("1GiB", device="cpu")
    spillway.step()
    spillway.disable()
    assert spillway.stats()["steps"] == 1


@pytest.mark.parametrize("version", ["2.10.1", "2.12.0+cu130", "3.11.0", "2.1"])
def test_torch_of_another_version_is_refused_in_one_sentence(version):
    with pytest.raises(ValueError, match=f"built for torch 2.11.x, and torch {version.replace('+', '.')} is installed"):
        native.check_torch(version)


def test_this_torch_is_accepted():
    native.check_torch(torch.__version__)
    native.check_torch("2.11.0a0+git123")


def test_a_missing_library_is_told_with_its_place(tmp_path):
    with pytest.raises(RuntimeError, match=r"the native library is missing \(.*no.so\)"):
        native._load(tmp_path / "no.so")


def test_a_broken_library_is_told_with_its_place(tmp_path):
    broken = tmp_path / "broken.so"
    broken.write_text("not a library")
    with pytest.raises(RuntimeError, match=r"does not load \(.*broken.so\)"):
        native._load(broken)


class Handle:
    """What ctypes.CDLL returns, with one answer for every function."""

    def __init__(self, code=0):
        self.seen = []
        for name in [*native._SIGNATURES, "spillway_last_error", "spillway_stats"]:
            setattr(self, name, self._function(name, code))

    def _function(self, name, code):
        def function(*arguments):
            self.seen.append((name, *arguments))
            return {"spillway_last_error": b"the reason", "spillway_stats": b'{"steps": 4}'}.get(name, code)

        return function


@pytest.mark.parametrize("code, error", [(1, RuntimeError), (2, ValueError), (3, torch.OutOfMemoryError)])
def test_codes_become_exceptions_with_the_librarys_reason(code, error):
    with pytest.raises(error, match="the reason"):
        native.Library(Handle(code)).disable()


def test_calls_arrive_with_their_arguments():
    handle = Handle()
    library = native.Library(handle)
    library.enable({"budget_bytes": 5})
    library.materialize(1234, native.HOLDS)
    assert handle.seen == [("spillway_enable", b'{"budget_bytes": 5}'), ("spillway_materialize", 1234, 3)]
    assert handle.spillway_materialize.argtypes == [ctypes.c_void_p, ctypes.c_int]
    assert library.stats() == {"steps": 4}


MOUNTS = """22 1 8:1 / / rw - ext4 /dev/sda1 rw
23 22 0:20 / /tmp rw - tmpfs tmpfs rw
24 22 8:2 / /tmp/big\\040disk rw - xfs /dev/sdb rw
"""


@pytest.mark.parametrize("path, kind", [("/home", "ext4"), ("/tmp", "tmpfs"), ("/tmpfile", "ext4"), ("/tmp/big disk/x", "xfs")])
def test_a_folder_is_on_the_file_system_of_the_nearest_mount(path, kind):
    assert spill.find_filesystem(path, MOUNTS) == kind


def test_a_spill_folder_in_memory_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(spill, "find_filesystem", lambda path: "tmpfs")
    with pytest.raises(ValueError, match="on tmpfs, which is memory"):
        spill.check_folder(tmp_path)


def test_a_spill_folder_that_cannot_be_written_is_refused(tmp_path, monkeypatch):
    def refuse(dir):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(spill.tempfile, "TemporaryFile", refuse)
    with pytest.raises(ValueError, match="cannot be written: Read-only file system"):
        spill.check_folder(tmp_path)


def test_without_any_usable_folder_the_cpu_refuses_and_a_card_goes_on(monkeypatch):
    monkeypatch.setattr(spill, "find_default", lambda: None)
    with pytest.raises(ValueError, match="--spill-dir"):
        api._find_spill_folder(None, "cpu", watching=False)
    assert api._find_spill_folder(None, "cuda:0", watching=False) is None


def test_only_planned_runs_have_a_folder_for_what_they_record(library, tmp_path):
    spillway.enable("2GiB", device="cpu", policy="dtr", cache=tmp_path / "kept")
    spillway.disable()
    spillway.enable("2GiB", device="cpu", policy="hybrid", cache=tmp_path / "kept")
    (reactive,), (planned,) = library.named("enable")
    assert "cache_dir" not in reactive
    assert planned["cache_dir"] == str(tmp_path / "kept") and "torch" in planned["cache_writer"]
