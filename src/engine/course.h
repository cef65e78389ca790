// Where the run is on its script: which op comes next, who left by it, whose way back is due. Belongs to the engine's lock.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/record.h"
#include "engine/script.h"

namespace spillway {

struct Course {
  // A record outlives its storage, and may have been home since: the numbers tell.
  struct Gone {
    Record* record = nullptr;
    StorageId id;
    std::uint32_t departure = 0;

    [[nodiscard]] bool is_still_away() const {
      return record != nullptr && record->id == id && record->departures == departure && record->residence == Residence::away;
    }
  };

  std::shared_ptr<const Script> script;  // null: nothing to follow
  bool on = false;                       // this step has gone by the script so far
  std::size_t next = 0;
  std::vector<Gone> gone;                // by gap
  std::vector<std::uint32_t> due;        // gaps whose way back waits for room
  int steps = 0;                         // begun by this script
  int missed = 0;                        // steps in a row that went another way
  int surprises = 0;                     // in this step: room that had to be made though the plan had enough

  void set(std::shared_ptr<const Script> made) {
    script = std::move(made);
    gone.assign(script ? script->gap_count() : 0, {});
    missed = steps = 0;
  }
  void begin_step() {
    on = script != nullptr;
    steps += on ? 1 : 0;
    next = 0;
    surprises = 0;
    due.clear();
  }
};

}  // namespace spillway
