// For threads of our own inside somebody else's program.
#pragma once

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <initializer_list>

namespace spillway {

// Signals of the program are for the program's own threads. Faults stay open: they belong to the thread that caused
// them.
inline void leave_signals_to_others() {
  sigset_t mask;
  sigfillset(&mask);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) sigdelset(&mask, fault);
  pthread_sigmask(SIG_BLOCK, &mask, nullptr);
}

// The calling thread gets a tenth of a core that others want, and all of one that nobody does. Operators that run on all cores
// wait for their slowest part: ResNet-18 on two cores took 2.5 times as long beside a thread of equal rank (`spillway run
// --device cpu`, steps while plans are sought). There is no way back, and a system that refuses leaves things as they are.
inline void give_way_to_others() {
  constexpr int kBehind = 10;  // in nice levels: 110 of 1024 shares (sched_prio_to_weight)
  const auto thread = static_cast<id_t>(gettid());
  const int now = getpriority(PRIO_PROCESS, thread);
  if (now < kBehind) (void)setpriority(PRIO_PROCESS, thread, kBehind);
}

}  // namespace spillway
