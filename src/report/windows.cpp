#include "report/windows.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace spillway {
namespace {

class WindowFinder {
 public:
  void take(std::size_t at, const Event& event) {
    at_ = at;
    std::visit([&](const auto& one) { see(one); }, event);
  }
  std::vector<StepWindow> finish(std::size_t events) {
    at_ = events;
    close_all();
    if (windows_.empty() && ops_ > 0)
      windows_.push_back({.job = JobId{0}, .begin = 0, .end = events, .ops = ops_, .cost = events});
    std::ranges::sort(windows_, {}, &StepWindow::begin);
    return std::move(windows_);
  }

 private:
  template <class E>
  void see(const E&) {}
  void see(const StorageBirth&) { ++living_; }
  void see(const StorageDeath&) { living_ -= living_ > 0; }
  void see(const Op& op) {
    ++ops_;
    if (const auto found = open_.find(op.job); found != open_.end()) ++found->second.ops;
  }
  void see(const StepBegin& begin) {
    close(begin.job, at_, /*whole=*/false);
    open_[begin.job] = {.job = begin.job, .step = begin.step, .begin = at_, .whole = begin.at >= restarted_};
    open_[begin.job].cost = living_;
  }
  void see(const StepEnd& end) { close(end.job, at_ + 1, /*whole=*/true); }
  void see(const Restart& restart) {
    close_all();
    living_ = 0;
    restarted_ = restart.at;
  }

  void close(JobId job, std::size_t end, bool whole) {
    const auto found = open_.find(job);
    if (found == open_.end()) return;
    StepWindow window = found->second;
    open_.erase(found);
    window.end = end;
    window.whole = window.whole && whole;
    window.cost += end - window.begin;
    if (window.ops > 0) windows_.push_back(window);
  }
  void close_all() {
    while (!open_.empty()) close(open_.begin()->first, at_, /*whole=*/false);
  }

  std::size_t at_ = 0;
  std::uint32_t ops_ = 0;
  std::uint64_t living_ = 0;
  Nanos restarted_;
  std::unordered_map<JobId, StepWindow> open_;
  std::vector<StepWindow> windows_;
};

}  // namespace

std::vector<StepWindow> find_windows(const Trace& trace) {
  WindowFinder finder;
  for (std::size_t at = 0; at < trace.events.size(); ++at) finder.take(at, trace.events[at]);
  return finder.finish(trace.events.size());
}

std::vector<std::size_t> choose_windows(const std::vector<StepWindow>& windows, std::uint64_t most) {
  constexpr std::size_t kFirst = 2;  // the first step allocates, the second is the first like the others
  std::vector<std::size_t> order, chosen;
  if (!windows.empty()) order.push_back(windows.size() - 1);
  for (std::size_t at = 0; at < std::min(kFirst, windows.size() - !windows.empty()); ++at) order.push_back(at);
  for (std::size_t at = windows.size(); at-- > kFirst + 1;) order.push_back(at - 1);
  std::uint64_t sum = 0;
  for (const std::size_t at : order) {
    sum += windows[at].cost;
    if (sum > most && !chosen.empty()) break;
    chosen.push_back(at);
  }
  std::ranges::sort(chosen);
  return chosen;
}

}  // namespace spillway
