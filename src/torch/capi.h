// C entry points of libspillway_torch.so. Results: 0 fine, 1 failed, 2 bad input, 3 out of memory; spillway_last_error() says why, in the
// calling thread. All may be called with or without the interpreter's lock.
#pragma once

#define SPILLWAY_API extern "C" __attribute__((visibility("default")))

SPILLWAY_API const char* spillway_last_error();
SPILLWAY_API int spillway_enable(const char* options_json);
SPILLWAY_API int spillway_disable();
SPILLWAY_API int spillway_thread_on();
SPILLWAY_API int spillway_thread_off();
SPILLWAY_API int spillway_step();
SPILLWAY_API int spillway_phase(int phase);
SPILLWAY_API int spillway_set_budget(long long bytes);
SPILLWAY_API const char* spillway_stats();
SPILLWAY_API int spillway_materialize(void* tensor_impl, int flag);
SPILLWAY_API int spillway_materialize_many(void* const* tensor_impls, const int* flags, int count);
SPILLWAY_API int spillway_storage_materialize(void* storage_impl, int flag);
// The allocator of CPU tensors; Python's storages ask torch's default one otherwise, past us.
SPILLWAY_API int spillway_cpu_allocator(void** allocator);
// Whether it may leave although Python holds the storage object: nobody reads through that one.
SPILLWAY_API int spillway_storage_loosen(void* storage_impl, int loose);
// 1 if its memory came from us; before the first enable() none did.
SPILLWAY_API int spillway_storage_is_ours(void* storage_impl, int* ours);
// As materialize for life, but only until the loan ends; `*loan` is null where there is nothing to end.
SPILLWAY_API int spillway_lend(void* tensor_impl, void** loan);
SPILLWAY_API int spillway_end_loan(void* loan);
// Leaves it to the deleter of a DLManagedTensor or, `versioned`, DLManagedTensorVersioned; `loan` may be null.
SPILLWAY_API int spillway_end_loan_with_dlpack(void* loan, void* managed, int versioned);
SPILLWAY_API int spillway_region_begin();
SPILLWAY_API int spillway_region_end();
SPILLWAY_API int spillway_role(void* tensor_impl, int kind);
SPILLWAY_API int spillway_late_ops();
SPILLWAY_API int spillway_after_fork_child();
// The trace is whole and closed from here on; what happens later is not in it.
SPILLWAY_API int spillway_end_trace();
SPILLWAY_API int spillway_evict_all();
SPILLWAY_API int spillway_sweep(int mode);
// For tests: this tensor's storage is dropped now. 2: it cannot be.
SPILLWAY_API int spillway_drop(void* tensor_impl);
// Lean rebuilds: none (0), by proven rules (1), by all (2, for the tests that prove them).
SPILLWAY_API int spillway_lean(int mode);
SPILLWAY_API int spillway_step_aside_for_handlers();
SPILLWAY_API int spillway_watch_faults_again();
