// A trace as a value: all its events, and the texts its names stand for.
//
// `names[id.index]` is the text of every NameId that occurs: readers refuse a trace that uses a name it did not
// announce. Storage and op ids are as recorded; after a Restart they have gaps, which densify() closes for whoever
// wants to index.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/units.h"
#include "trace/event.h"

namespace spillway {

struct Trace {
  std::vector<Event> events;
  std::vector<std::string> names;
  bool truncated = false;  // the file ends in the middle of something; the events up to there are whole
  Bytes whole_until;       // where in the file

  // "" for no name.
  [[nodiscard]] std::string_view name(NameId id) const {
    return id.valid() ? std::string_view(names.at(id.index)) : "";
  }
};

// The names of a trace under construction; keeps their law: announced in the order of their ids, every text once.
class NameBook {
 public:
  // Empty when all is well, else what is wrong with it, in words.
  [[nodiscard]] std::optional<std::string> announce(const Name& name);
  [[nodiscard]] bool knows(NameId id) const { return !id.valid() || id.index < texts_.size(); }
  [[nodiscard]] const std::string& text(NameId id) const { return texts_.at(id.index); }
  [[nodiscard]] std::optional<NameId> find(std::string_view text) const;
  [[nodiscard]] const std::vector<std::string>& texts() const { return texts_; }

 private:
  std::vector<std::string> texts_;
  std::unordered_map<std::string, NameId> ids_;
};

// The same trace with storages numbered 0, 1, 2, ... in the order of their births, and ops in theirs.
[[nodiscard]] Trace densify(Trace trace);

}  // namespace spillway
