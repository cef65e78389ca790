#include "liveness/pieces.h"

#include <algorithm>
#include <unordered_map>

namespace spillway {

namespace {

bool contains(const std::vector<StorageId>& list, StorageId id) { return std::ranges::find(list, id) != list.end(); }

template <class Amount>
Amount share(Amount amount, Bytes part, Bytes whole) {
  if (part == whole) return amount;
  return {static_cast<std::int64_t>(static_cast<double>(amount.count) * static_cast<double>(part.count) / static_cast<double>(whole.count))};
}

class Cutter {
 public:
  Cutter(const Trace& trace, Bytes most) : from_(trace), most_(most) {}

  Trace cut() {
    made_.names = from_.names;
    made_.truncated = from_.truncated;
    made_.whole_until = from_.whole_until;
    for (const Event& event : from_.events) take(event);
    flush();
    return std::move(made_);
  }

 private:
  // Births wait for their op: a piece's results are born right before it.
  void take(const Event& event) {
    if (std::holds_alternative<Call>(event)) return;  // of a run in which the lists were whole
    if (const auto* birth = std::get_if<StorageBirth>(&event)) {
      sizes_[birth->storage] = birth->size;
      births_.push_back(*birth);
      return;
    }
    const auto* op = std::get_if<Op>(&event);
    if (op != nullptr && cut(*op)) return;
    if (!std::holds_alternative<Name>(event)) flush();
    if (op == nullptr) made_.events.push_back(event);
    else add(*op);
  }

  void flush() {
    for (const StorageBirth& birth : births_) made_.events.emplace_back(birth);
    births_.clear();
  }

  void add(Op op) {
    op.index = OpIndex{ops_++};
    made_.events.emplace_back(std::move(op));
  }

  [[nodiscard]] Bytes size(StorageId id) const {
    const auto found = sizes_.find(id);
    return found == sizes_.end() ? 0_B : found->second;
  }

  // The arguments in the order of the lists: list after list, all of one length.
  [[nodiscard]] std::vector<StorageId> arguments(const Op& op) const {
    std::vector<StorageId> all = op.inputs;
    for (const StorageId id : op.mutated) {
      if (!contains(op.inputs, id)) all.push_back(id);
    }
    return all;
  }

  // Whether the list that begins here has a second one of this length that goes along with it, size by size.
  [[nodiscard]] bool has_twin(const std::vector<StorageId>& all, std::size_t each, std::size_t first) const {
    for (std::size_t list = first + each; list < all.size(); list += each) {
      std::size_t same = 0;
      while (same < each && size(all[first + same]) == size(all[list + same])) ++same;
      if (same == each) return true;
    }
    return false;
  }

  // How long the lists are; 0 when it cannot be told. Some ops have one list more, of step counts, which may come first: then the second
  // has a twin. One whose arguments are all written and have no twins has a single list.
  [[nodiscard]] std::size_t length(const Op& op, const std::vector<StorageId>& all) const {
    const std::size_t lists = lists_of(from_.name(op.name));
    if (lists == 0) return 0;
    for (const std::size_t first : {0, 1}) {
      for (const std::size_t count : {lists, lists + 1, lists + 2}) {
        const std::size_t each = all.size() / count;
        if (all.size() % count != 0 || each < 2 || op.outputs.size() % each != 0) continue;
        if (has_twin(all, each, first * each)) return each;
      }
    }
    return all.size() > 1 && op.outputs.empty() && op.mutated.size() == all.size() ? all.size() : 0;
  }

  bool cut(const Op& op) {
    const std::vector<StorageId> all = arguments(op);
    const std::size_t each = length(op, all);
    if (each == 0) return false;
    const auto element = [&](std::size_t i) {
      Bytes sum;
      for (std::size_t at = i; at < all.size(); at += each) sum += size(all[at]);
      return sum;
    };
    Bytes whole;
    for (std::size_t i = 0; i < each; ++i) whole += element(i);
    if (whole <= most_) return false;
    Bytes done;
    for (std::size_t begin = 0, end = 0; begin < each; begin = end) {
      Bytes bytes;
      do bytes += element(end++);
      while (end < each && bytes + element(end) <= most_);
      Op piece = piece_of(op, all, {begin, end, each});
      const Nanos before = share(op.duration, done, whole);
      done += bytes;
      piece.start = op.start + before;
      piece.duration = share(op.duration, done, whole) - before;
      piece.transient = share(op.transient, bytes, whole);
      piece.workspace = share(op.workspace, bytes, whole);
      give_birth(piece, end == each);
      add(std::move(piece));
    }
    return true;
  }

  struct Part {
    std::size_t begin, end, each;
  };

  [[nodiscard]] static Op piece_of(const Op& op, const std::vector<StorageId>& all, Part part) {
    Op piece = op;
    std::vector<StorageId> here;
    for (std::size_t at = 0; at < all.size(); ++at) {
      if (at % part.each >= part.begin && at % part.each < part.end) here.push_back(all[at]);
    }
    const auto elsewhere = [&](StorageId id) { return !contains(here, id); };
    std::erase_if(piece.inputs, elsewhere);
    std::erase_if(piece.mutated, elsewhere);
    std::erase_if(piece.aliased, elsewhere);
    piece.outputs.clear();
    for (std::size_t at = 0; at < op.outputs.size(); ++at) {
      if (at % part.each >= part.begin && at % part.each < part.end) piece.outputs.push_back(op.outputs[at]);
    }
    return piece;
  }

  void give_birth(const Op& piece, bool last) {
    std::erase_if(births_, [&](const StorageBirth& birth) {
      const bool now = last || contains(piece.outputs, birth.storage);
      if (now) made_.events.emplace_back(birth);
      return now;
    });
  }

  const Trace& from_;
  const Bytes most_;
  Trace made_;
  std::vector<StorageBirth> births_;
  std::unordered_map<StorageId, Bytes> sizes_;
  std::uint32_t ops_ = 0;
};

}  // namespace

Trace cut_lists(const Trace& trace, Bytes most) { return Cutter(trace, most).cut(); }

}  // namespace spillway
