// Numbers for a page: columns behind a small JSON text, deflated, as base64.
//
//   [length of text: u32] [text, padded to 8] [column, padded to 8] [column, padded to 8] ...
//
// The text is {"columns": [[name, type, count, rising], ...], "head": ...}. A rising column holds differences. The
// page's script is the reader (assets/data.js).
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace spillway {

class Pack {
 public:
  Pack();
  ~Pack();

  // Type is u8, u32 or f64.
  void add(std::string_view name, std::span<const std::uint8_t> column);
  void add(std::string_view name, std::span<const std::uint32_t> column);
  void add(std::string_view name, std::span<const double> column);
  void add_rising(std::string_view name, std::vector<std::uint32_t> column);

  [[nodiscard]] std::string to_base64(const nlohmann::json& head) const;

 private:
  template <class T>
  void append(std::string_view name, std::string_view type, std::span<const T> column, bool rising);

  std::vector<std::string> described_;  // one JSON array each
  std::string bytes_;
};

[[nodiscard]] std::string to_base64(std::string_view bytes);

}  // namespace spillway
