#include "trace/json_lines.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cerrno>
#include <fstream>
#include <nlohmann/json.hpp>
#include <ostream>
#include <system_error>

#include "base/error.h"
#include "trace/encode.h"

namespace spillway {
namespace {

using Json = nlohmann::ordered_json;

Json first_line(std::uint16_t version = kFormatVersion) {
  return {{"trace", "spillway"}, {"version", version}, {"times", "ns"}, {"sizes", "bytes"}};
}

// Fills an object from the fields of an event.
struct ToJson {
  Json& object;
  const NameBook& names;

  template <class Kind>
  static Json number_of(Id<Kind> id) {
    return id.valid() ? Json(id.index) : Json(nullptr);
  }
  Json& at(std::string_view field) { return object[std::string(field)]; }

  template <class Kind>
  void operator()(std::string_view field, Id<Kind> id) {
    at(field) = number_of(id);
  }
  void operator()(std::string_view field, NameId id) { at(field) = id.valid() ? Json(names.text(id)) : Json(nullptr); }
  void announced(std::string_view field, NameId id) { at(field) = id.index; }
  template <class Kind>
  void operator()(std::string_view field, Quantity<Kind> value) {
    at(field) = value.count;
  }
  template <class T>
  requires std::unsigned_integral<T> || std::same_as<T, std::string>
  void operator()(std::string_view field, const T& value) { at(field) = value; }
  template <class Enum>
  requires std::is_enum_v<Enum>
  void operator()(std::string_view field, Enum value) { at(field) = word(value); }
  void operator()(std::string_view field, const std::vector<StorageId>& list) {
    Json& array = at(field) = Json::array();
    for (const StorageId id : list) array.push_back(number_of(id));
  }
  void operator()(std::string_view field, const std::vector<std::uint64_t>& words) { at(field) = words; }
  template <std::size_t N>
  void operator()(std::string_view field, const std::array<Nanos, N>& values) {
    Json& array = at(field) = Json::array();
    for (const Nanos value : values) array.push_back(value.count);
  }
  template <class T>
  void since(std::uint16_t, std::string_view field, const T& value) {
    (*this)(field, value);
  }
  void moment(std::string_view field, Nanos at_time) { at(field) = at_time.count; }
};

// What a line is read with.
struct Reading {
  const NameBook& names;
  const std::string& where;
  std::uint16_t version;
};

// Fills the fields of an event from an object.
class FromJson {
 public:
  FromJson(const Json& object, const Reading& reading) : object_(object), names_(reading.names), where_(reading.where), version_(reading.version) {}

  [[noreturn]] void fail(std::string_view field, const std::string& expected, const Json& found) const {
    const std::string shown = clean_text(found.dump(-1, ' ', false, Json::error_handler_t::replace), 60);
    throw InputError(fmt::format("{}: field \"{}\": expected {}, found {}", where_, field, expected, shown));
  }
  // Nothing may be left over: a misspelt field would be lost silently.
  void finish() const {
    if (object_.size() == fields_.size() + 1) return;
    for (const auto& [key, value] : object_.items())
      if (key != "event" && std::ranges::find(fields_, key) == fields_.end())
        fail(key, fmt::format("one of {}", fmt::join(fields_, ", ")), value);
  }

  template <class Kind>
  void operator()(std::string_view field, Id<Kind>& id) {
    id = id_of<Kind>(field, take(field));
  }
  void operator()(std::string_view field, NameId& id);
  void announced(std::string_view field, NameId& id) { id = id_of<NameKindTag>(field, take(field)); }
  template <class Kind>
  void operator()(std::string_view field, Quantity<Kind>& value) {
    value.count = whole_of(field, take(field));
  }
  template <std::unsigned_integral T>
  void operator()(std::string_view field, T& value) {
    const std::int64_t found = whole_of(field, take(field));
    if (found < 0 || found > std::int64_t{T(-1)}) fail(field, fmt::format("0..{}", T(-1)), found);
    value = static_cast<T>(found);
  }
  void operator()(std::string_view field, bool& value) {
    const Json& found = take(field);
    if (!found.is_boolean()) fail(field, "true or false", found);
    value = found.get<bool>();
  }
  void operator()(std::string_view field, std::string& value) {
    const Json& found = take(field);
    if (!found.is_string()) fail(field, "a text", found);
    value = found.get<std::string>();
  }
  template <class Enum>
  requires std::is_enum_v<Enum>
  void operator()(std::string_view field, Enum& value) {
    const Json& found = take(field);
    const auto at = std::ranges::find(kWords<Enum>, found.is_string() ? found.get_ref<const std::string&>() : "");
    if (at == kWords<Enum>.end()) fail(field, fmt::format("one of {}", fmt::join(kWords<Enum>, ", ")), found);
    value = static_cast<Enum>(at - kWords<Enum>.begin());
  }
  void operator()(std::string_view field, std::vector<StorageId>& list) {
    const Json& found = take_array(field);
    list.clear();
    for (const Json& one : found) list.push_back(id_of<StorageKindTag>(field, one));
  }
  void operator()(std::string_view field, std::vector<std::uint64_t>& words) {
    words.clear();
    for (const Json& one : take_array(field)) {
      if (!one.is_number_unsigned()) fail(field, "whole numbers of 64 bits, none below zero", one);
      words.push_back(one.get<std::uint64_t>());
    }
  }
  template <std::size_t N>
  void operator()(std::string_view field, std::array<Nanos, N>& values) {
    const Json& found = take_array(field);
    if (found.size() != N) fail(field, fmt::format("{} numbers", N), found);
    for (std::size_t i = 0; i < N; ++i) values[i].count = whole_of(field, found[i]);
  }
  template <class T>
  void since(std::uint16_t version, std::string_view field, T& value) {
    if (version_ >= version) (*this)(field, value);
  }
  void moment(std::string_view field, Nanos& at) { at.count = whole_of(field, take(field)); }

