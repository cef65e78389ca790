// A card in figures: what the fake device needs to know to keep time and count bytes like it.
//
// Rates are bytes per second each way; "out" is device to host, "in" is host to device. find_card knows the cards of
// the papers and of today; load_card reads a user's own from a small JSON file, most easily as a change to a known one:
//
//   {"like": "rtx3090", "name": "my 3090 on a riser", "in_gb_s": 6.4, "out_gb_s": 6.5}
//
// Plain values; no threads, no clock.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"

namespace spillway {

using Rate = Quantity<struct RateKind>;          // bytes per second
using FlopRate = Quantity<struct FlopRateKind>;  // floating point operations per second
using Millionths = Quantity<struct MillionthsKind>;

struct Card {
  std::string name;
  Bytes memory;            // of the device
  Bytes host_memory;       // room for the host tier
  Bytes file_room;         // room for the file tier
  Bytes granule = 2_MiB;

  Rate out, in;            // the link, one direction busy
  Rate out_both, in_both;  // each direction while both are busy
  Nanos copy_latency;      // what every copy costs before its first byte
  Rate hbm;                // device memory, reads and writes together
  Rate host_copy;          // one host thread from RAM to RAM
  Rate file_write, file_read;

  FlopRate fp32, tf32, bf16;  // bf16: what the card does 16-bit matrix products at

  Nanos launch;            // host time to enqueue a kernel or a copy
  Nanos event;             // host time to record, wait for, or query a tick
  Millionths slower_beside_out, slower_beside_in, slower_beside_both;  // how much longer kernels take beside copies
  std::int64_t compute_slots = 1;  // kernels that run at once without slowing each other; others queue
};

// By name as in card_names(), in any case; throws InputError with the known names.
[[nodiscard]] Card find_card(std::string_view name);
[[nodiscard]] std::vector<std::string> card_names();

// The fields of the file are listed by card_fields(): sizes as "24GiB", rates in GB/s (10^9) and TFLOP/s, times in
// microseconds, slowdowns as fractions (0.033: kernels take 3.3 % longer). With "like" every field may be left out;
// without it only those that have a default in Card. Throws InputError naming file, field and what is accepted.
[[nodiscard]] Card load_card(const std::string& path);
[[nodiscard]] std::vector<std::string> card_fields();

}  // namespace spillway
