// Spillway for libtorch programs: training inside a byte budget, to the same bits.
//
//   spillway::Budget budget("2GiB");  // to the end of the scope
//   for (...) {
//     optimizer.zero_grad(); loss = ...; loss.backward(); optimizer.step();
//     spillway::step();
//   }
//
// What torch's operators read and write is seen. Whoever reads a tensor's memory by its address (data_ptr, accessor,
// torch::save) keeps a Resident over it meanwhile. One engine per process; call enable and disable from the thread that
// trains, while no other thread runs operators. Backward runs on the calling thread while a budget is on.
//
// Bad input throws std::invalid_argument, and then nothing was changed. What does not fit throws c10::OutOfMemoryError.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#define SPILLWAY_PUBLIC __attribute__((visibility("default")))

namespace at {
class Tensor;
}

namespace spillway {

// Amounts are texts: "1048576", "8GiB" and "8G" (binary), "8GB" (decimal).
struct Options {
  std::string budget = {};        // empty: only watch
  std::string device = "cpu";     // or cuda, cuda:N
  std::string policy = "hybrid";  // or one of the papers'; without plans dtr or lru
  std::string host_limit = {};    // host memory for what left the device
  std::string spill_dir = {};     // folder for what host memory cannot take; on a disk
  std::string trace = {};         // file to record the run into
};

// What happened so far. Bytes and seconds.
struct Stats {
  std::int64_t budget = 0;        // 0: only watching
  std::int64_t peak = 0;          // the most ever taken from the device
  std::int64_t peak_live = 0, plain_peak = 0;
  std::int64_t floor = 0;         // the largest working set of one operator: no budget can go below
  std::int64_t steps = 0, ops = 0;
  std::int64_t moved_out = 0, moved_in = 0, recomputed_ops = 0;
  double recompute_seconds = 0, stall_seconds = 0;
  std::int64_t violations = 0;    // must be 0
  std::string json;               // all of it, with the keys of `spillway run --stats`
};

SPILLWAY_PUBLIC void enable(const Options& options);
// Brings everything home and lets go. When it does not fit, it says so and Spillway stays on.
SPILLWAY_PUBLIC void disable();
SPILLWAY_PUBLIC bool is_enabled();
SPILLWAY_PUBLIC void set_budget(const std::string& amount);
// A training step ends here.
SPILLWAY_PUBLIC void step();
SPILLWAY_PUBLIC Stats stats();

// On from here to the end of the scope.
class SPILLWAY_PUBLIC Budget {
 public:
  explicit Budget(const std::string& amount, Options others = {});
  ~Budget();  // where not everything fits at home it stays on, and is_enabled() tells; disable() would say why
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;
};

// These tensors are at home and stay where they are, for code that reads or writes them by address.
class SPILLWAY_PUBLIC Resident {
 public:
  explicit Resident(const std::vector<at::Tensor>& tensors);
  ~Resident();
  Resident(const Resident&) = delete;
  Resident& operator=(const Resident&) = delete;

 private:
  struct Pins;
  std::unique_ptr<Pins> pins_;
};

}  // namespace spillway
