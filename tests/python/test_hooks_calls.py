"""Every hook asks the engine with the right word, before the memory is reached; shown on a stand-in for the library.

That the memory really is there is shown with the native library, in test_hooks_memory.py.
"""

import ctypes
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from fake_library import FakeLibrary
from spillway import hooks

READS, WRITES, HOLDS = 0, 2, 3


@pytest.fixture
def library():
    library = FakeLibrary()
    hooks.install(library)
    yield library
    hooks.remove()
    hooks._switched_off.clear()


def flags_for(library, tensor):
    asked = [*library.named("materialize"), *(pair for (many,) in library.named("materialize_many") for pair in many)]
    return [flag for address, flag in asked if address == tensor._cdata]


READERS = {
    "tolist": (lambda t: t.tolist(), READS),
    "apply_": (lambda t: t.apply_(lambda x: x + 1), WRITES),
    "map_": (lambda t: t.map_(t.clone(), lambda x, y: x + y), WRITES),
    "map2_": (lambda t: t.map2_(t.clone(), t.clone(), lambda x, y, z: x), WRITES),
    "untyped_storage": (lambda t: t.untyped_storage(), WRITES),
    "storage": (lambda t: t.storage(), WRITES),
    "pickle": (lambda t: __import__("pickle").dumps(t), WRITES),
    "data_ptr": (lambda t: ctypes.c_float.from_address(t.data_ptr()).value, HOLDS),
}  # fmt: skip


BORROWERS = {
    "numpy": lambda t: t.numpy(),
    "numpy of a copy": lambda t: t.numpy(force=True),
    "asarray": lambda t: np.asarray(t),
    "__dlpack__": lambda t: t.__dlpack__(),
    "np.from_dlpack": lambda t: np.from_dlpack(t),
    "to_dlpack": lambda t: torch.utils.dlpack.to_dlpack(t),
    "torch._C._to_dlpack": lambda t: torch._C._to_dlpack(t),
    "torch._C._to_dlpack_versioned": lambda t: torch._C._to_dlpack_versioned(t),
}


@pytest.mark.filterwarnings("ignore:TypedStorage")
@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("kind", [torch.Tensor, torch.nn.Parameter])
def test_a_reader_asks_with_its_flag(library, name, kind):
    read, flag = READERS[name]
    tensor = torch.ones(3)
    if kind is torch.nn.Parameter:
        tensor = torch.nn.Parameter(tensor, requires_grad=False)
    read(tensor)
    # A parameter is pickled through its .data, another tensor on the same storage.
    asked = flags_for(library, tensor) or [flag for _, flag in library.named("materialize")]
    assert max(asked) == flag


@pytest.mark.filterwarnings("ignore:TypedStorage")
@pytest.mark.parametrize("name", [*READERS, *BORROWERS])
def test_the_engine_is_asked_before_the_memory_is_reached(library, name):
    library.fails = dict.fromkeys(("materialize", "lend"), RuntimeError("cannot come home"))
    reach = BORROWERS[name] if name in BORROWERS else READERS[name][0]
    with pytest.raises(RuntimeError, match="cannot come home"):
        reach(torch.ones(3))


@pytest.mark.parametrize("name", BORROWERS)
def test_a_borrower_is_lent_the_memory(library, name):
    tensor = torch.ones(3)
    BORROWERS[name](tensor)
    lent = [address for (address,) in library.named("lend")]
    assert len(lent) == 1 and (lent == [tensor._cdata] or name == "numpy of a copy")


def test_an_arrays_loan_ends_with_the_last_view_of_it(library):
    array = torch.ones(6).numpy()
    view = array.reshape(2, 3)[1:].view(np.recarray)
    again = torch.from_numpy(array)
    del array
    assert library.named("end_loan") == []
    del view
    assert library.named("end_loan") == []
    del again
    assert library.named("end_loan") == [(1,)]


def test_every_array_has_a_loan_of_its_own(library):
    tensor = torch.ones(3)
    one, other = tensor.numpy(), np.asarray(tensor)
    del one
    assert library.named("end_loan") == [(1,)]
    del other
    assert library.named("end_loan") == [(1,), (2,)]


