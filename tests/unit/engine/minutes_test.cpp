// What a trace tells of the calls, so that the run can be played again: sim/again_test.cpp plays them.
#include "engine/minutes.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "base/error.h"
#include "trace/check.h"
#include "trace/reader.h"
#include "unit/engine/engine_fixture.h"

namespace spillway {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class MinutesTest : public EngineTest {
 protected:
  MinutesTest() {
    EngineOptions options = this->options();
    options.minutes = true;
    told.emplace(device, owner, device.caller_stream(), options);
  }
  ~MinutesTest() override { std::filesystem::remove(path); }

  void open() {
    const auto lock = told->lock();
    told->open_trace(path);
  }

  Trace close() {
    {
      const auto lock = told->lock();
      told->tape().close();
    }
    return read_trace(path);
  }

  Record* make(Bytes size) {
    Storage& storage = storages_.emplace_back();
    storage.record = told->try_allocate(size, device.caller_stream());
    storage.data = storage.record->data;
    const auto lock = told->lock();
    told->adopt(storage.record, &storage);
    return storage.record;
  }

  static std::vector<CallKind> kinds(const Trace& trace) {
    std::vector<CallKind> kinds;
    for (const Event& event : trace.events) {
      if (const Call* call = std::get_if<Call>(&event); call != nullptr && call->kind != CallKind::answer) kinds.push_back(call->kind);
    }
    return kinds;
  }

  static std::string fact(const Trace& trace) {
    for (const Event& event : trace.events) {
      if (const Fact* fact = std::get_if<Fact>(&event); fact != nullptr && fact->key == "again") return fact->value;
    }
    return {};
  }

