#include "device/host/worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <memory>
#include <stdexcept>
#include <vector>

#include "base/error.h"

namespace spillway {
namespace {

std::string failure(const Worker& worker, std::uint64_t tick) {
  worker.block_until(tick);
  try {
    worker.check(tick);
  } catch (const DeviceError& error) {
    return error.what();
  }
  return "none";
}

TEST(Worker, RunsTasksInOrderOnItsOwnThread) {
  Worker worker;
  std::vector<int> order;
  std::thread::id ran_on;
  for (int i = 0; i < 100; ++i) worker.run([&, i](Bounce&) { order.push_back(i), ran_on = std::this_thread::get_id(); });
  worker.block_until(worker.record());
  ASSERT_EQ(order.size(), 100U);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
  EXPECT_NE(ran_on, std::this_thread::get_id());
}

//            tick 1     tick 2                     tick 3
// worker   [task ok]  [task throws]  [task skipped]
TEST(Worker, FailsEveryTickAfterATaskThatThrewAndNoneBefore) {
  Worker worker;
  bool ran_after = false;
  worker.run([](Bounce&) {});
  const auto before = worker.record();
  worker.run([](Bounce&) { throw DeviceError("the disk is gone"); });
  const auto at = worker.record();
  worker.run([&](Bounce&) { ran_after = true; });
  const auto after = worker.record();
  EXPECT_EQ(failure(worker, after), "the disk is gone");
  EXPECT_EQ(failure(worker, at), "the disk is gone");
  EXPECT_EQ(failure(worker, at), "the disk is gone") << "told once, told always";
  EXPECT_EQ(failure(worker, before), "none");
  EXPECT_FALSE(ran_after);
}

TEST(Worker, HandsItsFailureToWhoeverWaitsForIt) {
  Worker broken, waiter, last;
  broken.run([](Bounce&) { throw std::runtime_error("lost bytes"); });
  const auto before = waiter.record();
  waiter.wait_for(broken, broken.record());
  last.wait_for(waiter, waiter.record());
  EXPECT_EQ(failure(last, last.record()), "lost bytes");
  EXPECT_EQ(failure(waiter, before), "none");
}

TEST(Worker, KeepsTheFirstFailure) {
  Worker first, second;
  first.run([](Bounce&) { throw std::runtime_error("first"); });
  second.run([](Bounce&) { throw std::runtime_error("second"); });
  second.wait_for(first, first.record());
  EXPECT_EQ(failure(second, second.record()), "second");
}

TEST(Worker, TellsOfThingsThrownThatAreNoErrors) {
  Worker worker;
  worker.run([](Bounce&) { throw 7; });
  EXPECT_THAT(failure(worker, worker.record()), testing::HasSubstr("without a word"));
}

TEST(Worker, CarriesOutWhatIsEnqueuedBeforeItEnds) {
  int ran = 0;
  {
    Worker worker;
    for (int i = 0; i < 50; ++i) worker.run([&](Bounce&) { ++ran; });
  }
  EXPECT_EQ(ran, 50);
}

TEST(Worker, LetsGoOfWhatATaskHeldBeforeTheNextTick) {
  Worker worker;
  auto held = std::make_shared<int>(1);
  const std::weak_ptr<int> watched = held;
  worker.run([held = std::move(held)](Bounce&) {});
  worker.block_until(worker.record());
  EXPECT_TRUE(watched.expired());
}

TEST(Worker, GivesTicksTheTimeTheyWereDone) {
  Worker worker;
  const Nanos begin = host_now();
  const auto first = worker.record(), second = worker.record();
  worker.block_until(second);
  EXPECT_GE(worker.time_of(first), begin);
  EXPECT_GE(worker.time_of(second), worker.time_of(first));
  EXPECT_LE(worker.time_of(second), host_now());
}

}  // namespace
}  // namespace spillway
