"""Ways for a tensor to leave the dispatcher's sight, each run in a process: `out_of_sight.py CASE [OPTIONS] [--without HOOK]`.

Without OPTIONS (of `spillway.enable`, as JSON) the case runs plain, and `evict` does nothing. With them everything that
can leave is gone just before the access. A case returns what it read; its digest is printed. `--without` takes away the
hooks the case rests on, and then a case must fault, raise, or read something else. `--serve` runs many command lines, each
in a fork of a process that has imported torch and done nothing with it.
"""

import argparse
import copy
import ctypes
import gc
import hashlib
import io
import json
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

import numpy
import torch
from torch import nn

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from raw_extension import BINDINGS, EXTENSION, OPERATORS, built  # noqa: E402
from record import digest  # noqa: E402


@dataclass(frozen=True)
class Case:
    run: Callable[[], object]
    hooks: tuple[str, ...]  # what it rests on; none: ops alone, nothing to take away
    compiles: bool  # needs a compiler, half a minute of it


CASES: dict[str, Case] = {}
BUDGET = 16 << 20  # what the tests give; the neediest case keeps 1 MiB


def case(*hooks: str, compiles: bool = False):
    def add(run):
        CASES[run.__name__] = Case(run, hooks, compiles)
        return run

    return add


def throw_out() -> None:
    """Makes everything leave that can; main() gives it a meaning."""