  HostDevice device{HostOptions{.granule = kGranule}};
  std::optional<Engine> told;
  const std::string path = std::filesystem::temp_directory_path() / ("minutes_test_" + std::to_string(getpid()) + ".spt");
};

TEST_F(MinutesTest, TellWhatWasAskedInOrder) {
  open();
  Record* record = make(100_KiB);
  const Use use{record, true};
  {
    auto lock = told->lock();
    ASSERT_FALSE(told->acquire(std::span(&use, 1), device.caller_stream(), lock));
    told->release(std::span(&use, 1));
    told->lend(record, lock);
    told->end_loan(record, lock);
  }
  ASSERT_TRUE(told->free(record->data));
  told->end_step();

  const Trace trace = close();

  EXPECT_THAT(kinds(trace), ElementsAre(CallKind::allocate, CallKind::adopt, CallKind::acquire, CallKind::release, CallKind::lend, CallKind::end_loan,
                                        CallKind::free, CallKind::end_step, CallKind::end));
  EXPECT_THAT(trace.events, Contains(Event(Call{CallKind::allocate, {100 * 1024, 0}})));
  EXPECT_THAT(trace.events, Contains(Event(Call{CallKind::acquire, {0, 1}})));
  EXPECT_TRUE(check_trace(trace, 1).empty());
}

TEST_F(MinutesTest, WhatAnOwnerWillNotLetGoIsTold) {
  open();
  Record* record = make(100_KiB);
  owner.named_now = [](Storage&) { return true; };
  told->evict_all(Leave::move);
  owner.named_now = nullptr;
  told->evict_all(Leave::move);
  EXPECT_EQ(record->residence, Residence::away);
  EXPECT_THAT(kinds(close()), ElementsAre(CallKind::allocate, CallKind::adopt, CallKind::evict_all, CallKind::refused, CallKind::evict_all, CallKind::end));
}

TEST_F(MinutesTest, AnotherThreadEndsThem) {
  open();
  (void)make(100_KiB);
  std::thread([&] { (void)make(100_KiB); }).join();
  (void)make(100_KiB);
  EXPECT_THAT(kinds(close()), ElementsAre(CallKind::allocate, CallKind::adopt, CallKind::allocate, CallKind::lost, CallKind::end));
}

TEST_F(MinutesTest, ATraceThatBeginsLaterSaysWhyThereAreNone) {
  (void)make(100_KiB);
  open();
  (void)make(100_KiB);
  const Trace trace = close();
  EXPECT_THAT(kinds(trace), ElementsAre());
  EXPECT_THAT(fact(trace), HasSubstr("no: there were tensors"));
}

TEST_F(MinutesTest, ASecondTraceDoesNotGoOnWithThem) {
  open();
  (void)make(100_KiB);
  (void)close();
  open();
  (void)make(100_KiB);
  EXPECT_THAT(kinds(close()), ElementsAre());
}

// A kernel that runs on several threads: each of them takes memory and gives it back.
TEST_F(MinutesTest, TellWhatThePartsOfAKernelTookOneAfterTheOther) {
  open();
  constexpr int kParts = 4, kTimes = 50;
  {
    std::vector<std::jthread> parts;
    for (int part = 0; part < kParts; ++part) {
      parts.emplace_back([&] {
        for (int i = 0; i < kTimes; ++i) EXPECT_TRUE(told->free(told->try_allocate(200_KiB, device.caller_stream())->data));
      });
    }
  }
  const std::vector<CallKind> all = kinds(close());
  EXPECT_EQ(std::ranges::count(all, CallKind::allocate), kParts * kTimes);
  EXPECT_EQ(std::ranges::count(all, CallKind::free), kParts * kTimes);
  EXPECT_EQ(all.size(), std::size_t{2 * kParts * kTimes + 1});
  EXPECT_EQ(all.back(), CallKind::end);
}

TEST_F(MinutesTest, GoOnUnderAPolicyThatPlans) {
  open();
  told->set_policy(ReactivePolicy::dtr, Leave::cheaper, find_plan_policy("hybrid"));
  (void)make(100_KiB);
  EXPECT_THAT(kinds(close()), ElementsAre(CallKind::set_policy, CallKind::allocate, CallKind::adopt, CallKind::end));
}

TEST(OptionsInWords, AreReadBackAsTheyWere) {
  EngineOptions options;
  options.budget = 123456789_B;
  options.address_space = 64_GiB;
  options.granule = 64_KiB;
  options.alignment = 64_B;
  options.smallest = 1000_B;
  options.host_limit = 3_GiB;
  options.file_limit = 5_GiB;
  options.host_granule = 32_MiB;
  options.policy = ReactivePolicy::lru;
  options.leave = Leave::move;
  options.move_nanos_per_byte = 0.1 + 0.2;  // not a short number
  options.places = false;
  options.poison = true;

  const EngineOptions read = parse_options(to_words(options));

  EXPECT_EQ(to_words(read), to_words(options));
  EXPECT_EQ(read.budget, options.budget);
  EXPECT_EQ(read.host_granule, options.host_granule);
  EXPECT_EQ(read.move_nanos_per_byte, options.move_nanos_per_byte);
  EXPECT_EQ(read.policy, options.policy);
  EXPECT_EQ(read.leave, options.leave);
  EXPECT_FALSE(read.places);
  EXPECT_TRUE(read.poison);
  options.budget.reset();
  EXPECT_EQ(parse_options(to_words(options)).budget, std::nullopt);
}

TEST(OptionsInWords, TellThePlannerAndWhatItsRunsHangOn) {
  EngineOptions options;
  options.plans = find_plan_policy("mimose");
  options.costs = {.out_nanos_per_byte = 0.1, .in_nanos_per_byte = 1.0 / 3, .per_copy = 17_us};

  const EngineOptions read = parse_options(to_words(options));

  EXPECT_EQ(read.plans, options.plans);
  EXPECT_EQ(read.costs.out_nanos_per_byte, 0.1);
  EXPECT_EQ(read.costs.in_nanos_per_byte, 1.0 / 3);
  EXPECT_EQ(read.costs.per_copy, 17_us);
  EXPECT_EQ(parse_options(to_words({})).plans, nullptr);
  EXPECT_THROW((void)parse_options(to_words({}) + " plans=luck"), InputError);
}

TEST(OptionsInWords, WhatIsMissingOrNotUnderstoodIsNamed) {
  const std::string words = to_words({});
  const auto without = [&](const std::string& word) { return words.substr(0, words.find(word)); };
  for (const auto& [told, named] : {std::pair(without("smallest"), "smallest"), std::pair("policy=best leave=move" + without("policy"), "best"),
                                    std::pair(without("granule=") + "granule=x", "granule")}) {
    try {
      (void)parse_options(told);
      ADD_FAILURE() << told;
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr(named));
    }
  }
}

}  // namespace
}  // namespace spillway
