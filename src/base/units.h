// Quantities as types: Bytes, Nanos and the ids that index everything else.
//
// A Quantity is one signed 64-bit number that only mixes with its own kind, so a byte count can never be added to a
// time. Ids are dense, start at zero and only name things. Literals: 5_MiB, 3_us.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>

namespace spillway {

template <class Kind>
struct Quantity {
  std::int64_t count = 0;

  friend constexpr auto operator<=>(const Quantity&, const Quantity&) = default;
  constexpr Quantity& operator+=(Quantity other) { count += other.count; return *this; }
  constexpr Quantity& operator-=(Quantity other) { count -= other.count; return *this; }
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return {a.count + b.count}; }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return {a.count - b.count}; }
  friend constexpr Quantity operator-(Quantity a) { return {-a.count}; }
  friend constexpr Quantity operator*(Quantity a, std::int64_t times) { return {a.count * times}; }
  friend constexpr Quantity operator*(std::int64_t times, Quantity a) { return {a.count * times}; }
  friend constexpr Quantity operator/(Quantity a, std::int64_t parts) { return {a.count / parts}; }
  friend constexpr std::int64_t operator/(Quantity a, Quantity b) { return a.count / b.count; }
  friend constexpr Quantity operator%(Quantity a, Quantity b) { return {a.count % b.count}; }
};

using Bytes = Quantity<struct BytesKind>;
using Nanos = Quantity<struct NanosKind>;

// `step` must be positive, `value` not negative.
template <class Kind>
constexpr Quantity<Kind> round_up(Quantity<Kind> value, Quantity<Kind> step) {
  return {(value.count + step.count - 1) / step.count * step.count};
}
template <class Kind>
constexpr Quantity<Kind> round_down(Quantity<Kind> value, Quantity<Kind> step) {
  return {value.count / step.count * step.count};
}

inline namespace literals {
constexpr Bytes operator""_B(unsigned long long n) { return {static_cast<std::int64_t>(n)}; }
constexpr Bytes operator""_KiB(unsigned long long n) { return {static_cast<std::int64_t>(n << 10)}; }
constexpr Bytes operator""_MiB(unsigned long long n) { return {static_cast<std::int64_t>(n << 20)}; }
constexpr Bytes operator""_GiB(unsigned long long n) { return {static_cast<std::int64_t>(n << 30)}; }
constexpr Nanos operator""_ns(unsigned long long n) { return {static_cast<std::int64_t>(n)}; }
constexpr Nanos operator""_us(unsigned long long n) { return {static_cast<std::int64_t>(n) * 1'000}; }
constexpr Nanos operator""_ms(unsigned long long n) { return {static_cast<std::int64_t>(n) * 1'000'000}; }
constexpr Nanos operator""_s(unsigned long long n) { return {static_cast<std::int64_t>(n) * 1'000'000'000}; }
}  // namespace literals

template <class Kind>
struct Id {
  std::uint32_t index = UINT32_MAX;  // UINT32_MAX names nothing

  [[nodiscard]] constexpr bool valid() const { return index != UINT32_MAX; }
  friend constexpr auto operator<=>(const Id&, const Id&) = default;
};

using StorageId = Id<struct StorageKindTag>;
using OpIndex = Id<struct OpKindTag>;
using StepIndex = Id<struct StepKindTag>;
using StreamId = Id<struct StreamKindTag>;
using JobId = Id<struct JobKindTag>;
using NameId = Id<struct NameKindTag>;

}  // namespace spillway

template <class Kind>
struct std::hash<spillway::Id<Kind>> {
  std::size_t operator()(spillway::Id<Kind> id) const noexcept { return std::hash<std::uint32_t>{}(id.index); }
};
