#include "torch/no_access.h"

#include <sys/mman.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <string>

#include "base/error.h"

namespace spillway {

namespace {

constexpr int kMapFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

Whereabouts whereabouts(const Record& record) {
  if (!record.copy) return Whereabouts::dropped;
  return record.copy->tier == Tier::host ? Whereabouts::in_host_memory : Whereabouts::in_a_file;
}

}  // namespace

NoAccess::NoAccess() {
  void* pages = ::mmap(nullptr, kLength, PROT_NONE, kMapFlags, -1, 0);
  if (pages == MAP_FAILED) throw DeviceError("mmap of addresses without memory failed: " + std::string(std::strerror(errno)));
  begin_ = static_cast<std::byte*>(pages);
}

bool NoAccess::open(int number) {
  Class& chosen = classes_[static_cast<std::size_t>(number)];
  if (chosen.facts != nullptr) return true;
  void* pages = ::mmap(nullptr, slices(number) * sizeof(AwayFacts), PROT_READ | PROT_WRITE, kMapFlags, -1, 0);
  if (pages == MAP_FAILED) return false;
  chosen.facts = static_cast<AwayFacts*>(pages);
  return true;
}

std::byte* NoAccess::take(const Record& record) {
  const auto pages = (static_cast<std::size_t>(record.size.count) + kSmallest - 1) / kSmallest;
  const auto number = static_cast<int>(std::bit_width(std::max<std::size_t>(pages, 1) - 1));
  if (number >= kClasses || !open(number)) return shared();
  Class& chosen = classes_[static_cast<std::size_t>(number)];
  const bool fresh = chosen.free.size() < kRest && chosen.taken < slices(number);
  if (!fresh && chosen.free.empty()) return shared();
  const std::size_t slice = fresh ? chosen.taken++ : chosen.free.front();
  if (!fresh) chosen.free.pop_front();
  chosen.facts[slice] = {.storage = record.id, .size = record.size, .maker = record.maker, .op = record.born,
                         .step = record.born_step, .where = whereabouts(record)};
  return begin_ + static_cast<std::size_t>(number) * kSpan + slice * (kSmallest << number);
}

void NoAccess::give_back(const std::byte* address, Whereabouts now) {
  AwayFacts* facts = facts_at(address);
  if (facts == nullptr) return;
  facts->where = now;
  Class& of = classes_[static_cast<std::size_t>(address - begin_) / kSpan];
  of.free.push_back(static_cast<std::uint32_t>(facts - of.facts));
}

bool NoAccess::contains(const void* address) const {
  const auto at = reinterpret_cast<std::uintptr_t>(address), begin = reinterpret_cast<std::uintptr_t>(begin_);
  return at >= begin && at - begin < kLength;
}

AwayFacts* NoAccess::facts_at(const void* address) const {
  if (!contains(address)) return nullptr;
  const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(address) - begin_);
  const std::size_t number = offset / kSpan, slice = offset % kSpan / (kSmallest << number);
  if (number >= kClasses || slice >= classes_[number].taken) return nullptr;
  return &classes_[number].facts[slice];
}

NoAccess::Found NoAccess::find(const void* address) const {
  const AwayFacts* facts = facts_at(address);
  if (facts == nullptr) return {};
  const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(address) - begin_);
  return {.facts = *facts, .offset = static_cast<std::ptrdiff_t>(offset % kSpan % (kSmallest << offset / kSpan))};
}

}  // namespace spillway
