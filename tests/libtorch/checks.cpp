// The public header from outside: every promise it makes that the example does not need. Prints what failed.
#include <ATen/ATen.h>
#include <spillway/spillway.h>

#include <cstdio>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

int failures = 0;

void expect(bool holds, const char* what) {
  if (holds) return;
  std::printf("failed: %s\n", what);
  ++failures;
}

template <class Error>
void expect_throw(const char* says, const std::function<void()>& act) {
  try {
    act();
    std::printf("failed: nothing was thrown that says '%s'\n", says);
    ++failures;
  } catch (const Error& error) {
    if (std::string(error.what()).find(says) != std::string::npos) return;
    std::printf("failed: '%s' does not say '%s'\n", error.what(), says);
    ++failures;
  }
}

void check_bad_input() {
  expect_throw<std::logic_error>("is not on", [] { spillway::step(); });
  expect_throw<std::invalid_argument>("8gigs", [] { spillway::enable({.budget = "8gigs"}); });
  expect_throw<std::invalid_argument>("unknown policy 'best'", [] { spillway::enable({.budget = "8MiB", .policy = "best"}); });
  expect_throw<std::invalid_argument>("unknown device 'tpu'", [] { spillway::enable({.budget = "8MiB", .device = "tpu"}); });
  expect(!spillway::is_enabled(), "a refused enable leaves it off");
}

std::vector<at::Tensor> crowd() {
  std::vector<at::Tensor> tensors;
  for (int i = 0; i < 16; ++i) tensors.push_back(at::full({1 << 18}, i, at::kFloat));  // 1 MiB each
  return tensors;
}

void check_residents() {
  const spillway::Budget budget("8MiB", {.policy = "lru", .host_limit = "64MiB"});
  expect_throw<std::invalid_argument>("enabled already", [] { spillway::enable({.budget = "8MiB"}); });
  std::vector<at::Tensor> tensors = crowd();
  {
    const spillway::Resident home({tensors[0]});
    float* values = tensors[0].data_ptr<float>();
    const std::vector<at::Tensor> others = crowd();
    values[7] = 42;
    expect(tensors[0].data_ptr<float>() == values, "a resident stays where it is");
  }
  const std::vector<at::Tensor> others = crowd();
  expect(tensors[0][7].item<float>() == 42, "what was written by address is kept");
  expect(tensors[5][7].item<float>() == 5, "the others come back, too");
  expect_throw<c10::OutOfMemoryError>("does not hold", [] { (void)at::empty({1 << 22}, at::kFloat); });
  tensors.clear();
  spillway::step();
  const spillway::Stats stats = spillway::stats();
  expect(stats.budget == 8 << 20 && stats.peak <= stats.budget && stats.violations == 0, "the budget is held");
  expect(stats.steps == 1 && stats.ops > 40 && stats.moved_out > 0 && stats.moved_in > 0, "the run is counted");
  expect(stats.json.find("\"floor_bytes\":") != std::string::npos, "the whole summary is there");
}

void check_second_time() {
  expect(!spillway::is_enabled(), "off at the end of the scope");
  const spillway::Budget budget("4MiB", {.policy = "lru", .host_limit = "64MiB"});
  spillway::set_budget("6MiB");
  const std::vector<at::Tensor> tensors = crowd();
  expect(spillway::stats().budget == 6 << 20, "another budget");
  expect(tensors[3][3].item<float>() == 3, "it works again");
  spillway::set_budget("32MiB");
}

}  // namespace

int main() {
  check_bad_input();
  check_residents();
  check_second_time();
  std::printf("%d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
