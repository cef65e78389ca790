// Random blocks on a simulated card that finds every unordered access, whatever the timing.
//
// Where pool_poison_test needs two owners to collide in time, the card's race detector judges by order alone: it throws
// on the first access that no wait, no host wait and no stream order puts after the one before it.
#include <gtest/gtest.h>

#include <vector>

#include "arena/arena.h"
#include "device/fake/fake_device.h"
#include "pool_dice.h"
#include "pool_test_length.h"

namespace spillway::shadow {
namespace {

Card small_card() {
  Card card = find_card("a100-80g");
  card.memory = 64_MiB;
  card.granule = 64_KiB;
  return card;
}

class RaceDriver {
 public:
  RaceDriver(std::uint64_t seed, std::size_t streams) : dice_(seed), device_(small_card(), {.detect_races = true}) {
    for (std::size_t i = 0; i < streams; ++i) streams_.push_back(device_.open_stream());
  }

  PoolStats run(std::int64_t ops) {
    for (std::int64_t op = 0; op < ops; ++op) step();
    arena_.verify();
    return arena_.stats();
  }

 private:
  struct Live {
    Block block;
    std::vector<Tick> uses;
  };

  void step() {
    device_.advance(Nanos{dice_.between(0, 20'000)});
    const StreamId on = streams_[dice_.below(streams_.size())];
    if (dice_.percent(1)) arena_.trim();
    if (dice_.below(24) >= live_.size()) return allocate(on);
    Live& live = live_[dice_.below(live_.size())];
    if (dice_.percent(30)) return pass_to(live, on);
    arena_.free(live.block, live.uses);
    live = live_.back();
    live_.pop_back();
  }

  void allocate(StreamId on) {
    const Bytes size{dice_.between(1, (512_KiB).count >> dice_.below(8))};
    const std::optional<Block> block = arena_.try_allocate(size, on);
    if (!block) return;
    live_.push_back({*block, {write(*block, on)}});
  }

  // The last user's work comes before; the arena learns of the wait.
  void pass_to(Live& live, StreamId on) {
    arena_.wait(on, live.uses.back());
    const Tick tick = write(live.block, on);
    std::erase_if(live.uses, [&](Tick use) { return use.stream == on; });
    live.uses.push_back(tick);
  }

  Tick write(const Block& block, StreamId on) {
    const MemoryUse use{{Tier::device, block.range.begin}, block.range.length(), /*writes=*/true};
    device_.compute(on, Nanos{dice_.between(1'000, 200'000)}, std::span(&use, 1));
    return device_.record(on);
  }

  Dice dice_;
  FakeDevice device_;
  Arena arena_{device_, Tier::device, {.address_space = 8_MiB, .limit = 2_MiB, .granule = 64_KiB, .slab = 64_KiB}};
  std::vector<StreamId> streams_;
  std::vector<Live> live_;
};

TEST(PoolRaces, AreNotFoundByACardThatLooksForThem) {
  std::int64_t orderable = 0;
  for (std::uint64_t seed = 1; seed <= 7; ++seed) {
    const PoolStats stats = RaceDriver(seed, 1 + seed).run(test_length(4'000));
    orderable += stats.grants[static_cast<std::size_t>(GrantClass::orderable)];
  }
  EXPECT_GT(orderable, 0);
}

}  // namespace
}  // namespace spillway::shadow
