// For threads of our own inside somebody else's program.
#pragma once

#include <pthread.h>
#include <signal.h>

namespace spillway {

// Signals of the program are for the program's own threads. Faults stay open: they belong to the thread that caused
// them.
inline void leave_signals_to_others() {
  sigset_t mask;
  sigfillset(&mask);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) sigdelset(&mask, fault);
  pthread_sigmask(SIG_BLOCK, &mask, nullptr);
}

}  // namespace spillway
