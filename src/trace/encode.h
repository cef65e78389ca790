// Events as bytes: variable-length numbers, ids and times as differences from the last of their kind.
//
// The differences start over with every block, so each block decodes alone. The encoder writes into room that its
// caller made sure of (`make_room`), unchecked; the decoder trusts nothing: every length is compared with the bytes
// that are left, every value with what its type can hold, and what does not fit is an InputError with file and byte
// offset.
//
//   id -> zigzag(id + 1 - last), so "no id" is 0;   time point -> zigzag(t - last);   other numbers -> zigzag or plain
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/units.h"
#include "trace/fields.h"

namespace spillway {

// The last value of each kind, from which differences are taken; arithmetic wraps, so extreme values survive.
struct Differences {
  std::tuple<StorageId, OpIndex, StepIndex, StreamId, JobId, NameId> ids;
  std::uint64_t moment = 0;
};

[[nodiscard]] constexpr std::uint64_t zigzag(std::int64_t value) {
  return (static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63);
}
[[nodiscard]] constexpr std::int64_t unzigzag(std::uint64_t value) {
  return static_cast<std::int64_t>((value >> 1) ^ (0 - (value & 1)));
}

// No more bytes than this for the fields of an event, lists and texts aside: 17 fields of at most 10 bytes.
inline constexpr std::size_t kMaxFieldBytes = 256;

class Encoder {
 public:
  // Keeps `prefix` bytes in front of what is encoded, for a header.
  explicit Encoder(std::size_t prefix = 0) : bytes_(prefix), prefix_(prefix), used_(prefix) {}

  // Room for an event with `ids` listed storages and `text` bytes of text; grows only for an event larger than any
  // before.
  void make_room(std::size_t ids, std::size_t text) {
    const std::size_t worst = used_ + kMaxFieldBytes + 5 * ids + text;
    if (worst > bytes_.size()) bytes_.resize(worst + worst / 2);
  }
  void clear() {
    used_ = prefix_;
    last_ = {};
  }
  [[nodiscard]] std::size_t size() const { return used_ - prefix_; }
  [[nodiscard]] std::span<std::uint8_t> prefix() { return {bytes_.data(), prefix_}; }
  [[nodiscard]] std::span<const std::uint8_t> payload() const { return {bytes_.data() + prefix_, size()}; }
  [[nodiscard]] std::span<const std::uint8_t> whole() const { return {bytes_.data(), used_}; }

  template <class E>
  void put_event(const E& event) {
    bytes_[used_++] = kTag<E>.number;
    each_field(*this, event);
  }

  template <class Kind>
  void operator()(std::string_view, Id<Kind> id) {
    put_id(id);
  }
  template <class Kind>
  void announced(std::string_view, Id<Kind> id) {
    put_id(id);
  }
  template <class Kind>
  void operator()(std::string_view, Quantity<Kind> value) {
    put(zigzag(value.count));
  }
  template <std::unsigned_integral T>
  void operator()(std::string_view, T value) {
    put(value);
  }
  template <class Enum>
  requires std::is_enum_v<Enum>
  void operator()(std::string_view, Enum value) { bytes_[used_++] = static_cast<std::uint8_t>(value); }
  void operator()(std::string_view, std::span<const StorageId> list) {
    put(list.size());
    for (const StorageId id : list) put_id(id);
  }
  void operator()(std::string_view, std::span<const std::uint64_t> words) {
    put(words.size());
    for (const std::uint64_t word : words) put(word);
  }
  template <std::size_t N>
  void operator()(std::string_view, const std::array<Nanos, N>& values) {
    for (const Nanos value : values) put(zigzag(value.count));
  }
  void operator()(std::string_view, const std::string& text) {
    put(text.size());
    for (const char c : text) bytes_[used_++] = static_cast<std::uint8_t>(c);
  }
  template <class T>
  void since(std::uint16_t, std::string_view field, const T& value) {
    (*this)(field, value);
  }
  void moment(std::string_view, Nanos at) {
    const auto now = static_cast<std::uint64_t>(at.count);
    put(zigzag(static_cast<std::int64_t>(now - last_.moment)));
    last_.moment = now;
  }

 private:
  void put(std::uint64_t value) {
    while (value >= 0x80) {
      bytes_[used_++] = static_cast<std::uint8_t>(value | 0x80);
      value >>= 7;
    }
    bytes_[used_++] = static_cast<std::uint8_t>(value);
  }
  template <class Kind>
  void put_id(Id<Kind> id) {
    auto& last = std::get<Id<Kind>>(last_.ids);
    put(zigzag(std::int64_t{id.index + 1} - std::int64_t{last.index + 1}));
    last = id;
  }

  std::vector<std::uint8_t> bytes_;
  std::size_t prefix_, used_;
  Differences last_;
};

// Where decoded bytes come from, for messages.
struct Origin {
  std::string_view file;
  std::uint64_t offset = 0;  // of the payload's first byte
};

// "run.spt: byte 123: expected a phase, found 9".
[[noreturn]] void fail_input(std::string_view file, std::uint64_t offset, const std::string& what);

class Decoder {
 public:
  Decoder(std::span<const std::uint8_t> bytes, Origin origin, std::uint16_t version = kFormatVersion)
      : bytes_(bytes), origin_(origin), version_(version) {}

