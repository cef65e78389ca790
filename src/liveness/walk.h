// Follows a trace up to the end of one step and keeps what Liveness is built from.
//
// Events before the step tell who lives when it begins and at which place of the step before it was born; those after
// it only which kind a storage turned out to be.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "liveness/liveness.h"

namespace spillway {

// Every output is a view of an input, every input has one, nothing is written: no byte is touched.
[[nodiscard]] bool only_views(const Op& op);

class StepWalk {
 public:
  explicit StepWalk(const WholeStep& step) : job_(step.job) {}

  void before(const Event& event) {
    std::visit([&](const auto& one) { follow(one); }, event);
  }
  void begin();
  void inside(const Event& event, const Trace& trace);
  void end();
  // At any time: the last word on a kind counts.
  void learn(const StorageRole& role);

  std::vector<LiveOp> ops;
  std::vector<LiveStorage> storages;
  std::vector<Access> accesses;
  std::vector<std::uint32_t> op_begin{0};

 private:
  // Where in which step of the job a storage was born: equal spots of two steps play the same part. Counted are only
  // those that outlive the moment: a run under a budget makes temporaries between two ops, now here, now there.
  struct Spot {
    std::uint32_t op = 0, nth = 0;
    friend bool operator==(const Spot&, const Spot&) = default;
  };
  struct SpotHash {
    std::size_t operator()(const Spot& spot) const { return (std::size_t{spot.op} << 32) + spot.nth; }
  };
  struct Living {
    StorageBirth birth;
    std::uint32_t step = 0;
    Spot spot;
    StoragePlace place = kNoPlace;  // once it is part of the step
  };

  template <class E>
  void follow(const E&) {}
  void follow(const StepBegin& begin);
  void follow(const StorageBirth& birth);
  void follow(const StorageDeath& death);
  void follow(const StorageRole& role);
  void follow(const Op& op);
  void follow(const Restart& restart);

  void admit(Living& living, bool before);
  void add_op(const Op& op, const Trace& trace);
  void number_newborn();
  void add_access(StorageId id, bool reads, bool writes);
  void link_steps();

  JobId job_;
  bool recording_ = false;
  std::uint32_t step_ = 1;  // of the job, counted; jumps where events are missing, so that no neighbours are seen there
  std::uint32_t ops_seen_ = 0;      // in the open step
  std::uint32_t order_ = 0;         // births and deaths in the step so far
  std::vector<StorageId> newborn_;  // since the latest op
  std::unordered_map<StorageId, Living> living_;
  std::unordered_map<StorageId, StoragePlace> places_;
  std::vector<Living> origins_;           // by storage place
  std::vector<std::uint32_t> writes_;     // by storage place: so far
  std::vector<std::uint32_t> access_at_;  // by storage place: its latest access, in `accesses`
};

}  // namespace spillway
