// Random training steps: a chain of layers with skips, its backward in reverse, an optimizer.
//
// All storages of one size, so that memory is never there in pieces: what is left is who is where, and when; or of `sizes` of them,
// a layer's own and its weight's. Where gradients are made of seeds, these are small, dead at once, and nobody can make the like. Where
// layers are lean, most make a small side beside, and some of these are changed in place after, in the same pass. Where things
// linger, gradients die in the middle of the next step's forward, and some activations when the backward is over.
#pragma once

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "support/step_maker.h"

namespace spillway::testing {

struct StepShape {
  int layers = 10;
  Bytes size = 16_MiB;
  int shortest_us = 50, longest_us = 3000;
  int steps = 2;
  bool seeds = false, lean = false, lingers = false;
  int sizes = 1;  // so many: the smallest, twice and three times as large, ...
};

class RandomStep {
 public:
  RandomStep(const StepShape& shape, std::uint32_t seed) : shape_(shape), dice_(seed) {
    for (int i = 0; i < shape.layers; ++i) {
      layers_.push_back({.skips = i > 2 && pick(4) == 0, .saves_input = pick(3) > 0, .saves_output = pick(3) > 0, .replayable = pick(4) > 0,
                         .has_weight = pick(2) == 0, .forward = time(), .backward = time(), .size = shape.size, .weight = shape.size});
    }
    for (Layer& layer : layers_) {
      if (shape.sizes > 1) layer.size = any_size(), layer.weight = any_size();
      layer.lean = shape.lean && pick(3) > 0;
      layer.rides = layer.lean && pick(2) > 0;
      layer.lingers = shape.lingers && pick(3) == 0;
    }
  }

  Trace make() {
    maker_.birth("x", shape_.size, StorageKind::input);
    for (int i = 0; i < shape_.layers; ++i) {
      if (!layers_[at(i)].has_weight) continue;
      maker_.birth(name("w", i), layers_[at(i)].weight, StorageKind::parameter);
      maker_.birth(name("m", i), layers_[at(i)].weight, StorageKind::optimizer_state);
    }
    for (int step = 0; step < shape_.steps; ++step) run();
    return maker_.trace();
  }

 private:
  struct Layer {
    bool skips, saves_input, saves_output, replayable, has_weight;
    Nanos forward, backward;
    Bytes size, weight;
    bool lean = false, rides = false, lingers = false;
  };
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  static std::string name(const char* what, int i) { return what + std::to_string(i); }
  static std::string activation(int i) { return i < 0 ? "x" : name("a", i); }
  Bytes any_size() { return shape_.size * static_cast<int>(1 + pick(static_cast<std::uint32_t>(shape_.sizes))); }
  [[nodiscard]] Bytes size_of(int i) const { return i < 0 ? shape_.size : layers_[at(i)].size; }
  std::uint32_t pick(std::uint32_t sides) { return static_cast<std::uint32_t>(dice_() % sides); }
  Nanos time() { return Nanos{1000} * (shape_.shortest_us + static_cast<int>(pick(static_cast<std::uint32_t>(shape_.longest_us - shape_.shortest_us)))); }

  // Whether the backward of layer i or anything after op i of the forward still reads it.
  [[nodiscard]] bool is_kept(int i) const {
    if (i < 0) return true;
    if (layers_[at(i)].saves_output) return true;
    return i + 1 < shape_.layers && layers_[at(i + 1)].saves_input;
  }

  void run() {
    maker_.begin();
    forward();
    backward();
    for (int i = 0; i < shape_.layers; ++i) {
      if (!layers_[at(i)].has_weight) continue;
      maker_.op("update", {.in = {name("g", i)}, .write = {name("w", i), name("m", i)}, .takes = 300_us, .replayable = false, .phase = Phase::optimizer});
      if (shape_.lingers) maker_.rename(name("g", i), name("old g", i));
      else maker_.death(name("g", i));
    }
    has_old_ = shape_.lingers;
    maker_.end();
  }

