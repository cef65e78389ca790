// Tells of reads that nobody saw coming: a fault at the address of a storage that is away is described on standard error,
// with the operator, the storage and what would help, before it goes the way it would have gone without us.
//
// Other faults are passed on untouched. The handlers of others are called after ours; the default action strikes at the
// faulting instruction, so exit code and core dump are the plain ones.
#pragma once

#include "torch/no_access.h"

namespace spillway {

// `pool`: addresses where memory comes and goes, told as such. Both live as long as the process. Idempotent.
void watch_faults(const NoAccess& away, const std::byte* pool, Bytes pool_length);

// Takes our handlers out and puts them in again: around whoever installs handlers of his own and keeps what he finds.
void step_aside_for_handlers();
void watch_faults_again();

}  // namespace spillway