@pytest.mark.parametrize("name", ["numpy", "torch._C._to_dlpack"])
def test_a_loan_nobody_took_ends_at_once(library, name):
    strange = torch.ones(3).to_sparse()
    with pytest.raises((RuntimeError, TypeError)):
        BORROWERS[name](strange)
    assert len(library.named("lend")) == len(library.named("end_loan")) == 1


def test_a_capsules_loan_is_left_to_its_deleter(library):
    old, new = torch._C._to_dlpack(torch.ones(3)), torch._C._to_dlpack_versioned(torch.ones(3))
    assert [(loan, versioned) for loan, _, versioned in library.named("end_loan_with_dlpack")] == [(1, 0), (2, 1)]
    assert library.named("end_loan") == []
    del old, new


def test_an_array_that_outlives_the_interpreter_ends_no_loan():
    code = ("import torch; from fake_library import FakeLibrary; from spillway import hooks\n"
            "library = FakeLibrary(); hooks.install(library)\n"
            "library.end_loan = lambda loan: print('ended', loan)\n"
            "first = torch.ones(3).numpy(); del first\n"
            "array = torch.ones(3).numpy()\n")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment_of_tests())
    assert (done.stdout, done.stderr) == ("ended 1\n", "")


def test_the_others_in_a_map_are_read(library):
    target, other = torch.ones(3), torch.ones(3)
    target.map_(other, lambda x, y: x + y)
    assert flags_for(library, other) == [READS]


def test_a_storage_address_is_held_but_torchs_own_comparisons_are_not(library, tmp_path):
    tensor = torch.ones(3)
    storage = tensor.untyped_storage()._cdata
    torch.save(tensor, tmp_path / "t.pt")
    assert library.named("storage_materialize") == [(storage, READS)]
    tensor.untyped_storage().data_ptr()
    assert library.named("storage_materialize") == [(storage, READS), (storage, HOLDS)]


@pytest.mark.filterwarnings("ignore:TypedStorage")
def test_an_address_through_a_typed_storage_is_held_too(library):
    torch.ones(3).storage().data_ptr()
    assert len(library.named("storage_materialize")) == 1


def test_what_is_loaded_may_leave_while_the_rest_is_read_and_not_afterwards(library, tmp_path):
    shared = torch.ones(4)
    torch.save([torch.ones(3), shared, shared._typed_storage(), torch.ones(5).untyped_storage()], tmp_path / "t.pt")
    library.calls.clear()
    one, other, *storages = torch.load(tmp_path / "t.pt", weights_only=False)
    theirs = [storage._untyped_storage._cdata for storage in storages]
    assert theirs[0] == other.untyped_storage()._cdata
    addresses = [one.untyped_storage()._cdata, *theirs]
    assert library.named("storage_loosen") == [(a, 1) for a in addresses] + [(a, 0) for a in addresses]
    assert sorted(library.named("storage_materialize")) == sorted((a, READS) for a in theirs)  # the program has those itself


def test_after_a_load_that_fails_nothing_is_loose(library, tmp_path):
    class Fails:
        def __reduce__(self):
            return int, ("no number",)

    torch.save([torch.ones(3), Fails()], tmp_path / "t.pt")
    with pytest.raises(ValueError, match="no number"):
        torch.load(tmp_path / "t.pt", weights_only=False)
    (loose, _), (tight, _) = library.named("storage_loosen")
    assert loose == tight


def test_a_storage_made_in_python_comes_from_the_allocator_of_tensors(library):
    assert torch.UntypedStorage(8).nbytes() == torch.UntypedStorage(8, device="cpu").nbytes() == 8
    assert len(library.named("cpu_allocator")) == 2
    torch.UntypedStorage(8, device="meta"), torch.UntypedStorage([1, 2]), torch.UntypedStorage()
    assert len(library.named("cpu_allocator")) == 2
    hooks.remove()
    assert "__new__" not in vars(torch.UntypedStorage) and torch.UntypedStorage(8).nbytes() == 8


def test_comparing_addresses_inside_torch_nn_holds_nothing(library):
    tensor = torch.ones(3)
    exec(compile("address = tensor.data_ptr()", "rnn.py", "exec"), {"__name__": "torch.nn.modules.rnn", "tensor": tensor})
    assert flags_for(library, tensor) == [READS]


