#include "engine/options.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <system_error>

#include "base/error.h"

namespace spillway {

namespace {

constexpr std::array<std::string_view, 3> kLeaves{"move", "replay", "cheaper"};

// Each option by its word, once for both directions: visit(word, option).
template <class Options, class Visit>
void each_option(Options& options, Visit visit) {
  visit("address_space", options.address_space);
  visit("granule", options.granule);
  visit("alignment", options.alignment);
  visit("smallest", options.smallest);
  visit("host_limit", options.host_limit);
  visit("file_limit", options.file_limit);
  visit("host_granule", options.host_granule);
  visit("move_nanos_per_byte", options.move_nanos_per_byte);
  visit("places", options.places);
  visit("poison", options.poison);
}

template <class Options, class Visit>
void each_cost(Options& costs, Visit visit) {
  visit("out_nanos_per_byte", costs.out_nanos_per_byte);
  visit("in_nanos_per_byte", costs.in_nanos_per_byte);
  visit("per_copy", costs.per_copy.count);
}

// The shortest text that reads back as the same number.
template <class Number>
std::string text_of(Number number) {
  std::array<char, 64> room{};
  const auto end = std::to_chars(room.data(), room.data() + room.size(), number).ptr;
  return {room.data(), end};
}
std::string text_of(Bytes bytes) { return text_of(bytes.count); }
std::string text_of(bool yes) { return yes ? "1" : "0"; }

class Words {
 public:
  explicit Words(std::string_view words) {
    while (!words.empty()) {
      const std::string_view word = words.substr(0, words.find(' '));
      words.remove_prefix(std::min(word.size() + 1, words.size()));
      const std::size_t sign = word.find('=');
      if (sign != std::string_view::npos) found_[word.substr(0, sign)] = word.substr(sign + 1);
    }
  }

  [[nodiscard]] bool has(std::string_view word) const { return found_.contains(word); }
  [[nodiscard]] std::string_view text(std::string_view word) const {
    const auto found = found_.find(word);
    if (found == found_.end()) throw InputError("the engine's options in the trace lack '" + std::string(word) + "'");
    return found->second;
  }
  template <class Number>
  void read(std::string_view word, Number& into) const {
    const std::string_view told = text(word);
    if (std::from_chars(told.data(), told.data() + told.size(), into).ec != std::errc{}) refuse(word);
  }
  void read(std::string_view word, Bytes& into) const { read(word, into.count); }
  void read(std::string_view word, bool& into) const { into = text(word) == "1"; }
  [[noreturn]] void refuse(std::string_view word) const {
    throw InputError("the engine's options in the trace have '" + std::string(text(word)) + "' as '" + std::string(word) + "'");
  }

 private:
  std::map<std::string_view, std::string_view> found_;
};

}  // namespace

std::string to_words(const EngineOptions& options) {
  std::string words = "policy=" + std::string(name_of(options.policy)) + " leave=" + std::string(kLeaves[static_cast<std::size_t>(options.leave)]);
  if (options.budget) words += " budget=" + text_of(*options.budget);
  const auto tell = [&](std::string_view word, const auto& option) { words += " " + std::string(word) + "=" + text_of(option); };
  each_option(options, tell);
  if (options.plans == nullptr) return words;
  words += " plans=" + std::string(options.plans->name);
  each_cost(options.costs, tell);
  return words;
}

EngineOptions parse_options(std::string_view told) {
  const Words words(told);
  EngineOptions options;
  const auto policy = find_policy(words.text("policy"));
  if (!policy) words.refuse("policy");
  options.policy = *policy;
  const auto leave = std::ranges::find(kLeaves, words.text("leave"));
  if (leave == kLeaves.end()) words.refuse("leave");
  options.leave = static_cast<Leave>(leave - kLeaves.begin());
  if (words.has("budget")) words.read("budget", options.budget.emplace());
  const auto read = [&](std::string_view word, auto& option) { words.read(word, option); };
  each_option(options, read);
  if (!words.has("plans")) return options;
  options.plans = find_plan_policy(words.text("plans"));
  if (options.plans == nullptr) words.refuse("plans");
  each_cost(options.costs, read);
  return options;
}

}  // namespace spillway
