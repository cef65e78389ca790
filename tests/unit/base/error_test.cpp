#include "base/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <type_traits>

namespace spillway {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Ensure, LetsWhatHoldsPass) { EXPECT_NO_THROW(SPILLWAY_ENSURE(1 + 1 == 2, "arithmetic works")); }

TEST(Ensure, EvaluatesItsConditionOnce) {
  int evaluations = 0;
  SPILLWAY_ENSURE(++evaluations > 0, "counting counts");
  EXPECT_EQ(evaluations, 1);
}

TEST(Ensure, ThrowsTheMeaningTheConditionAndThePlace) {
  const bool merged = false;
  try {
    SPILLWAY_ENSURE(merged, "free neighbours are merged");
    FAIL() << "nothing was thrown";
  } catch (const InvariantError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("error_test.cpp:"), HasSubstr("free neighbours are merged"),
                                    HasSubstr("merged does not hold")));
  }
}

TEST(Ensure, IsOneStatementInAnUnbracedIf) {
  bool reached = false;
  if (false)
    SPILLWAY_ENSURE(false, "never evaluated");
  else
    reached = true;
  EXPECT_TRUE(reached);
}

TEST(FailInvariant, NamesFilesFromTheRoomOn) {
  try {
    fail_invariant("/home/somebody/spillway/src/pool/pool.cpp", 12, "a == b", "books balance");
  } catch (const InvariantError& error) {
    EXPECT_THAT(error.what(), StartsWith("src/pool/pool.cpp:12: books balance (a == b"));
  }
}

// Told apart by who can act: none may be caught as another.
TEST(Errors, AreNotEachOther) {
  static_assert(!std::is_base_of_v<InputError, DeviceError> && !std::is_base_of_v<DeviceError, InputError>);
  static_assert(!std::is_base_of_v<std::runtime_error, InvariantError>);
  static_assert(std::is_base_of_v<std::exception, InvariantError>);
}

}  // namespace
}  // namespace spillway