 private:
  const Json& take(std::string_view field) {
    fields_.emplace_back(field);
    const auto found = object_.find(fields_.back());
    if (found == object_.end()) throw InputError(fmt::format("{}: field \"{}\" is missing", where_, field));
    return *found;
  }
  const Json& take_array(std::string_view field) {
    const Json& found = take(field);
    if (!found.is_array()) fail(field, "a list", found);
    return found;
  }
  std::int64_t whole_of(std::string_view field, const Json& found) const {
    const bool too_large = found.is_number_unsigned() && found.get<std::uint64_t>() > INT64_MAX;
    if (!found.is_number_integer() || too_large) fail(field, "a whole number of 64 bits", found);
    return found.get<std::int64_t>();
  }
  template <class Kind>
  Id<Kind> id_of(std::string_view field, const Json& found) const {
    if (found.is_null()) return {};
    const std::int64_t index = found.is_number_integer() ? whole_of(field, found) : -1;
    if (index < 0 || index >= UINT32_MAX) fail(field, fmt::format("null or 0..{}", UINT32_MAX - 1), found);
    return {static_cast<std::uint32_t>(index)};
  }

  const Json& object_;
  const NameBook& names_;
  const std::string& where_;
  const std::uint16_t version_;
  std::vector<std::string> fields_;
};

void FromJson::operator()(std::string_view field, NameId& id) {
  const Json& found = take(field);
  id = {};
  if (found.is_null()) return;
  const auto known = found.is_string() ? names_.find(found.get_ref<const std::string&>()) : std::nullopt;
  if (!known) fail(field, "null or a text that a name event announced", found);
  id = *known;
}

// Null where the line is no JSON.
Json parse_object(const std::string& line, const std::string& where) {
  Json object = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) throw InputError(where + ": expected a JSON object");
  return object;
}

template <class... E>
std::optional<Event> event_of(std::string_view tag, FromJson& from, std::variant<E...>*) {
  std::optional<Event> event;
  const auto try_one = [&]<class One>(One one) {
    if (kTag<One>.word != tag) return;
    each_field(from, one);
    from.finish();
    event = std::move(one);
  };
  (try_one(E{}), ...);
  return event;
}

template <class... E>
std::string all_words(std::variant<E...>*) {
  return fmt::format("{}", fmt::join({kTag<E>.word...}, ", "));
}

Event parse_event(const std::string& line, const Reading& reading) {
  const Json object = parse_object(line, reading.where);
  FromJson from(object, reading);
  const auto tag = object.find("event");
  const bool is_text = tag != object.end() && tag->is_string();
  constexpr Event* kinds = nullptr;
  auto event = is_text ? event_of(tag->get_ref<const std::string&>(), from, kinds) : std::nullopt;
  if (!event) from.fail("event", "one of " + all_words(kinds), tag == object.end() ? Json(nullptr) : *tag);
  return std::move(*event);
}

// By the first line.
std::uint16_t version_of(const std::string& line, const std::string& where) {
  const Json told = parse_object(line, where);
  for (std::uint16_t version = kFormatVersion; version >= kOldestVersion; --version) {
    if (told == first_line(version)) return version;
  }
  throw InputError(fmt::format("{}: expected {}", where, first_line().dump()));
}

}  // namespace

JsonLinesWriter::JsonLinesWriter(std::ostream& out) : out_(out) { out_ << first_line().dump() << '\n'; }

void JsonLinesWriter::write(const Event& event) {
  if (const Name* name = std::get_if<Name>(&event))
    if (const auto problem = names_.announce(*name)) throw InputError(*problem);
  Json object;
  std::visit(
      [&]<class E>(const E& one) {
        object["event"] = kTag<E>.word;
        ToJson to{object, names_};
        each_field(to, one);
      },
      event);
  out_ << object.dump() << '\n';
}

void export_jsonl(const Trace& trace, std::ostream& out) {
  JsonLinesWriter writer(out);
  for (const Event& event : trace.events) writer.write(event);
}

Trace import_jsonl(std::istream& in, const std::string& file) {
  std::string line;
  std::getline(in, line);
  std::string where = file + ": line 1";
  const std::uint16_t version = version_of(line, where);
  Trace trace;
  NameBook names;
  for (std::size_t number = 2; std::getline(in, line); ++number) {
    where = fmt::format("{}: line {}", file, number);
    trace.events.push_back(parse_event(line, {names, where, version}));
    const Name* name = std::get_if<Name>(&trace.events.back());
    if (name == nullptr) continue;
    if (const auto problem = names.announce(*name)) throw InputError(fmt::format("{}: {}", where, *problem));
  }
  trace.names = names.texts();
  return trace;
}

Trace import_jsonl(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw InputError(fmt::format("{}: cannot be opened: {}", path, std::generic_category().message(errno)));
  return import_jsonl(in, path);
}

}  // namespace spillway
