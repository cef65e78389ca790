#include "report/pack.h"

#include <fmt/format.h>
#include <zlib.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace spillway {
namespace {

constexpr std::size_t kAlignment = 8;  // a script's arrays begin at multiples of their element

void pad(std::string& bytes, char with) {
  bytes.resize((bytes.size() + kAlignment - 1) / kAlignment * kAlignment, with);
}

std::string deflated(const std::string& bytes) {
  uLongf size = compressBound(bytes.size());
  std::string packed(size, '\0');
  const int done = compress2(reinterpret_cast<Bytef*>(packed.data()), &size,
                             reinterpret_cast<const Bytef*>(bytes.data()), bytes.size(), /*level=*/6);
  SPILLWAY_ENSURE(done == Z_OK, "zlib has the room it asked for");
  packed.resize(size);
  return packed;
}

}  // namespace

Pack::Pack() = default;
Pack::~Pack() = default;

template <class T>
void Pack::append(std::string_view name, std::string_view type, std::span<const T> column, bool rising) {
  described_.push_back(fmt::format(R"(["{}","{}",{},{}])", name, type, column.size(), rising ? 1 : 0));
  bytes_.append(reinterpret_cast<const char*>(column.data()), column.size_bytes());
  pad(bytes_, '\0');
}

void Pack::add(std::string_view name, std::span<const std::uint8_t> column) { append(name, "u8", column, false); }
void Pack::add(std::string_view name, std::span<const std::uint32_t> column) { append(name, "u32", column, false); }
void Pack::add(std::string_view name, std::span<const double> column) { append(name, "f64", column, false); }

void Pack::add_rising(std::string_view name, std::vector<std::uint32_t> column) {
  for (std::size_t i = column.size(); i-- > 1;) column[i] -= column[i - 1];
  append(name, "u32", std::span<const std::uint32_t>(column), true);
}

std::string Pack::to_base64(const nlohmann::json& head) const {
  std::string text = fmt::format(R"({{"columns":[{}],"head":{}}})", fmt::join(described_, ","),
                                 head.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  std::string bytes(sizeof(std::uint32_t), '\0');
  const auto length = static_cast<std::uint32_t>(text.size());
  std::memcpy(bytes.data(), &length, sizeof length);
  bytes += text;
  pad(bytes, ' ');
  return spillway::to_base64(deflated(bytes + bytes_));
}

std::string to_base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::size_t here = std::min<std::size_t>(3, bytes.size() - at);
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < 3; ++i) bits = bits << 8 | (i < here ? static_cast<std::uint8_t>(bytes[at + i]) : 0);
    for (std::size_t i = 0; i < 4; ++i) text += i <= here ? kDigits[bits >> (18 - 6 * i) & 63] : '=';
  }
  return text;
}

}  // namespace spillway
