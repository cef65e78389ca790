// OpClock by CUDA events, two an operator, kept from step to step. From any thread: the first to start after a take is the
// one that is measured, since pairs of several would be mixed up.
//
// Note [When the host is late]
// Between its two events an op's first kernel also waits for its launch, if the card has nothing else to do: it ran dry
// before the op began, as the gap to the op before tells. In a step that is not watched the host runs ahead, so this time
// is none of the op's: what the host took from event to event is left out, up to what a launch takes.
#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "torch/op_clock.h"

namespace spillway {

class CudaOpClock final : public OpClock {
 public:
  explicit CudaOpClock(int card) : card_(card) {}

  [[nodiscard]] bool start() override;
  void stop() override;
  void restart() override;
  void hold_back(Nanos time) override;
  [[nodiscard]] Reading take() override;

 private:
  // Of one step.
  struct Marks {
    Marks() = default;
    ~Marks();
    Marks(const Marks&) = delete;
    Marks& operator=(const Marks&) = delete;
    [[nodiscard]] Nanos between(std::size_t first, std::size_t second) const;
    [[nodiscard]] std::vector<Nanos> read(int card) const;

    std::vector<cudaEvent_t> events;
    std::vector<std::chrono::steady_clock::time_point> host;  // when they were recorded
    std::size_t used = 0;
  };

  void record();

  const int card_;
  std::mutex mutex_;       // guards what is below
  std::thread::id whose_;  // none: nobody has started
  std::shared_ptr<Marks> marks_ = std::make_shared<Marks>();
  std::vector<std::shared_ptr<Marks>> others_;  // of steps before; whose nobody else holds can be used again
};

}  // namespace spillway
