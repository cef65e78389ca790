// Addresses for storages whose bytes are away: an access faults on the spot, and the address tells whose it is.
//
// Reserved pages that nobody may touch, cut into classes of equal span; a class has slices of one power of two:
//
//   class of an address == (address - begin) / kSpan,   slice of it == (address % kSpan) / (kSmallest << class)
//
// so a slice is as long as its storage and a read at any offset is told apart from its neighbours'. A slice that came
// free keeps its facts and waits behind kRest others: a pointer kept from back then still names its storage. `take` and
// `give_back` belong to the engine's lock; `find` is safe in a signal handler.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>

#include "engine/record.h"

namespace spillway {

enum class Whereabouts : std::uint8_t { unknown, in_host_memory, in_a_file, dropped, home, dead };

// A storage as it was when it left.
struct AwayFacts {
  StorageId storage;
  Bytes size;
  const char* maker = nullptr;  // the operator; null: none was running
  std::uint64_t op = 0;         // how many had run before
  std::uint64_t step = 0;
  Whereabouts where = Whereabouts::unknown;
};

class NoAccess {
 public:
  NoAccess();  // throws DeviceError when the addresses cannot be had
  NoAccess(const NoAccess&) = delete;
  NoAccess& operator=(const NoAccess&) = delete;

  // An address for a record that leaves. A storage too large for a slice, or one too many, shares an address that tells
  // nothing.
  [[nodiscard]] std::byte* take(const Record& record);
  void give_back(const std::byte* address, Whereabouts now);

  [[nodiscard]] bool contains(const void* address) const;
  struct Found {
    AwayFacts facts;
    std::ptrdiff_t offset = 0;  // of the address in its storage
  };
  // Facts without a storage: nothing is known of this address.
  [[nodiscard]] Found find(const void* address) const;

 private:
  static constexpr int kClasses = 27;              // 4 KiB to 256 GiB
  static constexpr std::size_t kSmallest = 4096;   // a page
  static constexpr std::size_t kSpan = std::size_t{1} << 40;
  static constexpr std::size_t kMostSlices = std::size_t{1} << 20;  // of one class: their facts take 48 MiB at most
  static constexpr std::size_t kRest = 4096;       // a step moves some thousand storages at most
  static constexpr std::size_t kShared = std::size_t{1} << 42;      // longer than any storage
  static constexpr std::size_t kLength = kClasses * kSpan + kShared;

  struct Class {
    AwayFacts* facts = nullptr;  // one a slice; mapped when the first is taken
    std::size_t taken = 0;       // slices that were ever handed out
    std::deque<std::uint32_t> free;
  };

  [[nodiscard]] std::byte* shared() const { return begin_ + kClasses * kSpan; }
  [[nodiscard]] static std::size_t slices(int of) { return std::min(kMostSlices, kSpan / (kSmallest << of)); }
  [[nodiscard]] bool open(int number);
  [[nodiscard]] AwayFacts* facts_at(const void* address) const;

  std::byte* begin_ = nullptr;
  std::array<Class, kClasses> classes_;
};

}  // namespace spillway
