#include "trace/trace.h"

#include <fmt/format.h>

#include "trace/fields.h"

namespace spillway {

std::optional<std::string> NameBook::announce(const Name& name) {
  if (name.id.index != texts_.size())
    return fmt::format("expected name {}, found name {}", texts_.size(), name.id.index);
  const auto [entry, added] = ids_.try_emplace(name.text, name.id);
  if (!added)
    return fmt::format("expected a text of its own for name {}, found that of name {}", name.id.index,
                       entry->second.index);
  texts_.push_back(name.text);
  return std::nullopt;
}

std::optional<NameId> NameBook::find(std::string_view text) const {
  const auto found = ids_.find(std::string(text));
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

namespace {

// Gives ids new numbers in the order in which it first meets them.
class Renumber {
 public:
  void operator()(std::string_view, StorageId& id) { renumber(storages_, id); }
  void operator()(std::string_view, OpIndex& id) { renumber(ops_, id); }
  void operator()(std::string_view, std::vector<StorageId>& list) {
    for (StorageId& id : list) renumber(storages_, id);
  }
  template <class T>
  void operator()(std::string_view, T&) {}
  template <class T>
  void announced(std::string_view, T&) {}
  template <class T>
  void since(std::uint16_t, std::string_view field, T& value) {
    (*this)(field, value);
  }
  void moment(std::string_view, Nanos&) {}

 private:
  template <class Id>
  static void renumber(std::unordered_map<Id, Id>& seen, Id& id) {
    if (!id.valid()) return;
    const Id next{static_cast<std::uint32_t>(seen.size())};
    id = seen.try_emplace(id, next).first->second;
  }

  std::unordered_map<StorageId, StorageId> storages_;
  std::unordered_map<OpIndex, OpIndex> ops_;
};

}  // namespace

Trace densify(Trace trace) {
  Renumber renumber;
  for (Event& event : trace.events) std::visit([&](auto& one) { each_field(renumber, one); }, event);
  return trace;
}

}  // namespace spillway
