#include "sim/card_times.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace spillway {

namespace {

double nanos_per_byte(Rate rate) { return 1e9 / static_cast<double>(rate.count); }

bool is_arithmetic(std::string_view name) {
  constexpr std::array<std::string_view, 7> kWords{"conv", "mm", "matmul", "linear", "attention", "einsum", "rnn"};
  return std::ranges::any_of(kWords, [&](std::string_view word) { return name.find(word) != std::string_view::npos; });
}

Nanos times(Nanos time, double factor) { return {static_cast<std::int64_t>(static_cast<double>(time.count) * factor)}; }

// Shorter ones wait for their launch, not for the card.
constexpr Nanos kShortest = 3_us;

}  // namespace

Costs costs_of(const Card& card) {
  const double out = nanos_per_byte(card.out), in = nanos_per_byte(card.in);
  return {.out_nanos_per_byte = out,
          .in_nanos_per_byte = in,
          .out_price = out * static_cast<double>(card.slower_beside_out.count) / 1e6,
          .in_price = in * static_cast<double>(card.slower_beside_in.count) / 1e6,
          .per_copy = card.copy_latency,
          .per_replay = {}};
}

Trace scale_times(Trace trace, const Card& from, const Card& to) {
  const double arithmetic = static_cast<double>(from.bf16.count) / static_cast<double>(to.bf16.count);
  const double memory = static_cast<double>(from.hbm.count) / static_cast<double>(to.hbm.count);
  for (Event& event : trace.events) {
    auto* op = std::get_if<Op>(&event);
    if (op == nullptr) continue;
    for (Nanos* time : {&op->lean, &op->again}) *time = *time <= kShortest ? *time : std::max(kShortest, times(*time, memory));
    if (op->duration <= kShortest) continue;
    const double factor = is_arithmetic(trace.names.at(op->name.index)) ? arithmetic : memory;
    op->duration = std::max(kShortest, times(op->duration, factor));
  }
  return trace;
}

}  // namespace spillway
