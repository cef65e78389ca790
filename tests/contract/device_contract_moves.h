// The part of the suite in device_contract.h about memory that moves to other addresses. A device that cannot do that says so and
// changes nothing.
#pragma once

#include <gtest/gtest.h>

#include <array>

#include "base/error.h"
#include "contract/device_subject.h"

namespace spillway {

// before  |0 1| . . |5| . . . .
// after    . . . . . . |7| . |9 10|
TEST_P(DeviceContract, MemoryThatMovesIsAtItsNewAddressesOnly) {
  commit(Tier::device, slot(0, 2));
  commit(Tier::device, slot(5));
  const bool moved = device().try_move(Tier::device, std::array{slot(7), slot(9, 2)}, std::array{slot(0, 2), slot(5)}, {});
  EXPECT_EQ(device().committed(Tier::device), granules(3));
  if (!moved) {
    put({Tier::device, granules(5)}, granule(), 1);
    return expect_holds({Tier::device, granules(5)}, granule(), 1, "where it was");
  }
  commit(Tier::device, slot(0, 2));
  for (const std::uint32_t at : {0, 1, 7, 9, 10}) put({Tier::device, granules(at)}, granule(), at);
  for (const std::uint32_t at : {0, 1, 7, 9, 10}) expect_holds({Tier::device, granules(at)}, granule(), at, "a granule of its own");
  EXPECT_THROW(device().decommit(Tier::device, slot(5)), InvariantError);
  for (const Range range : {slot(0, 2), slot(7), slot(9, 2)}) device().decommit(Tier::device, range);
  EXPECT_EQ(device().committed(Tier::device), 0_B);
}

// held    [held....][copy 0 -> 2] tick       the memory behind 0 is behind 4 by now
// other   [wait for tick        ][fill 4]
TEST_P(DeviceContract, MemoryMovesWhileItIsUsedAtItsOldAddresses) {
  const StreamId held = device().open_stream(), other = device().open_stream();
  commit(Tier::device, slot(0));
  commit(Tier::device, slot(2));
  put({Tier::device, 0_B}, granule(), 3);
  subject_->hold(held);
  device().copy(held, {Tier::device, granules(2)}, {Tier::device, 0_B}, granule());
  const Tick used = device().record(held);
  if (!device().try_move(Tier::device, std::array{slot(4)}, std::array{slot(0)}, std::array{used})) return;
  EXPECT_FALSE(device().query(used));
  device().wait(other, used);
  device().fill(other, granules(4), granule(), std::byte{0x5A});
  subject_->release();
  finish(other);
  expect_holds({Tier::device, granules(2)}, granule(), 3, "what was there before it moved");
  device().decommit(Tier::device, slot(4));
  commit(Tier::device, slot(0));  // nothing of the old mapping is left
  EXPECT_EQ(device().committed(Tier::device), granules(2));
}

TEST_P(DeviceContract, MemoryMovesToAndFro) {
  commit(Tier::device, slot(0, 2));
  for (int times = 0; times < 3; ++times) {
    if (!device().try_move(Tier::device, std::array{slot(3, 2)}, std::array{slot(0, 2)}, {})) return;
    ASSERT_TRUE(device().try_move(Tier::device, std::array{slot(0, 2)}, std::array{slot(3, 2)}, {}));
  }
  put({Tier::device, 0_B}, granule(), 8);
  expect_holds({Tier::device, 0_B}, granule(), 8, "home again");
  device().decommit(Tier::device, slot(0, 2));
  EXPECT_EQ(device().committed(Tier::device), 0_B);
}

TEST_P(DeviceContract, MemoryMovesOnlyToWhereThereIsNoneAndOnlyAsMuch) {
  commit(Tier::device, slot(0, 2));
  commit(Tier::device, slot(6));
  if (!device().try_move(Tier::device, std::array{slot(3)}, std::array{slot(0)}, {})) return;
  const auto refuse = [&](Range to, Range from) { EXPECT_THROW((void)device().try_move(Tier::device, std::array{to}, std::array{from}, {}), InvariantError); };
  refuse(slot(6), slot(1));
  refuse(slot(8), slot(0));
  refuse(slot(8, 2), slot(1));
  refuse(slot(8), slot(6, 2));
  refuse(slot(1), slot(1));
  EXPECT_EQ(device().committed(Tier::device), granules(3));
  device().decommit(Tier::device, slot(1));
}

}  // namespace spillway
