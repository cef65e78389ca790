#include "base/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "base/error.h"

namespace spillway {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string refusal_of(std::string_view text, const Whole& whole = {}) {
  try {
    const Bytes taken = parse_bytes(text, whole);
    return "accepted as " + std::to_string(taken.count);
  } catch (const InputError& error) {
    return error.what();
  }
}

TEST(ParseBytes, ReadsPlainNumbersAsBytes) {
  EXPECT_EQ(parse_bytes("1"), 1_B);
  EXPECT_EQ(parse_bytes("1048576"), 1_MiB);
  EXPECT_EQ(parse_bytes("512B"), 512_B);
}

TEST(ParseBytes, KeepsEveryDigitOfALargeCount) {
  EXPECT_EQ(parse_bytes("9223372036854775807").count, std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(parse_bytes("9007199254740993").count, 9007199254740993);  // 2^53 + 1: no double holds it
}

TEST(ParseBytes, ReadsBinaryUnitsLongAndShort) {
  EXPECT_EQ(parse_bytes("64k"), 64_KiB);
  EXPECT_EQ(parse_bytes("64KiB"), 64_KiB);
  EXPECT_EQ(parse_bytes("512MiB"), 512_MiB);
  EXPECT_EQ(parse_bytes("512M"), 512_MiB);
  EXPECT_EQ(parse_bytes("8GiB"), 8_GiB);
  EXPECT_EQ(parse_bytes("8G"), 8_GiB);
  EXPECT_EQ(parse_bytes("2T"), 2048_GiB);
}

TEST(ParseBytes, ReadsDecimalUnits) {
  EXPECT_EQ(parse_bytes("1kB").count, 1'000);
  EXPECT_EQ(parse_bytes("500MB").count, 500'000'000);
  EXPECT_EQ(parse_bytes("8GB").count, 8'000'000'000);
  EXPECT_EQ(parse_bytes("1TB").count, 1'000'000'000'000);
}

TEST(ParseBytes, ReadsFractionsRoundingDownToWholeBytes) {
  EXPECT_EQ(parse_bytes("1.5GiB"), 1536_MiB);
  EXPECT_EQ(parse_bytes(".5k"), 512_B);
  EXPECT_EQ(parse_bytes("1.9B"), 1_B);
}

TEST(ParseBytes, MindsNeitherSpacesNorCase) {
  EXPECT_EQ(parse_bytes("  1.5 gb "), Bytes{1'500'000'000});
  EXPECT_EQ(parse_bytes("8\tgib"), 8_GiB);
}

TEST(ParseBytes, TakesAPercentageOfTheWhole) {
  EXPECT_EQ(parse_bytes("60%", {10_GiB, "it"}), 6_GiB);
  EXPECT_EQ(parse_bytes("12.5 %", {8_GiB, "it"}), 1_GiB);
  EXPECT_EQ(parse_bytes("150%", {8_GiB, "it"}), 12_GiB);
}

TEST(ParseBytes, RefusesAPercentageOfNothing) {
  EXPECT_THAT(refusal_of("60%"), HasSubstr("nothing here to take a percentage of"));
}

TEST(ParseBytes, NamesTheTextAndWhatIsAcceptedWhenItRefuses) {
  EXPECT_THAT(refusal_of("8 parsecs"), AllOf(HasSubstr("\"8 parsecs\""), HasSubstr("\"parsecs\" is unknown"), HasSubstr("8GiB")));
  EXPECT_THAT(refusal_of("8 parsecs"), Not(HasSubstr("60%")));
  EXPECT_THAT(refusal_of("8 parsecs", {1_GiB, "the moon"}), HasSubstr("60% of the moon"));
}

TEST(ParseBytes, RefusesWhatIsNoNumber) {
  for (const char* text : {"lots", "GiB", "-", "--5", "nan", "inf", "0x10", "1e9", "1,5GiB", "8GiBs", "8 G B", "1 2"}) {
    EXPECT_THAT(refusal_of(text), HasSubstr("is not an amount of memory")) << text;
  }
}

TEST(ParseBytes, RefusesEmptyZeroNegativeAndLessThanAByte) {
  EXPECT_THAT(refusal_of(""), HasSubstr("it is empty"));
  EXPECT_THAT(refusal_of("  "), HasSubstr("it is empty"));
  for (const char* text : {"0", "0GiB", "-1", "-8GiB", "0.4", "0.0001k"}) {
    EXPECT_THAT(refusal_of(text), HasSubstr("at least one byte")) << text;
  }
}

TEST(ParseBytes, RefusesMoreThanFits) {
  for (const std::string& text : {std::string("9223372036854775808"), std::string("9000000000TiB"), std::string(400, '9')}) {
    EXPECT_THAT(refusal_of(text), HasSubstr("too large")) << text;
  }
}

TEST(ToText, WritesBytesInTheLargestUnitWithThreeDigits) {
  EXPECT_EQ(to_text(0_B), "0 B");
  EXPECT_EQ(to_text(1000_B), "1000 B");
  EXPECT_EQ(to_text(1_KiB), "1.00 KiB");
  EXPECT_EQ(to_text(1536_KiB), "1.50 MiB");
  EXPECT_EQ(to_text(8110_MiB), "7.92 GiB");
  EXPECT_EQ(to_text(28_GiB + 870_MiB), "28.8 GiB");
  EXPECT_EQ(to_text(139_GiB), "139 GiB");
  EXPECT_EQ(to_text(5120_GiB), "5.00 TiB");
}

TEST(ToText, WritesTimesInTheLargestUnit) {
  EXPECT_EQ(to_text(0_ns), "0 ns");
  EXPECT_EQ(to_text(999_ns), "999 ns");
  EXPECT_EQ(to_text(12'300_us), "12.3 ms");
  EXPECT_EQ(to_text(350_ns + 1_us), "1.35 us");
  EXPECT_EQ(to_text(90_s), "90.0 s");
}

TEST(ToText, NeverWritesAThousandOfASmallerUnit) {
  EXPECT_EQ(to_text(999'999_ns), "1.00 ms");
  EXPECT_EQ(to_text(1_MiB - 1_B), "1.00 MiB");
}

TEST(ToText, KeepsTheSign) {
  EXPECT_EQ(to_text(-512_MiB), "-512 MiB");
  EXPECT_EQ(to_text(-3_B), "-3 B");
  EXPECT_EQ(to_text(Bytes{std::numeric_limits<std::int64_t>::min()}), "-8388608 TiB");
}

TEST(ToText, IsReadBackWithinHalfAUnitOfItsLastDigit) {
  for (std::int64_t count = 1; count < (std::int64_t{1} << 50); count = count * 3 + 1) {
    const double again = static_cast<double>(parse_bytes(to_text(Bytes{count})).count);
    EXPECT_NEAR(again / static_cast<double>(count), 1.0, 0.005) << to_text(Bytes{count});
  }
}

}  // namespace
}  // namespace spillway