  void forward() {
    for (int i = 0; i < shape_.layers; ++i) {
      const Layer& layer = layers_[at(i)];
      std::vector<std::string> in{activation(i - 1)};
      if (layer.skips) in.push_back(activation(i - 3));
      if (layer.has_weight) in.push_back(name("w", i));
      maker_.birth(activation(i), layer.size);
      std::vector<std::string> out{activation(i)};
      if (layer.lean) {
        maker_.birth(out.emplace_back(name("s", i)), shape_.size / 64);
      }
      maker_.op("layer" + std::to_string(i), {.in = in, .out = out, .takes = layer.forward, .lean = layer.lean ? layer.forward / 8 : 0_ns, .replayable = layer.replayable});
      if (layer.rides) maker_.op("change" + std::to_string(i), {.write = {activation(i)}, .takes = 50_us, .lean = 1_ns, .replayable = layer.replayable});
      // A skip may still come for the last two.
      if (i >= 2 && !is_kept(i - 2) && !needed_by_skip(i - 2, i)) bury(i - 2);
      if (has_old_ && i == shape_.layers / 2) forget_old_gradients();
    }
  }

  void forget_old_gradients() {
    for (int i = 0; i < shape_.layers; ++i) {
      if (layers_[at(i)].has_weight) maker_.death(name("old g", i));
    }
    has_old_ = false;
  }

  [[nodiscard]] bool needed_by_skip(int i, int after) const {
    return i + 3 > after && i + 3 < shape_.layers && layers_[at(i + 3)].skips;
  }
  void bury(int i) {
    maker_.death(activation(i));
    dead_.push_back(i);
  }

  void backward() {
    std::vector<int> lingering;
    maker_.birth("d", size_of(shape_.layers - 1));
    maker_.op("loss", {.in = {activation(shape_.layers - 1)}, .out = {"d"}, .takes = 200_us});
    for (int i = shape_.layers - 1; i >= 0; --i) {
      const Layer& layer = layers_[at(i)];
      std::vector<std::string> in{"d"}, out{"e"};
      if (layer.saves_output) in.push_back(activation(i));
      if (layer.saves_input) in.push_back(activation(i - 1));
      if (layer.lean) in.push_back(name("s", i));
      maker_.birth("e", size_of(i - 1));
      if (layer.has_weight) {
        in.push_back(name("w", i));
        out.push_back(shape_.seeds ? "seed" : name("g", i));
        maker_.birth(out.back(), shape_.seeds ? shape_.size / 64 : layer.weight, shape_.seeds ? StorageKind::activation : StorageKind::gradient);
      }
      maker_.op("back" + std::to_string(i), {.in = in, .out = out, .takes = layer.backward, .replayable = !shape_.seeds, .phase = Phase::backward});
      if (layer.has_weight && shape_.seeds) grow(i);
      maker_.death("d");
      maker_.rename("e", "d");
      if (layer.lingers) lingering.push_back(i);
      else if (std::ranges::find(dead_, i) == dead_.end()) maker_.death(activation(i));
      if (layer.lean) maker_.death(name("s", i));
    }
    maker_.death("d");
    for (const int i : lingering) {
      if (std::ranges::find(dead_, i) == dead_.end()) maker_.death(activation(i));
    }
    dead_.clear();
  }

  void grow(int i) {
    maker_.birth(name("g", i), layers_[at(i)].weight, StorageKind::gradient);
    maker_.op("grow" + std::to_string(i), {.in = {"seed"}, .out = {name("g", i)}, .takes = 100_us, .phase = Phase::backward});
    maker_.death("seed");
  }

  const StepShape shape_;
  std::mt19937 dice_;
  std::vector<Layer> layers_;
  std::vector<int> dead_;
  bool has_old_ = false;  // gradients of the step before
  StepMaker maker_;
};

}  // namespace spillway::testing
