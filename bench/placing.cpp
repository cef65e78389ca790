// How well do a plan's blocks fit side by side? For recorded steps at shares of their peak: what the plan predicts to be
// there at most, what its blocks are at once, and how high they reach when every one has a place.
//
//   bench_placing [trace.json.gz | trace.spt ...]
#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "engine/layout.h"
#include "liveness/liveness.h"
#include "plan/blocks.h"
#include "trace/reader.h"
#include "trace/recorded_step.h"

namespace {

using namespace spillway;

// An H200: 55 GB/s each way, and what kernels lose beside copies.
constexpr Costs kCosts{.out_nanos_per_byte = 1 / 55.0, .in_nanos_per_byte = 1 / 55.0, .out_price = 0.00016, .in_price = 0.00063,
                       .per_copy = Nanos{10'000}, .per_replay = Nanos{5'000}};

double mib(Bytes bytes) { return static_cast<double>(bytes.count) / (1 << 20); }

void look_at(const std::string& path) {
  const bool spt = path.ends_with(".spt");
  const Trace trace = spt ? read_trace(path) : import_recorded_step(path);
  const auto steady = find_steady_step(trace);
  if (!steady) return;
  const Liveness step(trace, *steady);
  const Plan plain = plan_hybrid({.step = step, .costs = kCosts, .budget = Bytes{INT64_MAX / 4}});
  for (const int share : {80, 60, 43, 27}) {
    const Bytes limit = plain.predicted.peak * share / 100;
    const PlanRequest request{.step = step, .costs = kCosts, .budget = limit * 98 / 100};
    const Plan plan = plan_hybrid(request);
    const BlockList list = list_blocks(request, plan, Layout::kSmallest);
    std::vector<Presence> there;
    for (const PlannedBlock& block : list.blocks) there.push_back(block.there);
    const auto begin = std::chrono::steady_clock::now();
    const Places places = find_places(list, step.op_count(), {.from = 2_MiB, .limit = limit});
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    const Bytes bound = most_at_once(there);
    fmt::print("{:24} {:3} %  limit {:9.1f}  predicted {:9.1f} (+{:.1f} %)  elsewhere {:8.1f}  at once {:9.1f}  top {:9.1f} (+{:.1f} %)  room {:9.1f}  {:5} blocks {:6.0f} ms\n",
               std::filesystem::path(path).filename().string(), share, mib(limit), mib(plan.predicted.peak),
               100 * (static_cast<double>(plan.predicted.time.count) / static_cast<double>(plan.predicted.plain_time.count) - 1),
               mib(list.elsewhere), mib(bound), mib(places.top), 100 * (mib(places.top) / mib(bound) - 1), mib(places.room),
               list.blocks.size(), took.count());
  }
}

}  // namespace

int main(int count, char** words) {
  std::vector<std::string> paths(words + 1, words + count);
  if (paths.empty()) {
    for (const auto& entry : std::filesystem::directory_iterator(SPILLWAY_SOURCE_DIR "/traces")) {
      if (entry.path().extension() == ".gz") paths.push_back(entry.path());
    }
  }
  for (const std::string& path : paths) look_at(path);
}
