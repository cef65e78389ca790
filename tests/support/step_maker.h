// Writes traces by hand, as a script would run: storages by name, one op a line, any number of steps.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "trace/trace.h"

namespace spillway::testing {

struct OpLine {
  std::vector<std::string> in = {}, out = {}, write = {}, view = {};  // `view`: outputs that are views of inputs
  Nanos takes = 1_us;
  Bytes workspace = {};  // beyond what it makes
  Nanos lean = {}, again = {};  // as in Op
  bool replayable = true;
  Phase phase = Phase::forward;
};

class StepMaker {
 public:
  void birth(const std::string& name, Bytes size, StorageKind kind = StorageKind::activation) {
    const StorageId id{static_cast<std::uint32_t>(sizes_.size())};
    ids_[name] = id;
    sizes_.push_back(size);
    add(StorageBirth{id, size, kind, kJob, now_});
  }
  void death(const std::string& name) {
    add(StorageDeath{ids_.at(name), now_});
    ids_.erase(name);
  }
  void rename(const std::string& from, const std::string& to) {
    ids_[to] = ids_.at(from);
    ids_.erase(from);
  }
  void role(const std::string& name, StorageKind kind) { add(StorageRole{ids_.at(name), kind}); }
  void begin() { add(StepBegin{StepIndex{step_}, kJob, now_, {}}); }
  void end() { add(StepEnd{StepIndex{step_++}, kJob, now_}); }
  void add(Event event) { trace_.events.push_back(std::move(event)); }

  void op(std::string_view name, const OpLine& line) {
    Op op{.index = OpIndex{ops_++}, .name = intern(name), .phase = line.phase, .job = kJob, .step = StepIndex{step_}};
    op.stream = StreamId{0};
    op.start = now_;
    op.duration = line.takes;
    op.lean = line.lean;
    op.again = line.again;
    op.replayable = line.replayable;
    op.inputs = ids(line.in);
    op.mutated = ids(line.write);
    op.outputs = ids(line.out);
    op.aliased = ids(line.view);
    for (const StorageId id : op.outputs) op.transient += sizes_[id.index];
    op.transient += line.workspace;
    op.workspace = line.workspace;
    op.outputs.insert(op.outputs.end(), op.aliased.begin(), op.aliased.end());
    add(std::move(op));
    now_ += line.takes;
  }
  // An op that makes what it returns.
  void make(const std::string& name, Bytes size, std::vector<std::string> in) {
    birth(name, size);
    op("make", {.in = std::move(in), .out = {name}});
  }

  [[nodiscard]] StorageId id(const std::string& name) const { return ids_.at(name); }
  [[nodiscard]] const Trace& trace() const { return trace_; }

 private:
  static constexpr JobId kJob{0};

  std::vector<StorageId> ids(const std::vector<std::string>& names) const {
    std::vector<StorageId> ids;
    for (const std::string& name : names) ids.push_back(ids_.at(name));
    return ids;
  }
  NameId intern(std::string_view text) {
    for (std::uint32_t i = 0; i < trace_.names.size(); ++i)
      if (trace_.names[i] == text) return NameId{i};
    const NameId id{static_cast<std::uint32_t>(trace_.names.size())};
    trace_.names.emplace_back(text);
    add(Name{id, std::string(text)});
    return id;
  }

  Trace trace_;
  std::unordered_map<std::string, StorageId> ids_;
  std::vector<Bytes> sizes_;
  std::uint32_t step_ = 0, ops_ = 0;
  Nanos now_;
};

}  // namespace spillway::testing
