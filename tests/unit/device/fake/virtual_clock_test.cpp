#include "device/fake/virtual_clock.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <random>

#include "unit/device/fake/round_card.h"

namespace spillway {
namespace {

constexpr std::uint32_t kStreams = 4;

enum class Do { kernel, out, in, tick, wait };

struct Command {
  Do what;
  std::uint32_t stream;
  std::int64_t amount = 0;  // nanoseconds or bytes
  Tick tick;                // to wait for
};

// Random programs of kernels, copies, ticks and waits for ticks recorded before.
std::vector<Command> random_program(std::mt19937& random) {
  std::vector<Command> program;
  std::array<std::uint64_t, kStreams> recorded{};
  for (int i = 0; i < 40; ++i) {
    const auto what = static_cast<Do>(random() % 5);
    const std::uint32_t stream = random() % kStreams, other = random() % kStreams;
    if (what == Do::wait && recorded[other] == 0) continue;
    if (what == Do::tick) ++recorded[stream];
    const std::uint64_t value = recorded[other] > 0 ? 1 + random() % recorded[other] : 0;
    program.push_back({what, stream, 1 + static_cast<std::int64_t>(random() % 300), {{other}, value}});
  }
  for (std::uint32_t stream = 0; stream < kStreams; ++stream) program.push_back({Do::tick, stream});
  return program;
}

std::map<Tick, Nanos> times_of(VirtualClock& timeline, const std::vector<Command>& program, std::mt19937* look) {
  std::vector<Tick> ticks;
  for (std::uint32_t i = 0; i < kStreams; ++i) (void)timeline.open_stream();
  for (const Command& command : program) {
    const StreamId on{command.stream};
    switch (command.what) {
      case Do::kernel: timeline.compute(on, {command.amount}); break;
      case Do::out: timeline.copy(on, {Tier::host, 0_B}, {Tier::device, 0_B}, {command.amount}); break;
      case Do::in: timeline.copy(on, {Tier::device, 0_B}, {Tier::host, 0_B}, {command.amount}); break;
      case Do::tick: ticks.push_back(timeline.record(on)); break;
      case Do::wait: timeline.wait(on, command.tick); break;
    }
  }
  if (look) {
    for (int i = 0; i < 1000; ++i) timeline.advance_to(timeline.now() + Nanos{static_cast<std::int64_t>((*look)() % 7)});
  }
  std::map<Tick, Nanos> times;
  for (Tick tick : ticks) {
    timeline.advance_until_done(tick);
    times[tick] = timeline.time_of(tick);
  }
  return times;
}

// The oracle: the rules of the header, one nanosecond at a time, with the round card's figures written out. A kernel
// nanosecond is 330 parts, of which 330, 300, 264 or 220 pass per nanosecond (1, 1.1, 1.25, 1.5 times as long).
class SlowClock {
 public:
  explicit SlowClock(const std::vector<Command>& program) {
    for (const Command& command : program) {
      Command work = command;
      if (work.what == Do::kernel) work.amount *= 330;
      queues_[command.stream].push_back(work);
      pass_and_line_up();
    }
    while (pending()) one_nanosecond();
  }

  std::map<Tick, Nanos> times;

 private:
  [[nodiscard]] bool pending() const {
    return std::ranges::any_of(queues_, [](const auto& queue) { return !queue.empty(); });
  }

  bool pass(std::uint32_t stream) {
    auto& queue = queues_[stream];
    if (queue.empty()) return false;
    const Command& head = queue.front();
    if (head.what == Do::tick) {
      times[{{stream}, ++done_[stream]}] = Nanos{now_};
    } else if (head.what != Do::wait || done_[head.tick.stream.index] < head.tick.value) {
      return false;
    }
    queue.pop_front();
    return true;
  }

  void pass_and_line_up() {
    bool changed = true;
    while (changed) {
      changed = false;
      for (std::uint32_t i = 0; i < kStreams; ++i) changed = pass(i) || changed;
    }
    for (std::uint32_t i = 0; i < kStreams; ++i) {
      if (queues_[i].empty() || lined_up_[i] || queues_[i].front().what == Do::wait) continue;
      lines_[queues_[i].front().what].push_back(i);
      lined_up_[i] = true;
    }
  }

  void one_nanosecond() {
    const bool out = !lines_[Do::out].empty(), in = !lines_[Do::in].empty();
    const std::int64_t link = out && in ? 8 : 10;
    const std::int64_t kernel = out && in ? 220 : in ? 264 : out ? 300 : 330;
    ++now_;
    for (auto& [what, line] : lines_) {
      if (line.empty()) continue;
      Command& work = queues_[line.front()].front();
      work.amount -= what == Do::kernel ? kernel : link;
      if (work.amount > 0) continue;
      queues_[line.front()].pop_front();
      lined_up_[line.front()] = false;
      line.pop_front();
    }
    pass_and_line_up();
  }

  std::int64_t now_ = 0;
  std::array<std::deque<Command>, kStreams> queues_;
  std::array<std::uint64_t, kStreams> done_{};
  std::array<bool, kStreams> lined_up_{};
  std::map<Do, std::deque<std::uint32_t>> lines_;
};

TEST(VirtualClock, AgreesWithAClockThatGoesNanosecondByNanosecond) {
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    const auto program = random_program(random);
    VirtualClock timeline(round_card());
    ASSERT_EQ(times_of(timeline, program, nullptr), SlowClock(program).times) << "program " << round;
  }
}

TEST(VirtualClock, DoesNotDependOnHowOftenItIsLookedAt) {
  std::mt19937 random(12), look(13);
  for (int round = 0; round < 100; ++round) {
    const auto program = random_program(random);
    VirtualClock one(round_card()), other(round_card());
    ASSERT_EQ(times_of(one, program, nullptr), times_of(other, program, &look)) << "program " << round;
  }
}

}  // namespace
}  // namespace spillway
