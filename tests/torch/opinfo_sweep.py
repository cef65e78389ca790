"""Every operator of torch's own database, plain and with everything evicted after every op: same bits.

One JSON line per operator on standard output: {"op", "status": equal | differs | unstable | error | none, "dtype", "samples",
"backward", "why"}; unstable: two plain runs differ already. An operator that does not know the dtype asked for is left out, or
with --any-dtype taken in one it knows.
A line {"begin": op} comes first, so that whoever reads can name the operator that ended the process. Inputs are evicted
before the first op; forward, in-place and out= forms and backward are run; outputs, gradients, inputs and the random
state are compared as raw bytes.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import warnings

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_map

from spillway import hooks, native

# Results that are uninitialised memory: plain differs from plain when fresh memory is filled differently. These and no others.
UNDEFINED = {"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"}
UNDEFINED_OUT = {"fft.ihfft2", "fft.ihfftn"}  # with out= only
UNDEFINED_DRIVER = {"linalg.lstsq"}  # LAPACK's gelsy reads an uninitialised pivot array
AGAIN = 5  # more plain runs, to tell an operator that is not deterministic by itself from one that we changed

OTHER_DTYPES = (torch.float32, torch.int64, torch.complex64, torch.bool)


def pick_dtype(known, wanted, any_dtype):
    return next((dtype for dtype in (wanted, *(OTHER_DTYPES if any_dtype else ())) if dtype in known), None)


def raw(value):
    """The bytes of a result that a reader could see."""
    if not isinstance(value, torch.Tensor):
        return repr(value).encode()
    if value.is_sparse or value.layout is not torch.strided:
        value = value.detach().to_dense()
    flat = value.detach().resolve_conj().resolve_neg().reshape(-1).clone(memory_format=torch.contiguous_format)
    return str((value.dtype, tuple(value.shape))).encode() + bytes(flat.view(torch.uint8).tolist())


def copies(tree, requires_grad):
    def copy(value):
        if not isinstance(value, torch.Tensor):
            return value
        made = value.detach().clone()
        return made.requires_grad_() if requires_grad and value.requires_grad else made

    return tree_map(copy, tree)


def run_form(call, sample, library, mode, with_backward, requires_grad):
    """One run of one form: everything it gives, as bytes. Exceptions are results too."""
    library.thread_on()  # the sample itself may have left: reading it is an op like any other
    args, kwargs = copies(((sample.input, *sample.args), sample.kwargs), requires_grad)
    torch.manual_seed(7)
    if not mode:
        library.thread_off()
    else:
        library.sweep(mode)
        library.evict_all()
    seen, backwards = [], 0
    try:
        outcome = call(*args, **kwargs)
        results = [value for value in tree_flatten(outcome)[0] if isinstance(value, torch.Tensor)]
        if with_backward:
            backwards = backward(results, seen)
        collected = [*results, *(v for v in tree_flatten((args, kwargs))[0] if isinstance(v, torch.Tensor))]
        grads = [v.grad for v in tree_flatten((args, kwargs))[0] if isinstance(v, torch.Tensor) and v.grad is not None]
    except (RuntimeError, NotImplementedError, TypeError, ValueError, IndexError, AttributeError) as error:
        collected, grads = [], []
        seen.append(type(error).__name__.encode())
    finally:
        if mode:
            library.sweep(0)
    seen += [raw(value) for value in (*collected, *grads)]
    seen.append(raw(torch.random.get_rng_state()))
    if torch.cuda.is_initialized():
        seen.append(raw(torch.cuda.get_rng_state()))
    if mode:
        library.thread_off()
    return seen, backwards


def backward(results, seen):
    roots = [value for value in results if value.requires_grad and (value.is_floating_point() or value.is_complex())]
    if not roots:
        return 0
    generator = torch.Generator().manual_seed(3)
    gradients = []
    for value in roots:
        like = torch.rand(value.shape, generator=generator, dtype=torch.float64).to(value.device, value.dtype)
        gradients.append(like)
    try:
        torch.autograd.backward(roots, gradients)
    except (RuntimeError, NotImplementedError) as error:
        seen.append(type(error).__name__.encode())
        return 0
    return 1


def forms(op, sample, requires_grad):
    yield "forward", op.op, requires_grad
    inplace = op.get_inplace()
    if inplace is not None and not sample.broadcasts_input and not requires_grad:
        yield "in-place", inplace, False
    if op.supports_out and not requires_grad and op.name not in UNDEFINED_OUT:
        def with_out(*args, **kwargs):
            made = op.op(*args, **kwargs)
            out = tree_map(lambda v: torch.empty_like(v) if isinstance(v, torch.Tensor) else v, made)
            op.op(*args, **kwargs, out=out)
            return out

        yield "out", with_out, False


def sweep_op(op, device, dtype, library, mode, limit):
    requires_grad = dtype.is_floating_point or dtype.is_complex
    requires_grad = requires_grad and op.supports_autograd
    samples = backwards = 0
    # All at once: later samples may be made from earlier ones, which will have left by then.
    for sample in itertools.islice(list(op.sample_inputs(device, dtype, requires_grad=requires_grad)), limit):
        if op.name in UNDEFINED_DRIVER and sample.kwargs.get("driver") in (None, "gelsy"):
            continue
        samples += 1
        for grad in (True, False) if requires_grad else (False,):
            for name, call, with_backward in forms(op, sample, grad):
                plain, _ = run_form(call, sample, library, 0, with_backward, grad)
                ours, ran = run_form(call, sample, library, mode, with_backward, grad)
                backwards += ran
                if plain != ours:
                    place = next((i for i, pair in enumerate(zip(plain, ours)) if pair[0] != pair[1]), -1)
                    again = [run_form(call, sample, library, 0, with_backward, grad)[0] for _ in range(AGAIN)]
                    status = "differs" if all(run == plain for run in again) else "unstable"
                    return status, samples, backwards, f"{name}, sample {samples - 1}, result {place}"
    return ("equal" if samples else "none"), samples, backwards, ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mode", choices=("move", "replay"), required=True)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--samples", type=int, default=6)
    parser.add_argument("--every", type=int, default=1, help="take every n-th operator")
    parser.add_argument("--offset", type=int, default=0, help="counted from this one")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--only", default=None)
    parser.add_argument("--any-dtype", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.autograd.set_multithreading_enabled(False)
    dtype = getattr(torch, options.dtype)
    library = native.load()
    if options.device == "cuda":
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.utils.deterministic.fill_uninitialized_memory = False
    library.enable({"budget_bytes": 8 << 30, "device": options.device, "policy": "dtr", "host_limit_bytes": 4 << 30,
                    "spill_dir": None, "min_evict_bytes": 1})
    hooks.install(library)
    library.thread_off()
    for index, op in enumerate(op_db):
        if index < options.first or index % options.every != options.offset or (options.only and op.name != options.only):
            continue
        label = op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")
        print(json.dumps({"begin": label, "index": index}), flush=True)
        status, samples, backwards, why = "none", 0, 0, ""
        known = pick_dtype(op.supported_dtypes(options.device), dtype, options.any_dtype)
        if op.name in UNDEFINED:
            why = "its result is uninitialised memory"
        elif known is None or "jiterator" in op.name:  # jiterated operators claim dtypes of the CPU and need a card
            why = "knows no such dtype on this device"
        else:
            try:
                status, samples, backwards, why = sweep_op(op, options.device, known, library, 1 if options.mode == "move" else 2, options.samples)
            except Exception as error:  # noqa: BLE001 - a broken sample of torch's own is a result here
                status, why = "error", f"{type(error).__name__}: {str(error)[:200]}"
        print(json.dumps({"op": label, "status": status, "dtype": str(known), "samples": samples, "backward": backwards, "why": why}), flush=True)
    print(json.dumps({"stats": library.stats()}), flush=True)


if __name__ == "__main__":
    sys.exit(main())
