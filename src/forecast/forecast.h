// Observes steps and tells what a step of a size never seen would be: every storage's bytes, every op's workspace and time.
//
// Steps are told apart by their shape (shape.h), so a sequence of ops that depends on the size is a kind of step of its own.
// The signature of a step is made of numbers that are known early in it (sizes of the first storages), found by watching:
// columns.h. A prediction comes with its error; far outside of what was seen there is none.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "forecast/columns.h"
#include "forecast/pace.h"
#include "forecast/shape.h"
#include "liveness/liveness.h"

namespace spillway {

// Steps of one shape.
class StepKind {
 public:
  StepKind(const Liveness& step, StepShape shape);

  void observe(const Liveness& step, const StepShape& shape);

  // A number known early: the size of a storage when it is first named.
  struct Mark {
    OpPlace op = 0;
    StoragePlace storage = 0;  // of `model()`
  };
  [[nodiscard]] const std::vector<Mark>& marks() const { return marks_; }
  // The marks that make a signature, in its order, and how many ops have run when all of them are known.
  [[nodiscard]] const std::vector<std::uint32_t>& coordinates() const { return columns_.coordinates(); }
  [[nodiscard]] OpPlace known_after() const;
  [[nodiscard]] Signature signature(const Liveness& step, const StepShape& shape) const;
  [[nodiscard]] double distance(std::span<const double> signature) const { return columns_.distance(signature); }
  // How far outside of what was seen, as a part of it.
  [[nodiscard]] double beyond(std::span<const double> signature) const { return columns_.beyond(signature); }
  // Steps observed, those of equal size counted once; older ones fade.
  [[nodiscard]] std::size_t samples() const { return columns_.samples(); }
  [[nodiscard]] std::uint32_t observed() const { return columns_.observed(); }

  struct Prediction {
    StepFigures figures;  // of `model()`
    Bytes margin;         // how much more there may be at once
  };
  // The least and the most seen of a coordinate.
  [[nodiscard]] std::pair<double, double> range(std::size_t coordinate) const { return columns_.range(coordinate); }
  // Empty: too far from all that was seen, or one step only was, which does not tell what varies. Times may be left out.
  [[nodiscard]] std::optional<Prediction> predict(std::span<const double> signature, bool times = true) const;
  // The first step of this kind: what all others are like, but for the figures.
  [[nodiscard]] const Liveness& model() const { return *model_; }
  [[nodiscard]] const StepShape& shape() const { return shape_; }

 private:
  [[nodiscard]] std::vector<std::int64_t> values_of(const Liveness& step, const StepShape& shape) const;
  [[nodiscard]] std::vector<double> marks_of(const Liveness& step, const StepShape& shape) const;
  void set_times(StepFigures& figures) const;
  [[nodiscard]] Bytes margin_of(std::span<const std::int64_t> errors) const;
  void test(const Liveness& step, const Prediction& told);
  [[nodiscard]] Bytes tested_margin(Bytes worst, const StepFigures& figures, double beyond) const;

  std::shared_ptr<const Liveness> model_;
  StepShape shape_;
  std::vector<std::uint32_t> marks_at_;  // by mark: its storage's number in the shape
  std::vector<Mark> marks_;
  Columns columns_;
  std::vector<Pace> paces_;  // by op
  // How much more steps took than was told before they were learnt from, in parts of all their storages' bytes; the latest only.
  static constexpr std::uint32_t kTests = 8;
  std::array<double, kTests> missing_{};
  std::uint32_t tests_ = 0;
};

class Forecast {
 public:
  // `keys`: by op, what it is. What is told is a kind of its own, which later steps leave as it is: another thread may
  // predict by it.
  std::shared_ptr<const StepKind> observe(const Liveness& step, std::span<const std::uint64_t> keys);
  [[nodiscard]] const StepKind* find(std::uint64_t shape) const;
  [[nodiscard]] std::size_t kinds() const { return kinds_.size(); }

 private:
  // Shapes that never come again must not fill the memory: of those seen least the oldest goes.
  static constexpr std::size_t kMostKinds = 64;

  std::vector<std::shared_ptr<const StepKind>> kinds_;  // in the order of their first steps
};

}  // namespace spillway
