// What operators are thought to take, against figures worked out by hand.
#include "torch/roofline.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <utility>

#include "torch/torch_recipe.h"

namespace spillway {
namespace {

constexpr double kLaunch = 1000;
// Memory so fast that only arithmetic counts, and the other way round.
constexpr Rates kSlowArithmetic{.bytes_per_nano = 1e9, .half_flops_per_nano = 8, .single_flops_per_nano = 2, .launch_nanos = kLaunch};
constexpr Rates kSlowMemory{.bytes_per_nano = 2, .half_flops_per_nano = 1e12, .single_flops_per_nano = 1e12, .launch_nanos = kLaunch};

TensorSlot tensor(std::initializer_list<std::int64_t> sizes, c10::ScalarType type) {
  TensorSlot slot;
  slot.facts.sizes = sizes;
  slot.facts.dtype = c10::scalarTypeToTypeMeta(type);
  return slot;
}

// A call of an operator with this arithmetic on tensors of these shapes, in the order of its arguments.
TorchRecipe call(Arithmetic arithmetic, std::initializer_list<std::initializer_list<std::int64_t>> shapes, c10::ScalarType type = c10::kFloat,
                 const char* name = "aten::mm") {
  TorchRecipe recipe(c10::Dispatcher::singleton().findSchemaOrThrow(name, ""), {});
  recipe.arithmetic = arithmetic;
  for (const auto& shape : shapes) recipe.tensors.push_back(tensor(shape, type));
  return recipe;
}

// Floating-point operations the estimate reckons with; `made`: bytes.
std::int64_t flops(const TorchRecipe& recipe, std::int64_t made, double rate = kSlowArithmetic.single_flops_per_nano) {
  const Nanos time = Roofline(kSlowArithmetic).estimate_pass(recipe, Bytes{made});
  return static_cast<std::int64_t>(static_cast<double>(time.count - static_cast<std::int64_t>(kLaunch)) * rate);
}

TEST(Roofline, AProductTakesTwoOperationsForEveryPairItMultiplies) {
  EXPECT_EQ(flops(call(Arithmetic::product, {{30, 40}, {40, 50}}), 30 * 50 * 4), 2 * 30 * 40 * 50);
  EXPECT_EQ(flops(call(Arithmetic::product, {{7, 30, 40}, {7, 40, 50}}), 7 * 30 * 50 * 4), 7 * 2 * 30 * 40 * 50);
}

TEST(Roofline, WhatIsAddedToAProductIsNoFactor) {
  EXPECT_EQ(flops(call(Arithmetic::added_product, {{50}, {30, 40}, {40, 50}}), 30 * 50 * 4), 2 * 30 * 40 * 50);
  EXPECT_EQ(flops(call(Arithmetic::added_product, {{7, 30, 50}, {7, 30, 40}, {7, 40, 50}}), 7 * 30 * 50 * 4), 7 * 2 * 30 * 40 * 50);
}

TEST(Roofline, AConvolutionReadsItsWindowForEveryResult) {
  // 16 images of 8 x 10 results in 64 channels, each of a window of 3 x 3 in 32.
  EXPECT_EQ(flops(call(Arithmetic::convolution, {{16, 32, 8, 10}, {64, 32, 3, 3}}), 16 * 64 * 8 * 10 * 4), 2 * 16 * 64 * 8 * 10 * 32 * 3 * 3);
  // In two groups every result sees half of the channels.
  EXPECT_EQ(flops(call(Arithmetic::convolution, {{16, 32, 8, 10}, {64, 16, 3, 3}}), 16 * 64 * 8 * 10 * 4), 2 * 16 * 64 * 8 * 10 * 16 * 3 * 3);
}

TEST(Roofline, AConvolutionsBackwardIsTwoOfIt) {
  const TorchRecipe recipe = call(Arithmetic::convolution_backward, {{16, 64, 8, 10}, {16, 32, 8, 10}, {64, 32, 3, 3}});
  EXPECT_EQ(flops(recipe, 16 * 32 * 8 * 10 * 4), 2 * (2 * 16 * 64 * 8 * 10 * 32 * 3 * 3));
}

TEST(Roofline, AttentionIsTwoProducts) {
  // 2 x 3 heads, 20 queries and 30 keys of 8.
  const auto attention = call(Arithmetic::attention, {{2, 3, 20, 8}, {2, 3, 30, 8}, {2, 3, 30, 8}});
  EXPECT_EQ(flops(attention, 2 * 3 * 20 * 8 * 4), 2 * (2 * 2 * 3 * 20 * 30 * 8));
}

// After the gradient: queries, keys and values.
TEST(Roofline, AttentionsBackwardIsFiveProducts) {
  const auto backward = call(Arithmetic::attention_backward, {{2, 3, 20, 8}, {2, 3, 20, 8}, {2, 3, 30, 8}, {2, 3, 30, 8}});
  EXPECT_EQ(flops(backward, 2 * 3 * 80 * 8 * 4), 5 * (2 * 2 * 3 * 20 * 30 * 8));
}

TEST(Roofline, HalfPrecisionHasARateOfItsOwn) {
  const auto half = call(Arithmetic::product, {{30, 40}, {40, 50}}, c10::kBFloat16);
  EXPECT_EQ(flops(half, 30 * 50 * 2, kSlowArithmetic.half_flops_per_nano), 2 * 30 * 40 * 50);
  EXPECT_EQ(flops(call(Arithmetic::product, {{30, 40}, {40, 50}}, c10::kDouble), 30 * 50 * 8), 2 * 30 * 40 * 50);
}

// The statistics and the seeds that attention's backward reads beside its halves are wider.
TEST(Roofline, WhatIsReadBesideTheFactorsDoesNotChooseTheRate) {
  auto backward = call(Arithmetic::attention_backward, {{2, 3, 20, 8}, {2, 3, 20, 8}, {2, 3, 20, 8}, {2, 3, 20, 8}}, c10::kBFloat16);
  backward.tensors.push_back(tensor({2, 3, 20}, c10::kFloat));
  backward.tensors.push_back(tensor({}, c10::kLong));
  EXPECT_EQ(flops(backward, 2 * 3 * 60 * 8 * 2, kSlowArithmetic.half_flops_per_nano), 5 * (2 * 2 * 3 * 20 * 20 * 8));
}

TEST(Roofline, WhatMultipliesLittleTakesTheTimeOfItsBytes) {
  const auto sum = call(Arithmetic::little, {{100, 10}, {100, 10}}, c10::kBFloat16);
  const Roofline roofline(kSlowMemory);
  EXPECT_EQ(roofline.estimate_pass(sum, 2000_B).count, 1000 + 3 * 2000 / 2);
  // More of its bytes than of its products.
  EXPECT_EQ(roofline.estimate_pass(call(Arithmetic::product, {{30, 40}, {40, 50}}), Bytes{30 * 50 * 4}).count, 1000 + 4 * (30 * 40 + 40 * 50 + 30 * 50) / 2);
}

TEST(Roofline, AnOperatorIsCorrectedByWhatOthersOfItsKindTook) {
  Roofline roofline(kSlowArithmetic);
  const auto seen = call(Arithmetic::product, {{30, 40}, {40, 50}}), other = call(Arithmetic::product, {{60, 40}, {40, 50}}), foreign = call(Arithmetic::product, {{1, 30, 40}, {1, 40, 50}}, c10::kFloat, "aten::bmm");
  const Nanos before = roofline.estimate(other, 0_B), untouched = roofline.estimate(foreign, 0_B);
  for (int i = 0; i < 100; ++i) {
    roofline.expect(&seen, 0_B);
    const Nanos twice = roofline.estimate_pass(seen, 0_B) * 2;
    roofline.correct(roofline.take_expected(), std::span(&twice, 1));
  }
  EXPECT_NEAR(static_cast<double>(roofline.estimate(other, 0_B).count), 2.0 * static_cast<double>(before.count), static_cast<double>(before.count) / 50);
  EXPECT_EQ(roofline.estimate(foreign, 0_B), untouched);
  EXPECT_EQ(roofline.estimate_pass(other, 0_B), before);
}

}  // namespace
}  // namespace spillway