def test_a_fake_tensor_passes_untouched(library):
    with FakeTensorMode():
        fake = torch.empty(3)
        fake.untyped_storage()
        assert torch.empty(4).sum().dim() == 0
    assert library.named("materialize") == []


def test_a_subclass_with_memory_is_asked_for_and_a_wrapper_is_not(library):
    class Plain(torch.Tensor):
        pass

    class Wrapper(torch.Tensor):
        @staticmethod
        def __new__(cls, inner):
            return torch.Tensor._make_wrapper_subclass(cls, inner.size())

        @classmethod
        def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
            raise AssertionError("a hook dispatched an op")

    plain = torch.ones(3).as_subclass(Plain)
    plain.numpy()
    assert set(library.named("lend")) == {(plain._cdata,)}  # asked again below __torch_function__
    count = len(library.calls)
    Wrapper(torch.ones(3)).untyped_storage()
    assert len(library.calls) == count


def test_a_hook_dispatches_nothing_and_ignores_function_modes(library):
    class Count(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            raise AssertionError(f"a hook dispatched {function}")

    class Functions(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            names.append(getattr(function, "__name__", str(function)))
            return function(*args, **(kwargs or {}))

    names, tensor = [], torch.ones(3)
    with Count():
        tensor.untyped_storage()
        tensor.data_ptr()
    with Functions():
        tensor.tolist()
    assert names == ["tolist"]


def test_the_exchange_table_is_away_while_on_and_back_after(library):
    assert not hasattr(torch.Tensor, "__dlpack_c_exchange_api__")
    hooks.remove()
    assert hasattr(torch.Tensor, "__dlpack_c_exchange_api__")


def test_after_remove_everything_is_as_it_was():
    from importlib.machinery import ExtensionFileLoader

    places = [torch.Tensor, torch.UntypedStorage, torch._C, torch.utils.dlpack, threading.Thread, torch.library.Library,
              type(torch.ops), torch.nn.parallel.DistributedDataParallel, ExtensionFileLoader]  # fmt: skip
    before = [dict(vars(place)) for place in places], list(sys.meta_path)
    hooks.install(FakeLibrary())
    assert dict(vars(torch.Tensor)) != before[0][0]
    hooks.remove()
    assert ([dict(vars(place)) for place in places], list(sys.meta_path)) == before


@pytest.mark.parametrize("name", hooks.TABLE)
def test_each_hook_can_be_taken_away_and_put_back(library, name):
    hooks.disable(name)
    assert name not in hooks._installed
    hooks.remove()
    hooks.install(library)
    assert name not in hooks._installed
    hooks.restore(name)
    assert name in hooks._installed


def test_a_hook_taken_away_is_not_asked(library):
    hooks.disable("numpy")
    torch.ones(3).numpy()
    assert library.calls == []


def test_an_unknown_hook_is_refused_with_the_names():
    with pytest.raises(ValueError, match="no hook is called 'nunpy': there are tolist, "):
        hooks.disable("nunpy")


def test_a_new_thread_joins(library):
    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()
    assert library.named("thread_on") == [()]


def test_a_forked_child_is_told(library):
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, str(len(library.named("after_fork_child"))).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 10) == b"1"
    assert library.named("after_fork_child") == []


def test_ops_defined_late_get_their_entries(library):
    with torch.library._scoped_library("spillway_test", "FRAGMENT") as ops:
        ops.define("twice(Tensor x) -> Tensor")
        ops.impl("twice", lambda x: x + x, "CPU")
    assert library.named("late_ops") == [()]


def test_an_extension_function_runs_in_a_region_with_its_tensors_resident(library, monkeypatch):
    class Module:
        __name__ = "their_extension"

    def add(a, b):
        order.append("called")
        return a + b

    order, module = [], Module()
    monkeypatch.setattr(hooks.types, "BuiltinFunctionType", type(add))
    add.__doc__ = "add(arg0: torch.Tensor, arg1: torch.Tensor) -> torch.Tensor"
    module.add = add
    (undo,) = hooks._wrap_tensor_functions(module)
    a, b = torch.ones(2), torch.ones(2)
    library.region_begin = lambda: order.append("begin")
    library.region_end = lambda: order.append("end")
    library.materialize = lambda address, flag: order.append(flag)
    library.materialize_many = lambda asked: order.extend(flag for _, flag in asked)
    assert module.add(a, b=b).tolist() == [2, 2]
    assert order == ["begin", WRITES, WRITES, "called", "end", "begin", READS, "end"]  # the last three are tolist
    undo()
    assert module.add is add


def test_a_region_ends_when_the_call_raises(library):
    with pytest.raises(ZeroDivisionError):
        hooks._in_region(lambda: 1 / 0, READS)()
    assert library.calls == [("region_begin",), ("region_end",)]
    assert hooks._depth() == 0


def test_inside_a_region_an_address_is_not_held(library):
    tensor = torch.ones(3)
    with hooks.Region():
        tensor.data_ptr()
    assert flags_for(library, tensor) == [READS]


COMPILED = """
import sys, torch
from fake_library import FakeLibrary
from spillway import hooks
library = FakeLibrary()
hooks.install(library)
assert "torch._inductor.output_code" not in sys.modules, "a hook imported the compiler"
running = torch.zeros(4)
weight = torch.randn(4, 4, requires_grad=True)
@torch.compile
def step(x, w):
    running.add_(x.sum(0).detach())
    return torch.tanh(x @ w).sum()
x = torch.randn(8, 4)
loss = step(x, weight)
answers = [address for many, in library.named('materialize_many')[1:] for address, _ in many]
assert len(answers) >= 2, answers  # the loss, and what backward saved
loss.backward()
asked = dict(pair for many, in library.named("materialize_many") for pair in many)
assert asked[weight._cdata] == 0, asked
assert asked[running._cdata] == 2, asked
begins, ends = len(library.named("region_begin")), len(library.named("region_end"))
assert begins == ends and begins >= 2, (begins, ends)
hooks.remove()
from torch._inductor.output_code import CompiledFxGraph
assert CompiledFxGraph.__call__.__closure__ is None
print("fine")
"""


def test_a_compiled_graphs_inputs_are_asked_for_and_written_ones_are_named():
    done = subprocess.run([sys.executable, "-c", COMPILED], capture_output=True, text=True, env=environment_of_tests())
    assert done.stdout == "fine\n", done.stderr


TRACED = """
import torch, torch._dynamo
from fake_library import FakeLibrary
from spillway import hooks
def lists(x): return torch.tensor(x.tolist()[:1]).sum() + x.sum()
def arrays(x): return torch.from_numpy(x.numpy() + 1).sum()
def storages(x): return x.sum() + x.untyped_storage().nbytes()
def addresses(x): return x.sum() + x.data_ptr() % 4
def traced():
    for function in (lists, arrays, storages, addresses):
        torch._dynamo.reset()
        counters = torch._dynamo.utils.counters
        counters.clear()
        result = torch.compile(function, backend="eager")(torch.ones(4)).item()
        yield result, dict(counters["stats"]), len(counters["graph_break"])
plain = list(traced())
hooks.install(FakeLibrary())
assert list(traced()) == plain, (list(traced()), plain)
print("fine")
"""


def test_the_compiler_sees_what_it_saw_without_us():
    done = subprocess.run([sys.executable, "-c", TRACED], capture_output=True, text=True, env=environment_of_tests())
    assert done.stdout == "fine\n", done.stderr


def environment_of_tests():
    return {**os.environ, "PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), os.environ.get("PYTHONPATH", "")])}


def test_triton_is_wrapped_when_the_script_imports_it():
    pytest.importorskip("triton")
    code = ("import sys, torch; from fake_library import FakeLibrary; from spillway import hooks\n"
            "library = FakeLibrary(); hooks.install(library)\n"
            "assert 'triton.runtime.jit' not in sys.modules\n"
            "import triton.runtime.jit as jit\n"
            "assert jit.JITFunction.run.__wrapped__ is not None\n"
            "try: jit.JITFunction.run(None, torch.ones(2), grid=1, warmup=False)\n"
            "except Exception: pass\n"
            "print([flag for many, in library.named('materialize_many') for _, flag in many], len(library.named('region_end')))\n"
            "import inspect; assert 'class JITFunction' in inspect.getsource(jit)\n"
            "hooks.remove(); assert not hasattr(jit.JITFunction.run, '__wrapped__')\n")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment_of_tests())
    assert done.stdout == "[2] 1\n", done.stderr
