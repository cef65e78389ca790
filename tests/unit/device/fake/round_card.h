// A card in round numbers, for tests that reckon in their head: 10 bytes a nanosecond each way, 8 with both directions
// busy; kernels take 1.1, 1.25 and 1.5 times as long beside copies out, in and both; nothing else costs anything.
#pragma once

#include "device/fake/card.h"

namespace spillway {

inline Card round_card() {
  return {.name = "round",
          .memory = 1_GiB,
          .host_memory = 1_GiB,
          .file_room = 1_GiB,
          .out = {10'000'000'000},
          .in = {10'000'000'000},
          .out_both = {8'000'000'000},
          .in_both = {8'000'000'000},
          .hbm = {200'000'000'000},
          .host_copy = {5'000'000'000},
          .file_write = {1'000'000'000},
          .file_read = {2'000'000'000},
          .fp32 = {1'000'000'000'000},
          .tf32 = {1'000'000'000'000},
          .bf16 = {1'000'000'000'000},
          .slower_beside_out = {100'000},
          .slower_beside_in = {250'000},
          .slower_beside_both = {500'000}};
}

}  // namespace spillway
