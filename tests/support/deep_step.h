// A step of a transformer that is as deep as one likes: 12 ops a block forward, 15 backward and one of the optimizer, with sizes and
// times as GPT-2 medium has them on an H200 (traces/gpt2m_16x1024), sixteen sequences of 1,024.
#pragma once

#include <string>
#include <vector>

#include "support/step_maker.h"

namespace spillway {

class DeepStep {
 public:
  // Two steps of at least so many ops each.
  Trace make(std::int64_t ops) {
    const std::int64_t blocks = (ops + kOpsABlock - 1) / kOpsABlock;
    steps_.birth("h0", 32_MiB, StorageKind::input);
    for (std::int64_t block = 0; block < blocks; ++block) {
      steps_.birth(name("weights", block), 48_MiB, StorageKind::parameter);
      steps_.birth(name("moments", block), 96_MiB, StorageKind::optimizer_state);
    }
    for (int step = 0; step < 2; ++step) {
      steps_.begin();
      for (std::int64_t block = 0; block < blocks; ++block) forward(block);
      steps_.birth("d", 32_MiB);
      steps_.op("loss", {.in = {name("h", blocks)}, .out = {"d"}, .takes = 300_us});
      for (std::int64_t block = blocks; block-- > 0;) backward(block);
      steps_.death("d");
      for (std::int64_t block = 0; block < blocks; ++block) {
        steps_.op("adamw", {.in = {name("gradient", block)}, .write = {name("weights", block), name("moments", block)}, .takes = 90_us, .replayable = false, .phase = Phase::optimizer});
        steps_.death(name("gradient", block));
      }
      steps_.end();
    }
    return steps_.trace();
  }

 private:
  static constexpr std::int64_t kOpsABlock = 28;
  struct Line {
    const char* makes;
    Bytes size;
    std::vector<const char*> of;
    Nanos takes;
    bool weights = false;
  };

  // "h": what the block before made.
  static const std::vector<Line>& lines() {
    static const std::vector<Line> all{{"norm1", 32_MiB, {"h"}, 35_us},          {"qkv", 96_MiB, {"norm1"}, 190_us, true},
                                       {"attended", 32_MiB, {"qkv"}, 260_us},    {"merged", 32_MiB, {"attended"}, 30_us},
                                       {"projected", 32_MiB, {"merged"}, 70_us, true}, {"dropped1", 32_MiB, {"projected"}, 45_us},
                                       {"middle", 32_MiB, {"dropped1", "h"}, 40_us},   {"norm2", 32_MiB, {"middle"}, 35_us},
                                       {"up", 128_MiB, {"norm2"}, 240_us, true}, {"gelu", 128_MiB, {"up"}, 90_us},
                                       {"down", 32_MiB, {"gelu"}, 240_us, true}};
    return all;
  }
  static std::string name(const std::string& what, std::int64_t block) { return what + std::to_string(block); }

  std::vector<std::string> sources(const Line& line, std::int64_t block) const {
    std::vector<std::string> in;
    for (const char* source : line.of) in.push_back(name(source, block));
    if (line.weights) in.push_back(name("weights", block));
    return in;
  }

  void forward(std::int64_t block) {
    for (const Line& line : lines()) {
      steps_.birth(name(line.makes, block), line.size);
      steps_.op(line.makes, {.in = sources(line, block), .out = {name(line.makes, block)}, .takes = line.takes});
    }
    steps_.birth(name("h", block + 1), 32_MiB);
    steps_.op("add", {.in = {name("down", block), name("middle", block)}, .out = {name("h", block + 1)}, .takes = 40_us});
    for (const char* gone : {"projected", "dropped1", "down"}) steps_.death(name(gone, block));
  }

  // A line's backward reads what it was made of, where that is still there.
  void backward(std::int64_t block) {
    steps_.birth(name("gradient", block), 48_MiB, StorageKind::gradient);
    steps_.op("zeros", {.in = {name("h", block + 1)}, .out = {name("gradient", block)}, .takes = 20_us, .phase = Phase::backward});
    steps_.death(name("h", block + 1));
    for (std::size_t at = lines().size(); at-- > 0;) {
      const Line& line = lines()[at];
      std::vector<std::string> in{"d"}, write;
      for (const std::string& source : sources(line, block)) {
        if (!source.starts_with("projected") && !source.starts_with("dropped1")) in.push_back(source);
      }
      if (line.weights) write.push_back(name("gradient", block));
      steps_.birth("e", 32_MiB);
      steps_.op("back", {.in = in, .out = {"e"}, .write = write, .takes = line.takes * 2, .phase = Phase::backward});
      steps_.death("d");
      steps_.rename("e", "d");
      const bool gone = std::string_view("projected dropped1 down").find(line.makes) != std::string_view::npos;
      if (!gone) steps_.death(name(line.makes, block));
    }
    for (int sum = 0; sum < 3; ++sum) {
      steps_.birth("e", 32_MiB);
      steps_.op("sum", {.in = {"d"}, .out = {"e"}, .takes = 30_us, .phase = Phase::backward});
      steps_.death("d");
      steps_.rename("e", "d");
    }
  }

  testing::StepMaker steps_;
};

inline Trace make_deep_step(std::int64_t ops) { return DeepStep().make(ops); }

}  // namespace spillway
