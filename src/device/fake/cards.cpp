// The known cards. Memory, memory rate and arithmetic are the makers' data sheets (dense rates, no sparsity; where a
// card has no tf32 or 16-bit unit, the rate of the next wider type it has). What data sheets do not tell is below.
#include <algorithm>
#include <array>
#include <cctype>

#include "base/error.h"
#include "device/fake/card.h"

namespace spillway {
namespace {

constexpr Rate gb_s(double rate) { return {static_cast<std::int64_t>(rate * 1e9)}; }
constexpr FlopRate tflops(double rate) { return {static_cast<std::int64_t>(rate * 1e12)}; }

// Measured on an H200 with PCIe 5, torch 2.11 (design, section 6, and the prototype's "Numbers"):
//   link            55 GB/s each way alone, 50.5 each with both busy; pageable (one host thread) 15
//   copy latency    1 MiB pieces run at 49.5 GB/s instead of 55: 21.2 - 19.1 us = 2.1 us each
//   events          record + wait 0.35 us, so 175 ns each
//   beside copies   ResNet-50 54.65 ms alone, 55.1 beside D2H, 56.5 beside H2D, 56.9 beside both: +0.8, +3.3, +4.0 %
//   file tier       1.9 GB/s written, 3.6 read
// Assumed, for lack of a measurement: the host's cost of a launch (2.5 us, the order of a bare launch on today's
// drivers), and on every other card the same latency, events, price of copies and share kept with both directions busy
// (50.5 / 55). Host RAM and disk belong to the machine, not the card: 128 GiB and 1 TiB stand for a usual one.
Card with_machine(Card card, double link_gb_s) {
  constexpr double kShareOfBoth = 50.5 / 55;
  card.host_memory = 128_GiB;
  card.file_room = 1024_GiB;
  card.out = card.in = gb_s(link_gb_s);
  card.out_both = card.in_both = gb_s(link_gb_s * kShareOfBoth);
  card.copy_latency = 2100_ns;
  card.host_copy = gb_s(15);
  card.file_write = gb_s(1.9);
  card.file_read = gb_s(3.6);
  card.launch = 2500_ns;
  card.event = 175_ns;
  card.slower_beside_out = {8'000};
  card.slower_beside_in = {33'000};
  card.slower_beside_both = {40'000};
  return card;
}

struct Known {
  const char* key;
  Card card;
};

// Links: K40c 8 GB/s as SuperNeurons (PPoPP'18) reckons with; PCIe 3 x16 otherwise 12 of 15.75, PCIe 4
// x16 25 of 31.5, PCIe 5 x16 55 of 63 GB/s, the share of the H200's measured link.
const std::vector<Known>& known_cards() {
  static const std::vector<Known> cards{
      // Tesla K40 board specification: 12 GB, 288 GB/s, 4.29 TFLOP/s single
      {"k40c", with_machine({.name = "K40c", .memory = 12_GiB, .hbm = gb_s(288), .fp32 = tflops(4.29),
                             .tf32 = tflops(4.29), .bf16 = tflops(4.29)}, 8)},
      // Tesla P100 data sheet, PCIe 16 GB: 732 GB/s, 9.3 TFLOP/s single, 18.7 half
      {"p100", with_machine({.name = "P100", .memory = 16_GiB, .hbm = gb_s(732), .fp32 = tflops(9.3),
                             .tf32 = tflops(9.3), .bf16 = tflops(18.7)}, 12)},
      // Tesla V100 data sheet, PCIe: 900 GB/s, 14 TFLOP/s single, 112 tensor (half)
      {"v100", with_machine({.name = "V100", .memory = 16_GiB, .hbm = gb_s(900), .fp32 = tflops(14),
                             .tf32 = tflops(14), .bf16 = tflops(112)}, 12)},
      {"v100-32g", with_machine({.name = "V100-32G", .memory = 32_GiB, .hbm = gb_s(900), .fp32 = tflops(14),
                                 .tf32 = tflops(14), .bf16 = tflops(112)}, 12)},
      // A100 data sheet, 80 GB SXM: 2,039 GB/s, 19.5 single, 156 tf32, 312 bf16
      {"a100-80g", with_machine({.name = "A100-80G", .memory = 80_GiB, .hbm = gb_s(2039), .fp32 = tflops(19.5),
                                 .tf32 = tflops(156), .bf16 = tflops(312)}, 25)},
      // H100 data sheet, SXM: 80 GB, 3.35 TB/s, 67 single, tf32 989 / 2 and bf16 1,979 / 2 without sparsity
      {"h100", with_machine({.name = "H100", .memory = 80_GiB, .hbm = gb_s(3350), .fp32 = tflops(67),
                             .tf32 = tflops(494.5), .bf16 = tflops(989.5)}, 55)},
      // H200 as measured: 139 GiB to programs, 4.2 TB/s, 790 TFLOP/s bf16; single and tf32 from the data sheet
      {"h200", with_machine({.name = "H200", .memory = 139_GiB, .hbm = gb_s(4200), .fp32 = tflops(67),
                             .tf32 = tflops(494.5), .bf16 = tflops(790)}, 55)},
      // GA102 architecture white paper: 936 GB/s, 35.6 single, 35.6 tf32, 71 bf16 with fp32 accumulate
      {"rtx3090", with_machine({.name = "RTX 3090", .memory = 24_GiB, .hbm = gb_s(936), .fp32 = tflops(35.6),
                                .tf32 = tflops(35.6), .bf16 = tflops(71)}, 25)},
      // Ada architecture white paper: 1,008 GB/s, 82.6 single, 82.6 tf32, 165.2 bf16 with fp32 accumulate
      {"rtx4090", with_machine({.name = "RTX 4090", .memory = 24_GiB, .hbm = gb_s(1008), .fp32 = tflops(82.6),
                                .tf32 = tflops(82.6), .bf16 = tflops(165.2)}, 25)},
  };
  return cards;
}

// "RTX 3090", "rtx-3090" and "rtx3090" are the same card.
std::string plain(std::string_view name) {
  std::string letters;
  for (unsigned char letter : name)
    if (std::isalnum(letter)) letters.push_back(static_cast<char>(std::tolower(letter)));
  return letters;
}

}  // namespace

Card find_card(std::string_view name) {
  for (const Known& known : known_cards())
    if (plain(known.key) == plain(name)) return known.card;
  std::string names;
  for (const std::string& known : card_names()) names += (names.empty() ? "" : ", ") + known;
  throw InputError("unknown card '" + std::string(name) + "'; known are " + names + ", or the path of a card file");
}

std::vector<std::string> card_names() {
  std::vector<std::string> names;
  for (const Known& known : known_cards()) names.emplace_back(known.key);
  return names;
}

}  // namespace spillway