def evict() -> None:
    """Throws out everything, and lets others have nearly all of the budget: an address that was kept reads their bytes."""
    throw_out()
    _ = [torch.full((1 << 16,), 7.0) for _ in range(7 * BUDGET // 8 >> 18)]


def live_bytes() -> int | None:
    """What the engine has on the device."""


def evict_after_every_op(is_on: bool) -> None:
    """The same after each op from here on."""


def fresh(count: int = 1 << 16, seed: int = 1) -> torch.Tensor:
    """A tensor made by an op, so that it could be replayed as well as moved."""
    return torch.arange(count, dtype=torch.float32).mul_(seed).sin()


def trained() -> tuple[nn.Module, torch.optim.Optimizer]:
    model = nn.Sequential(nn.Linear(64, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Linear(256, 64))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for seed in (1, 2):
        train(model, optimizer, seed)
    return model, optimizer


def train(model, optimizer, seed: int) -> torch.Tensor:
    optimizer.zero_grad()
    loss = model(fresh(32 * 64, seed).view(32, 64)).square().mean()
    loss.backward()
    evict()
    optimizer.step()
    return loss.detach()


# --- reading through another library ---------------------------------------------------------------------------------


@case("numpy")
def numpy_reads():
    tensor = fresh()
    evict()
    array = tensor.numpy()
    evict()  # the array is still there: so must be its memory
    return array.tobytes()


@case("numpy")
def numpy_asarray_reads():
    tensor = fresh()
    evict()
    array = numpy.asarray(tensor)
    evict()
    return array.tobytes()


@case("numpy")
def numpy_reads_what_was_left():
    """The memory is nobody's since: only poison makes a difference to who still looks at it."""
    array = fresh().numpy()
    throw_out()
    return array.tobytes()


@case("numpy")
def numpy_writes():
    tensor = fresh()
    evict()
    array = tensor.numpy()
    evict()
    array[:100] = 7
    evict()
    return tensor.clone()


@case("dlpack")
def dlpack_reads():
    tensor = fresh()
    evict()
    array = numpy.from_dlpack(tensor)
    evict()
    return array.tobytes()


@case("dlpack")
def dlpack_capsule_reads():
    tensor = fresh()
    evict()
    capsule = torch.utils.dlpack.to_dlpack(tensor)
    evict()
    return ctypes.string_at(torch.utils.dlpack.from_dlpack(capsule).data_ptr(), tensor.nbytes)


class ExchangeApi(ctypes.Structure):
    """DLPackExchangeAPI of the DLPack standard, as far as it is used here."""

    _fields_ = [
        ("version", ctypes.c_uint32 * 2),
        ("previous", ctypes.c_void_p),
        ("allocator", ctypes.c_void_p),
        ("from_object", ctypes.c_void_p),
        ("to_object", ctypes.c_void_p),
        ("view_of_object", ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)),
    ]


@case("dlpack_exchange_api")
def dlpack_function_table_reads():
    """A consumer that takes the C function table when there is one, and else asks the object."""
    tensor = fresh()
    evict()
    capsule = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
    if capsule is None:
        return numpy.from_dlpack(tensor).tobytes()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    api = ExchangeApi.from_address(pointer(capsule, b"dlpack_exchange_api"))
    view = ctypes.create_string_buffer(64)  # a DLTensor; it begins with the address
    assert api.view_of_object(tensor, view) == 0
    return ctypes.string_at(ctypes.c_void_p.from_buffer(view).value, tensor.nbytes)


@case("data_ptr")
def data_ptr_reads():
    tensor = fresh()
    evict()
    address = tensor.data_ptr()
    evict()
    return ctypes.string_at(address, tensor.nbytes)


@case("data_ptr")
def data_ptr_writes():
    tensor = fresh()
    evict()
    ctypes.memset(tensor.data_ptr(), 63, 4096)
    evict()
    return tensor.clone()


@case("storage_data_ptr")
def storage_data_ptr_reads():
    tensor = fresh()
    address = tensor.untyped_storage().data_ptr()
    evict()
    return ctypes.string_at(address, tensor.nbytes)


# --- Python's own access ---------------------------------------------------------------------------------------------


@case("tolist")
def tolist_reads():
    tensor = fresh()
    evict()
    return tensor.tolist()


@case("generators")
def set_state_reads():
    before = torch.get_rng_state().clone()
    drawn = torch.rand(64)
    evict()
    torch.set_rng_state(before)
    own = torch.Generator()
    evict()
    own.set_state(before)
    make, arguments, state = own.__reduce__()
    evict()
    again = make(*arguments)
    again.__setstate__(state)
    return [torch.equal(drawn, torch.rand(64)), torch.rand(8, generator=own), torch.rand(8, generator=again), own.get_state()]


@case()
def repr_reads():
    tensor = fresh()[:8]
    evict()
    return repr(tensor)


@case("map")
def apply_writes():
    tensor = fresh()
    evict()
    tensor.apply_(lambda value: value + 1)
    evict()
    return tensor.clone()


@case("map")
def map_reads_and_writes():
    tensor, other = fresh(), fresh(seed=2)
    evict()
    tensor.map_(other, lambda one, two: one - two)
    evict()
    return tensor.clone()


@case()
def item_and_bool_read():
    tensor = fresh()
    evict()
    return [tensor[5].item(), bool(tensor[7] > 0), float(tensor[9]), f"{tensor[11]:.9f}"]


# --- storages, copies, files -----------------------------------------------------------------------------------------


@case("untyped_storage")
def storage_bytes_read():
    tensor = fresh()
    evict()
    storage = tensor.untyped_storage()
    evict()  # somebody holds the storage object: it may not leave
    with tempfile.TemporaryFile() as file:
        storage._write_file(file, True, True, 1)
        file.seek(0)
        return file.read()


@case()
def storage_methods_work():
    tensor, other = fresh(), fresh(seed=2)
    evict()
    storage = tensor.untyped_storage()
    first = [storage[3], storage.clone().nbytes()]
    storage.copy_(other.untyped_storage())
    evict()
    storage.resize_(storage.nbytes() // 2)
    evict()
    return [first, torch.empty(0).set_(storage, 0, (100,)).clone()]


@case("untyped_storage")
def torch_save_reads():
    model, optimizer = trained()
    evict()
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
    return [file.getvalue()]


@case("save")
def torch_save_reads_more_than_the_budget():
    """Shared storages stay shared, and what is saved never has to be there all at once."""
    tensors = [fresh(1 << 18, seed).view(512, 512) for seed in range(1, 3 * BUDGET // 2 >> 20)]
    file = io.BytesIO()
    torch.save({"all": tensors, "row": tensors[0][1], "again": tensors[0].T, "empty": torch.empty(0)}, file)
    return [hashlib.sha256(file.getvalue()).hexdigest(), tensors[0], tensors[-1]]


@case("load")
def torch_load_reads_more_than_the_budget():
    """Shared storages stay shared, a storage as such is home, and what is loaded never has to be there all at once."""
    tensors = [fresh(1 << 18, seed).view(512, 512) for seed in range(1, 3 * BUDGET // 2 >> 20)]
    sample = tensors[0].clone()
    whole = {"all": tensors, "row": tensors[0][1], "again": tensors[0].T, "raw": tensors[0]._typed_storage()}
    with tempfile.TemporaryFile() as file:
        torch.save(whole | {"alone": sample.untyped_storage(), "model": nn.Linear(9, 9).state_dict()}, file)
        del tensors, whole
        file.seek(0)
        loaded = torch.load(file, weights_only=False)
    loaded["row"].zero_()
    evict()
    raw = [ctypes.string_at(loaded[name]._untyped_storage.data_ptr(), 4096) for name in ("raw", "alone")]
    return [*raw, [digest(tensor) for tensor in loaded["all"]], loaded["again"].sum()]


@case("untyped_storage")
def pickle_reads():
    tensor = fresh()
    evict()
    return pickle.loads(pickle.dumps(tensor))


@case()
def sending_to_a_worker_reads():
    """What a DataLoader or a queue does to a tensor on its way to another process, and the reading of it there."""
    tensor = fresh()
    evict()
    sent = bytes(ForkingPickler.dumps(tensor))
    evict()
    return ForkingPickler.loads(sent).clone()


@case("new_storages")
def storages_made_in_python_are_inside_the_budget():
    """A copied tensor's bytes and those of a new storage are counted, leave and come back like any others."""
    tensors = [fresh(1 << 18, seed) for seed in range(1, 5)]
    before = live_bytes()
    copies = [copy.deepcopy(tensor) for tensor in tensors]
    made = torch.UntypedStorage(1 << 20, device="cpu")
    assert before is None or live_bytes() - before == 5 << 20
    evict()
    return [*copies, made.nbytes(), torch.UntypedStorage(3, device="meta").device.type, len(torch.UntypedStorage([1, 2]))]


@case()
def deepcopy_reads():
    model, optimizer = trained()
    evict()
    twin = copy.deepcopy(model)
    evict()
    train(twin, torch.optim.SGD(twin.parameters(), lr=0.1), seed=3)
    return [*twin.state_dict().values(), *model.state_dict().values()]


@case("deepcopy")
def deepcopy_reads_more_than_the_budget():
    """Shared storages stay shared, a storage as such is home, and what is copied never has to be there all at once."""
    tensors = [fresh(1 << 18, seed).view(512, 512) for seed in range(1, 3 * BUDGET // 2 >> 20)]
    tensors[0].requires_grad_().grad = fresh(1 << 18, 2).view(512, 512)
    paired = torch.complex(tensors[1], tensors[2])
    whole = {"all": tensors, "row": tensors[1][1], "conjugates": [paired.conj(), paired], "raw": tensors[1].untyped_storage()}
    memo = {}
    copied = copy.deepcopy(whole, memo)
    again = copy.deepcopy(tensors[1].T, memo)
    copied["row"].zero_()
    evict()
    raw = ctypes.string_at(copied["raw"].data_ptr(), 4096)
    copies = [*copied["all"], copied["all"][0].grad, *copied["conjugates"], again, tensors[1]]
    return [raw, [digest(tensor.resolve_conj()) for tensor in copies]]


@case()
def load_state_dict_writes():
    model, optimizer = trained()
    other, second = trained()
    evict()
    other.load_state_dict(model.state_dict())
    second.load_state_dict(optimizer.state_dict())
    evict()
    return [train(other, second, seed=3), *other.state_dict().values()]


# --- threads and processes -------------------------------------------------------------------------------------------


@case("threads")
def a_new_thread_reads():
    tensor, found = fresh(), []
    evict()
    thread = threading.Thread(target=lambda: found.append((tensor * 2).sum()))
    thread.start()
    thread.join()
    return found


class Rows(torch.utils.data.Dataset):
    def __init__(self):
        self.rows = fresh().view(256, 256)
        self.parent_has_moved = multiprocessing.Event()

    def __len__(self):
        return 64

    def __getitem__(self, index):
        self.parent_has_moved.wait()
        scratch = -self.rows
        evict()
        return self.rows[index] * 2 + scratch[index] * 0.5


@case()
def loader_workers_read():
    """A worker brings memory back for itself and moves nothing: what it wrote to a tier would land on its parent's bytes."""
    rows = Rows()
    evict()
    # A worker that waits for threads the fork left behind would wait for ever; the timeout makes that an error.
    batches = iter(torch.utils.data.DataLoader(rows, 16, num_workers=2, timeout=60))
    moved_after_the_fork = fresh(seed=5)
    evict()
    rows.parent_has_moved.set()
    return [*batches, moved_after_the_fork, rows.rows]


# --- compiled code ---------------------------------------------------------------------------------------------------


@case("compiled_graph", compiles=True)
def a_compiled_model_trains():
    torch.manual_seed(0)
    # The weights of the norm are read by no op; an op makes what the convolution gives, and a kernel reads it.
    model = nn.Sequential(nn.Linear(64, 256), nn.LayerNorm(256), nn.Unflatten(1, (4, 64)), nn.Conv1d(4, 4, 3), nn.GELU(), nn.Flatten(), nn.Linear(248, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    compiled = torch.compile(model)
    losses = []
    for seed in (1, 2, 3):
        evict()
        evict_after_every_op(seed > 1)
        losses.append(train(compiled, optimizer, seed))
        evict_after_every_op(False)
    return [*losses, *model.state_dict().values()]


@case("extensions", compiles=True)
def an_extension_reads_and_writes():
    extension = built("out_of_sight_extension", EXTENSION + BINDINGS)
    tensor = fresh()
    evict()
    total = extension.sum_raw(tensor)
    evict()
    extension.scale_raw(tensor, 3.0)
    evict()
    return [total, tensor.clone()]


@case("late_ops", compiles=True)
def an_operator_loaded_late_reads():
    built("out_of_sight_operators", EXTENSION + OPERATORS, is_python_module=False)
    tensor = fresh()
    evict()
    return torch.ops.out_of_sight.sum_raw(tensor)


# --- two processes, gloo ---------------------------------------------------------------------------------------------


def in_two_processes(work: Callable[[int], object]) -> object:
    """Runs work(rank) here as rank 0 and in a second process of the same command as rank 1."""
    import torch.distributed as distributed

    rank = int(os.environ.get("OUT_OF_SIGHT_RANK", 0))
    with tempfile.TemporaryDirectory() as folder:
        store = os.environ.get("OUT_OF_SIGHT_STORE", f"{folder}/store")
        names = {"OUT_OF_SIGHT_RANK": "1", "OUT_OF_SIGHT_STORE": store}
        other = None
        if rank == 0:
            command = [sys.executable, __file__, *sys.argv[1:]]
            other = subprocess.Popen(command, env=os.environ | names, stdout=subprocess.PIPE)
        limit = timedelta(seconds=60)  # after which a peer that died is an error
        distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2, timeout=limit)
        found = work(rank)
        distributed.destroy_process_group()
        if other is None:
            return found
        said, _ = other.communicate()
        assert other.returncode == 0, f"rank 1 ended with {other.returncode}"
        return [found, said.decode()]


@case()
def collectives_read_and_write():
    import torch.distributed as distributed

    def work(rank):
        tensor, parts = fresh(seed=rank + 1), [torch.zeros(1 << 16) for _ in range(2)]
        evict()
        running = distributed.all_reduce(tensor, async_op=True)
        evict()  # the collective may still be at work on it
        running.wait()
        evict()
        distributed.all_gather(parts, tensor + rank)
        evict()
        distributed.broadcast(tensor, src=1)
        evict()
        return [tensor.clone(), *parts]

    return in_two_processes(work)


@case("ddp")
def data_parallel_trains():
    def work(rank):
        model, _ = trained()
        evict_after_every_op(True)
        parallel = nn.parallel.DistributedDataParallel(model)
        evict_after_every_op(False)
        optimizer = torch.optim.AdamW(parallel.parameters(), lr=1e-2)
        losses = [train(parallel, optimizer, seed=3 * step + rank) for step in range(3)]
        return [*losses, *model.state_dict().values()]

    return in_two_processes(work)


# --- the process -----------------------------------------------------------------------------------------------------


def fingerprint(answer: object) -> str:
    """One digest for whatever a case returned."""
    if isinstance(answer, torch.Tensor):
        return digest(answer)
    if isinstance(answer, (list, tuple)):
        return hashlib.sha256(" ".join(map(fingerprint, answer)).encode()).hexdigest()
    return hashlib.sha256(answer if isinstance(answer, bytes) else repr(answer).encode()).hexdigest()


def main() -> None:
    global throw_out, evict_after_every_op, live_bytes
    parser = argparse.ArgumentParser()
    parser.add_argument("case", choices=CASES)
    parser.add_argument("options", nargs="?", type=json.loads)
    parser.add_argument("--without", metavar="HOOK", nargs="+", default=[])
    chosen = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    if chosen.options is not None:
        import spillway
        from spillway import hooks, native

        spillway.enable(**chosen.options)
        throw_out, evict_after_every_op = native.load().evict_all, native.load().sweep
        live_bytes = lambda: spillway.stats()["live_bytes"]  # noqa: E731
        for hook in chosen.without:
            hooks.disable(hook)
    print(f"answer {fingerprint(CASES[chosen.case].run())}")


HANGS_AFTER = 300  # seconds until a process ends itself; a guard against deadlock


def serve() -> None:
    """For every line [arguments, file for stdout and stderr] a forked child that goes on as that command; answers its end."""
    import torch._dynamo  # noqa: F401  every optimizer imports it when it is made

    import spillway  # noqa: F401

    gc.freeze()  # a child whose collector looks at all that was imported copies the pages it lies in
    for line in sys.stdin:
        arguments, said = json.loads(line)
        child = os.fork()
        if child == 0:
            signal.alarm(HANGS_AFTER)
            file = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0), os.dup2(file, 1), os.dup2(file, 2)
            sys.argv[1:] = arguments
            return
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    sys.exit(0)


if __name__ == "__main__":
    if sys.argv[1:] == ["--serve"]:
        serve()
    main()
