// What the engine knows of one storage: where its bytes are, who needs them now, and how they can come back.
//
// A record is made when memory is allocated and lives until nobody refers to it: longer than the memory (the storage may
// be away) and longer than the storage (a dead storage may still be an ingredient of another's recipe).
//
//   bytes on the device  <=>  residence is resident
//   may leave            <=>  resident, owned or orphaned, not pinned, not exposed, at least the smallest size worth it
//
// All fields belong to the engine's lock.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "arena/arena.h"
#include "base/error.h"
#include "base/tick.h"
#include "base/units.h"
#include "engine/recipe.h"
#include "swap/mover.h"

namespace spillway {

enum class Residence : std::uint8_t {
  resident,  // on the device; a pending arrival may still be under way
  arriving,  // a thread is bringing it home
  away,      // bytes in a lower tier
  dropped,   // bytes nowhere: rebuilt by its recipes
  gone,      // the storage died and its memory is freed; kept only as an ingredient
};

struct Record {
  StorageId id;           // in the order of birth; the tape has numbers of its own
  Bytes size;
  Block block;
  std::byte* data = nullptr;
  std::byte* stand_in = nullptr;  // the address its storage shows while the bytes are away
  void* owner = nullptr;  // the adapter's storage; null: not a storage anybody showed us (workspace, temporary)
  Residence residence = Residence::resident;
  bool orphan = false;    // its storage died, its bytes are kept for those that are rebuilt from it
  bool held = false;      // its address left our sight: stays for life
  bool named = false;     // stays while the interpreter refers to its storage by name: it did when last asked
  bool apart = false;     // lies apart, or its way home leads there: see apart.h
  bool homeless = false;  // it was to leave, and there was no room for it below
  bool loose = false;     // may leave although its storage is referred to by name
  bool again = false;     // dropped: rebuilt for another's rebuild, it leaves again after that
  bool outlives = false;  // a plan keeps its bytes beyond its storage's death
  bool hidden = false;    // made by a rebuild: the run without us would not have it
  std::uint32_t pins = 0;
  std::uint32_t kept = 0;        // of these: by regions
  std::uint32_t shown = 0;       // how often somebody outside asked for its bytes
  std::uint32_t loans = 0;       // who outside has its address and will say when they are done
  std::uint32_t refs = 0;        // recipes and running evictions that name this record
  std::uint32_t dependents = 0;  // dropped records whose recipes need these bytes
  std::uint32_t epoch = 0;       // raised by every write
  std::uint32_t departures = 0;  // how often it left
  std::optional<std::uint32_t> gap;  // the plan's it left for, the last time; none: it left beside any plan
  std::uint64_t streams = 0;     // bit per stream that used the block since it was granted
  std::uint64_t last_use = 0;    // the engine's op counter
  std::uint64_t forward_use = 0; // the same, of the forward's last op that used it; 0: none did, or the backward has since
  std::uint64_t born = 0;
  std::uint64_t born_step = 0;
  const char* maker = nullptr;   // the operator it was allocated in, while that is registered
  mutable std::uint64_t surveyed = 0;  // the latest survey of ancestors that met it
  std::uint64_t unwilling = 0;   // Engine::asking() when its storage would not let go of it
  std::optional<Tick> arrival;   // its way in; streams in `arrived_on` have waited for it
  std::uint64_t arrived_on = 0;
  Tick read_until;               // the newest copy out of its block, good or not: the memory is read until then
  std::optional<LowerCopy> copy; // its bytes in a lower tier; while resident: a clean copy
  std::vector<Recipe*> recipes;     // every op that wrote it since its birth, in order; empty: it can only move
  std::vector<Record*> leaves;      // while dropped: the living records it will be rebuilt from
  std::uint32_t listed = kUnlisted;  // its place in the RecordList it is in

  static constexpr std::uint32_t kUnlisted = UINT32_MAX;

  // Somebody outside may read and write its bytes unseen: it stays where it is, and nothing is rebuilt from it.
  [[nodiscard]] bool exposed() const { return held || loans > 0; }
};

// What an op does with a storage.
struct Use {
  Record* record = nullptr;
  bool write = false;
};

// Records of one kind, in no order that means anything but the same one in every run. A record is in one list at most and knows
// its place there, so that coming and going costs neither a hash nor an allocation: most storages are in one before they end.
class RecordList {
 public:
  void insert(Record* record) {
    if (contains(record)) return;
    SPILLWAY_ENSURE(record->listed == Record::kUnlisted, "a record is in one list at most");
    record->listed = static_cast<std::uint32_t>(records_.size());
    records_.push_back(record);
  }
  // Nothing happens to one that is not here.
  void erase(Record* record) {
    if (!contains(record)) return;
    Record* last = records_.back();
    records_[record->listed] = last;
    last->listed = record->listed;
    record->listed = Record::kUnlisted;
    records_.pop_back();
  }
  [[nodiscard]] bool contains(const Record* record) const { return record->listed < records_.size() && records_[record->listed] == record; }
  [[nodiscard]] bool empty() const { return records_.empty(); }
  [[nodiscard]] auto begin() const { return records_.begin(); }
  [[nodiscard]] auto end() const { return records_.end(); }

 private:
  std::vector<Record*> records_;
};

// A storage's birth and death must not cost an allocation: records that are done with lie here until the next birth, with
// the room their lists have grown. All of them live as long as the shelf.
class RecordShelf {
 public:
  RecordShelf() = default;
  RecordShelf(const RecordShelf&) = delete;
  RecordShelf& operator=(const RecordShelf&) = delete;

  [[nodiscard]] Record* take() {
    if (spare_.empty()) return &all_.emplace_back();
    Record* record = spare_.back();
    spare_.pop_back();
    return record;
  }

  void put(Record* record) {
    auto recipes = std::move(record->recipes);
    auto leaves = std::move(record->leaves);
    recipes.clear();
    leaves.clear();
    *record = Record{};
    record->recipes = std::move(recipes);
    record->leaves = std::move(leaves);
    spare_.push_back(record);
  }

  template <class Visit>
  void for_each(Visit visit) {
    for (Record& record : all_) visit(record);
  }

 private:
  std::deque<Record> all_;
  std::vector<Record*> spare_;
};

}  // namespace spillway
