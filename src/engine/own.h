// What the engine knows of the calling thread alone.
#pragma once

#include <vector>

#include "base/units.h"

namespace spillway {

struct Record;

// Home for as long as the rebuild of another takes.
struct Guest {
  Record* record;
  std::vector<Record*> leaves;
};

struct Own {
  int in_flight = 0;   // ops that hold pins: an op inside another's rebuild counts too
  int turns = 0;       // see Note [A turn alone]
  int rebuilding = 0;
  std::vector<Guest>* guests = nullptr;  // of the outermost of these
  bool comes_again = false;  // the op that runs can be given up and run once more
  bool crowded = false;      // memory was refused beside ops of other threads
  int idle_waits = 0;        // in a row for memory, in which nobody got on
  // Of the op that runs: what it has made and not freed, the most of that, and what could not leave when it began.
  bool metered = false;
  Bytes made, most, cannot_leave;
  bool beside_rebuild = false;  // another thread's, whose temporaries are among what could not leave
};

extern thread_local Own own __attribute__((tls_model("initial-exec")));

}  // namespace spillway
