#include "device/fake/card.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace spillway {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class CardFile : public testing::Test {
 protected:
  ~CardFile() override { std::filesystem::remove(path_); }

  Card load(const std::string& text) {
    std::ofstream(path_) << text;
    return load_card(path_);
  }

  std::string refusal(const std::string& text) {
    try {
      (void)load(text);
    } catch (const InputError& error) {
      return error.what();
    }
    return "not refused";
  }

  const std::string path_ = testing::TempDir() + "/spillway_card_" +
                            testing::UnitTest::GetInstance()->current_test_info()->name() + ".json";
};

const nlohmann::json kWhole = {
    {"name", "mine"},          {"memory", "24GiB"},          {"host_memory", "64GiB"},      {"file_room", "1TiB"},
    {"out_gb_s", 25},          {"in_gb_s", 24.5},            {"out_both_gb_s", 20},         {"in_both_gb_s", 19},
    {"copy_latency_us", 2.5},  {"hbm_gb_s", 936},            {"host_copy_gb_s", 10},        {"file_write_gb_s", 2},
    {"file_read_gb_s", 3},     {"fp32_tflops", 35.6},        {"tf32_tflops", 35.6},         {"bf16_tflops", 71},
    {"launch_us", 3},          {"event_us", 0.2},            {"slower_beside_out", 0.008},  {"slower_beside_in", 0.033},
    {"slower_beside_both", 0.04}};

TEST(Cards, AreAllThereAndInKeeping) {
  EXPECT_THAT(card_names(), testing::ElementsAre("k40c", "p100", "v100", "v100-32g", "a100-80g", "h100", "h200", "rtx3090",
                                                 "rtx4090"));
  for (const std::string& name : card_names()) {
    SCOPED_TRACE(name);
    const Card card = find_card(name);
    EXPECT_GE(card.memory, 12_GiB);
    EXPECT_LE(card.out_both, card.out);
    EXPECT_LE(card.in_both, card.in);
    EXPECT_GT(card.hbm, card.in);
    EXPECT_LE(card.fp32, card.tf32);
    EXPECT_LE(card.tf32, card.bf16);
    EXPECT_GE(card.slower_beside_both, std::max(card.slower_beside_out, card.slower_beside_in));
  }
}

TEST(Cards, AreFoundHoweverTheirNameIsWritten) {
  EXPECT_EQ(find_card("V100").name, "V100");
  EXPECT_EQ(find_card("RTX 3090").name, "RTX 3090");
  EXPECT_EQ(find_card("a100_80g").name, "A100-80G");
}

TEST(Cards, UnknownOnesAreRefusedWithTheKnownNames) {
  try {
    (void)find_card("gtx9000");
    FAIL() << "there is no such card";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("'gtx9000'"), HasSubstr("k40c, p100"), HasSubstr("rtx4090")));
  }
}

TEST_F(CardFile, MayChangeAKnownCard) {
  const Card card = load(R"({"like": "V100", "memory": "8GiB", "in_gb_s": 6.4})");
  EXPECT_EQ(card.name, "V100, changed");
  EXPECT_EQ(card.memory, 8_GiB);
  EXPECT_EQ(card.in, Rate{6'400'000'000});
  EXPECT_EQ(card.out, find_card("v100").out);
}

TEST_F(CardFile, MayDescribeACardWhole) {
  const Card card = load(kWhole.dump());
  EXPECT_EQ(card.name, "mine");
  EXPECT_EQ(card.file_room, 1024_GiB);
  EXPECT_EQ(card.granule, 2_MiB);
  EXPECT_EQ(card.copy_latency, 2500_ns);
  EXPECT_EQ(card.bf16, FlopRate{71'000'000'000'000});
  EXPECT_EQ(card.slower_beside_in, Millionths{33'000});
  EXPECT_EQ(card.compute_slots, 1);
}

TEST_F(CardFile, NamesEachFieldThatIsMissing) {
  for (const auto& [key, value] : kWhole.items()) {
    nlohmann::json partial = kWhole;
    partial.erase(key);
    EXPECT_THAT(refusal(partial.dump()), AllOf(HasSubstr(path_), HasSubstr("'" + key + "' is missing")));
  }
}

TEST_F(CardFile, NamesTheFieldItsValueAndWhatIsAccepted) {
  const auto refused = [&](const char* key, const nlohmann::json& value, const char* accepted) {
    nlohmann::json bad{{"like", "h200"}};
    bad[key] = value;
    EXPECT_THAT(refusal(bad.dump()), AllOf(HasSubstr(path_), HasSubstr("'" + std::string(key) + "'"), HasSubstr(accepted)));
  };
  refused("memory", 8, "\"24GiB\"");
  refused("memory", "8gigs", "\"24GiB\"");
  refused("memory", "0", "\"24GiB\"");
  refused("memory", "1MiB", "at least one granule");
  refused("granule", "5000", "multiple of 4KiB");
  refused("in_gb_s", 0, "GB/s");
  refused("in_gb_s", -3, "GB/s");
  refused("in_gb_s", 1e30, "GB/s");
  refused("in_gb_s", "fast", "GB/s");
  refused("bf16_tflops", nullptr, "TFLOP/s");
  refused("launch_us", -0.1, "microseconds");
  refused("slower_beside_in", 3.3, "fraction from 0");
  refused("compute_slots", 0, "whole number");
  refused("compute_slots", 1.5, "whole number");
  refused("name", 7, "must be text");
  refused("like", 7, "must be text");
  refused("like", "abacus", "known are k40c");
  refused("in_gbs", 7, "accepted are name, like, memory");
}

TEST_F(CardFile, RefusesWhatIsNoCardAtAll) {
  EXPECT_THAT(refusal(""), AllOf(HasSubstr(path_), HasSubstr("is not JSON")));
  EXPECT_THAT(refusal("{\"like\": "), HasSubstr("is not JSON"));
  EXPECT_THAT(refusal("[1, 2]"), HasSubstr("one JSON object"));
  EXPECT_THROW((void)load_card("/nowhere/card.json"), InputError);
  EXPECT_THROW((void)load_card("/tmp"), InputError);
}

}  // namespace
}  // namespace spillway
