#include "liveness/gaps.h"

namespace spillway {
namespace {

class GapFinder {
 public:
  explicit GapFinder(const Liveness& liveness) : liveness_(liveness) {}

  std::vector<Gap> find() {
    for (StoragePlace at = 0; at < liveness_.storage_count(); ++at) visit(at);
    return std::move(gaps_);
  }

 private:
  void add(Gap gap) {
    if (gap.begin < gap.end) gaps_.push_back(gap);
  }

  void visit(StoragePlace at) {
    const LiveStorage& storage = liveness_.storages()[at];
    OpPlace idle_since = storage.birth;
    std::uint32_t version = 0;
    bool head = storage.continues;
    for (const Access& access : liveness_.accesses_of(at)) {
      if (!head) add({at, idle_since, access.op, version, GapEnd::access});
      head = false;
      idle_since = access.op + 1;
      version = access.version + access.writes;
    }
    if (!storage.after && !head) add({at, idle_since, storage.death, version, GapEnd::death});
    if (storage.after) add(tail({at, idle_since, liveness_.op_count(), version, GapEnd::unseen}, storage.next));
  }

  // How the gap that reaches the step's end goes on in the next one.
  [[nodiscard]] Gap tail(Gap gap, StoragePlace next) const {
    if (next == kNoPlace) return gap;
    if (const auto accesses = liveness_.accesses_of(next); !accesses.empty()) {
      gap.end += accesses.front().op;
      gap.ends = GapEnd::access;
    } else if (!liveness_.storages()[next].after) {
      gap.end += liveness_.storages()[next].death;
      gap.ends = GapEnd::death;
    }
    return gap;
  }

  const Liveness& liveness_;
  std::vector<Gap> gaps_;
};

}  // namespace

std::vector<Gap> find_gaps(const Liveness& liveness) { return GapFinder(liveness).find(); }

}  // namespace spillway