  [[nodiscard]] bool done() const { return at_ == bytes_.size(); }
  [[nodiscard]] std::uint64_t offset() const { return origin_.offset + at_; }
  [[noreturn]] void fail(const std::string& what) const { fail_input(origin_.file, offset(), what); }

  // The number of the next event; its fields follow.
  [[nodiscard]] std::uint8_t take_tag() { return take_byte("an event"); }

  template <class Kind>
  void operator()(std::string_view field, Id<Kind>& id) {
    id = take_id<Kind>(field);
  }
  template <class Kind>
  void announced(std::string_view field, Id<Kind>& id) {
    id = take_id<Kind>(field);
  }
  template <class Kind>
  void operator()(std::string_view field, Quantity<Kind>& value) {
    value.count = unzigzag(take(field));
  }
  template <std::unsigned_integral T>
  void operator()(std::string_view field, T& value) {
    constexpr std::uint64_t most = std::is_same_v<T, bool> ? 1 : T(-1);
    const std::uint64_t found = take(field);
    if (found > most) fail_range(field, most, found);
    value = static_cast<T>(found);
  }
  template <class Enum>
  requires std::is_enum_v<Enum>
  void operator()(std::string_view field, Enum& value) {
    const std::uint8_t found = take_byte(field);
    if (found >= kWords<Enum>.size()) fail_range(field, kWords<Enum>.size() - 1, found);
    value = static_cast<Enum>(found);
  }
  void operator()(std::string_view field, std::vector<StorageId>& list);
  void operator()(std::string_view field, std::vector<std::uint64_t>& words);
  template <std::size_t N>
  void operator()(std::string_view field, std::array<Nanos, N>& values) {
    for (Nanos& value : values) value.count = unzigzag(take(field));
  }
  void operator()(std::string_view field, std::string& text);
  template <class T>
  void since(std::uint16_t version, std::string_view field, T& value) {
    if (version_ >= version) (*this)(field, value);
    else value = {};
  }
  void moment(std::string_view field, Nanos& at) {
    last_.moment += static_cast<std::uint64_t>(unzigzag(take(field)));
    at.count = static_cast<std::int64_t>(last_.moment);
  }

 private:
  [[nodiscard]] std::uint64_t take(std::string_view field) {
    if (at_ < bytes_.size() && bytes_[at_] < 0x80) return bytes_[at_++];
    return take_long(field);
  }
  [[nodiscard]] std::uint64_t take_long(std::string_view field);
  [[nodiscard]] std::uint8_t take_byte(std::string_view field);
  // A count of things that take at least a byte each.
  [[nodiscard]] std::size_t take_count(std::string_view field);
  [[noreturn]] void fail_range(std::string_view field, std::uint64_t most, std::uint64_t found) const;

  template <class Kind>
  Id<Kind> take_id(std::string_view field) {
    auto& last = std::get<Id<Kind>>(last_.ids);
    const auto found = static_cast<std::uint64_t>(last.index + 1) + static_cast<std::uint64_t>(unzigzag(take(field)));
    if (found > UINT32_MAX) fail_range(field, UINT32_MAX, found);
    last.index = static_cast<std::uint32_t>(found) - 1;
    return last;
  }

  std::span<const std::uint8_t> bytes_;
  Origin origin_;
  std::uint16_t version_;
  std::size_t at_ = 0;
  Differences last_;
};

// One value of every event type, filled again and again: decoding in a loop then allocates nothing once lists have
// grown.
using EventScratch =
    std::tuple<Fact, Name, StepBegin, StepEnd, StorageBirth, StorageDeath, StorageRole, Op, Allocation, Release,
               Refusal, Reserved, Move, Recompute, Stall, BudgetChange, PlanMade, Decision, StepSummary, Restart,
               Call>;

// Decodes the next event and hands it to `take(event)` by its own type.
template <class Take>
void decode_event(Decoder& from, EventScratch& scratch, Take&& take) {
  const std::uint8_t tag = from.take_tag();
  const bool known = std::apply(
      [&](auto&... event) {
        const auto try_one = [&]<class E>(E& candidate) {
          if (kTag<E>.number != tag) return false;
          each_field(from, candidate);
          take(candidate);
          return true;
        };
        return (try_one(event) || ...);
      },
      scratch);
  if (!known) from.fail("expected the number of an event, found " + std::to_string(tag));
}

// What an event needs beside its plain fields: how many listed storages, how many bytes of text.
struct EventExtent {
  std::size_t ids = 0, text = 0;
};
template <class E>
[[nodiscard]] EventExtent extent(const E&) {
  return {};
}
template <class List>
[[nodiscard]] EventExtent extent(const BasicOp<List>& op) {
  return {op.inputs.size() + op.outputs.size() + op.mutated.size() + op.aliased.size(), 0};
}
template <class Words>
[[nodiscard]] EventExtent extent(const BasicCall<Words>& call) {
  return {2 * call.words.size(), 0};
}
[[nodiscard]] inline EventExtent extent(const Fact& fact) { return {0, fact.key.size() + fact.value.size()}; }
[[nodiscard]] inline EventExtent extent(const Name& name) { return {0, name.text.size()}; }

// True where the bytes are well-formed UTF-8 (no overlong forms, no surrogates, nothing above U+10FFFF).
[[nodiscard]] bool is_utf8(std::string_view text);
// The text as a trace can hold it: bytes that are not UTF-8 become '?', and no more than `most` bytes stay.
[[nodiscard]] std::string clean_text(std::string_view text, std::size_t most);

}  // namespace spillway
