#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <variant>

#include "base/error.h"
#include "base/text.h"
#include "device/device.h"
#include "device/fake/card.h"

namespace spillway {
namespace {

using Json = nlohmann::json;
using Member = std::variant<Bytes Card::*, Rate Card::*, FlopRate Card::*, Nanos Card::*, Millionths Card::*,
                            std::int64_t Card::*>;

struct Field {
  const char* key;
  Member member;
  bool has_default = false;
};

const std::array kFields{
    Field{"memory", &Card::memory},
    Field{"host_memory", &Card::host_memory},
    Field{"file_room", &Card::file_room},
    Field{"granule", &Card::granule, true},
    Field{"out_gb_s", &Card::out},
    Field{"in_gb_s", &Card::in},
    Field{"out_both_gb_s", &Card::out_both},
    Field{"in_both_gb_s", &Card::in_both},
    Field{"copy_latency_us", &Card::copy_latency},
    Field{"hbm_gb_s", &Card::hbm},
    Field{"host_copy_gb_s", &Card::host_copy},
    Field{"file_write_gb_s", &Card::file_write},
    Field{"file_read_gb_s", &Card::file_read},
    Field{"fp32_tflops", &Card::fp32},
    Field{"tf32_tflops", &Card::tf32},
    Field{"bf16_tflops", &Card::bf16},
    Field{"launch_us", &Card::launch},
    Field{"event_us", &Card::event},
    Field{"slower_beside_out", &Card::slower_beside_out},
    Field{"slower_beside_in", &Card::slower_beside_in},
    Field{"slower_beside_both", &Card::slower_beside_both},
    Field{"compute_slots", &Card::compute_slots, true},
};

// Each read() takes the value into the field, or returns what would have been accepted.
using Accepted = std::optional<std::string>;

// A number in the file's unit as a whole number of the field's own, when it lies in [least, most].
std::optional<std::int64_t> scaled(const Json& value, double factor, double least, double most) {
  if (!value.is_number()) return {};
  const double number = value.get<double>();
  if (!(number >= least && number <= most)) return {};
  return std::llround(number * factor);
}

template <class T>
Accepted read_number(const Json& value, T& field, double factor, double least, double most, const char* accepted) {
  const auto number = scaled(value, factor, least, most);
  if (!number) return accepted;
  field = T{*number};
  return {};
}

Accepted read(const Json& value, Bytes& field) {
  const char* accepted = R"(a size in text, such as "24GiB" or "512MB")";
  if (!value.is_string()) return accepted;
  try {
    field = parse_bytes(value.get<std::string>());
  } catch (const InputError&) {
    return accepted;
  }
  return {};
}

Accepted read(const Json& value, Rate& field) {
  return read_number(value, field, 1e9, 1e-6, 1e6, "a rate in GB/s, from 0.000001 to 1000000");
}
Accepted read(const Json& value, FlopRate& field) {
  return read_number(value, field, 1e12, 1e-6, 1e6, "a rate in TFLOP/s, from 0.000001 to 1000000");
}
Accepted read(const Json& value, Nanos& field) {
  return read_number(value, field, 1e3, 0, 1e9, "a time in microseconds, from 0 to 1000000000");
}
Accepted read(const Json& value, Millionths& field) {
  return read_number(value, field, 1e6, 0, 1, "a fraction from 0 (not slower) to 1 (twice as long)");
}
Accepted read(const Json& value, std::int64_t& field) {
  const char* accepted = "a whole number from 1 to 1024";
  if (!value.is_number_integer()) return accepted;
  return read_number(value, field, 1, 1, 1024, accepted);
}

std::string join(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw InputError("card file '" + path + "': " + why);
}

Json parse(const std::string& path) {
  std::ifstream file(path);
  if (!file) refuse(path, "cannot be read");
  try {
    return Json::parse(file);
  } catch (const Json::exception& error) {
    refuse(path, std::string("is not JSON: ") + error.what());
  } catch (const std::ios_base::failure&) {
    refuse(path, "cannot be read");
  }
}

std::string read_text(const std::string& path, const Json& json, const char* key) {
  if (!json.at(key).is_string()) refuse(path, "field '" + std::string(key) + "' must be text");
  return json.at(key).get<std::string>();
}

Card begin_card(const std::string& path, const Json& json) {
  Card card;
  if (json.contains("like")) {
    const std::string like = read_text(path, json, "like");
    try {
      card = find_card(like);
    } catch (const InputError& error) {
      refuse(path, std::string("field 'like': ") + error.what());
    }
    card.name += ", changed";
  }
  if (json.contains("name")) card.name = read_text(path, json, "name");
  if (card.name.empty()) refuse(path, "field 'name' is missing; it takes text");
  return card;
}

void check_keys(const std::string& path, const Json& json) {
  const std::vector<std::string> known = card_fields();
  for (const auto& [key, value] : json.items()) {
    if (std::ranges::find(known, key) == known.end())
      refuse(path, "unknown field '" + key + "'; accepted are " + join(known));
  }
}

void take_field(const std::string& path, const Json& json, const Field& field, Card& card) {
  const auto take = [&](auto member) { return read(json.at(field.key), card.*member); };
  if (const Accepted accepted = std::visit(take, field.member))
    refuse(path, "field '" + std::string(field.key) + "' is " + json.at(field.key).dump() + "; accepted is " +
                     *accepted);
}

// What a single field cannot show.
void check_whole(const std::string& path, const Card& card) {
  if (card.granule % kFileBlock != 0_B) refuse(path, "field 'granule' must be a multiple of 4KiB");
  if (card.memory < card.granule) refuse(path, "field 'memory' must be at least one granule");
}

}  // namespace

std::vector<std::string> card_fields() {
  std::vector<std::string> keys{"name", "like"};
  for (const Field& field : kFields) keys.emplace_back(field.key);
  return keys;
}

Card load_card(const std::string& path) {
  const Json json = parse(path);
  if (!json.is_object()) refuse(path, "must hold one JSON object with the fields " + join(card_fields()));
  check_keys(path, json);
  Card card = begin_card(path, json);
  for (const Field& field : kFields) {
    if (json.contains(field.key)) {
      take_field(path, json, field, card);
    } else if (!field.has_default && !json.contains("like")) {
      refuse(path, "field '" + std::string(field.key) +
                       "' is missing; give it, or start from a known card with 'like'");
    }
  }
  check_whole(path, card);
  return card;
}

}  // namespace spillway
