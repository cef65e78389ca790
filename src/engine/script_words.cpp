#include "engine/script_words.h"

#include <concepts>
#include <limits>
#include <memory>
#include <utility>

#include "base/error.h"

namespace spillway {

namespace {

class Writer {
 public:
  template <class Number>
  requires std::integral<Number> || std::is_enum_v<Number>
  void operator()(Number& number) { words_.push_back(static_cast<std::uint64_t>(number)); }
  void operator()(Bytes& bytes) { words_.push_back(static_cast<std::uint64_t>(bytes.count)); }
  void operator()(StorageId& storage) { words_.push_back(storage.index); }
  template <class T, class Each>
  void list(std::vector<T>& list, Each each) {
    words_.push_back(list.size());
    for (T& one : list) each(one);
  }
  template <class T>
  void list(std::vector<T>& all) { list(all, [this](T& one) { (*this)(one); }); }
  [[nodiscard]] std::vector<std::uint64_t> take() { return std::move(words_); }

 private:
  std::vector<std::uint64_t> words_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::uint64_t> words) : words_(words) {}

  template <class Number>
  requires std::integral<Number> || std::is_enum_v<Number>
  void operator()(Number& number) {
    const std::uint64_t word = next();
    number = static_cast<Number>(word);
    if (static_cast<std::uint64_t>(number) != word) fail();
  }
  void operator()(Bytes& bytes) {
    bytes.count = static_cast<std::int64_t>(next());
    if (bytes < 0_B) fail();
  }
  void operator()(StorageId& storage) { (*this)(storage.index); }
  template <class T, class Each>
  void list(std::vector<T>& list, Each each) {
    const std::uint64_t size = next();
    if (size > words_.size()) fail();  // each of them has a word at least
    list.resize(size);
    for (T& one : list) each(one);
  }
  template <class T>
  void list(std::vector<T>& all) { list(all, [this](T& one) { (*this)(one); }); }
  void end() const {
    if (!words_.empty()) fail();
  }
  [[noreturn]] static void fail() { throw InputError("a script of the run cannot be read: its words are not those of a script"); }

 private:
  std::uint64_t next() {
    if (words_.empty()) fail();
    const std::uint64_t word = words_.front();
    words_ = words_.subspan(1);
    return word;
  }

  std::span<const std::uint64_t> words_;
};

// Each field once for both directions.
template <class Visitor>
void each_field(Visitor& visit, Leaving& leaving) {
  visit(leaving.gap), visit(leaving.nth), visit(leaving.part), visit(leaving.remedy), visit(leaving.again);
}

template <class Visitor>
void each_field(Visitor& visit, Places& places) {
  visit.list(places.entries, [&](Places::Entry& entry) { visit(entry.size), visit(entry.offset), visit(entry.gap); });
  visit.list(places.lasting, [&](Places::Lasting& lasting) { visit(lasting.storage), visit(lasting.size), visit(lasting.offset); });
  visit.list(places.first);
  visit.list(places.of_gap);
}

template <class Visitor>
void each_field(Visitor& visit, Lines& lines) {
  visit.list(lines.keys);
  visit(lines.any_size);
  visit.list(lines.staying_away, [&](auto& away) { visit(away.first), visit(away.second); });
  visit.list(lines.needs);
  visit.list(lines.leavings, [&](auto& op) { visit.list(op, [&](Leaving& leaving) { each_field(visit, leaving); }); });
  visit.list(lines.holdings, [&](auto& op) {
    visit.list(op, [&](Holding& holding) { each_field(visit, holding.who), visit(holding.through); });
  });
  visit.list(lines.fetches, [&](auto& op) { visit.list(op); });
  visit.list(lines.ends);
  visit(lines.budget);
}

bool are_sound(const Places& places, std::size_t ops) {
  bool sound = places.first.size() == ops + 2;
  for (std::size_t at = 1; at < places.first.size(); ++at) sound = sound && places.first[at - 1] <= places.first[at];
  sound = sound && places.first.back() <= places.entries.size();
  for (const std::uint32_t entry : places.of_gap) sound = sound && (entry == kNoPlace || entry < places.entries.size());
  return sound;
}

// Whoever goes by them looks things up by op and by gap.
bool are_sound(const Lines& lines) {
  const std::size_t ops = lines.keys.size(), gaps = lines.ends.size();
  bool sound = lines.needs.size() == ops && lines.leavings.size() == ops && lines.holdings.size() == ops && lines.fetches.size() == ops;
  for (const auto& [gap, storage] : lines.staying_away) sound = sound && gap < gaps;
  for (const auto& op : lines.leavings) {
    for (const Leaving& leaving : op) sound = sound && leaving.gap < gaps && leaving.part <= Part::output && leaving.remedy <= Remedy::drop;
  }
  for (const auto& op : lines.holdings) {
    for (const Holding& holding : op) sound = sound && holding.through < ops && holding.who.part <= Part::output;
  }
  for (const auto& op : lines.fetches) {
    for (const std::uint32_t gap : op) sound = sound && gap < gaps;
  }
  return sound && (!lines.places || are_sound(*lines.places, ops));
}

}  // namespace

std::vector<std::uint64_t> to_words(const Lines& lines) {
  Writer writer;
  Lines told = lines;
  each_field(writer, told);
  bool placed = lines.places != nullptr;
  writer(placed);
  if (placed) {
    Places places = *lines.places;
    each_field(writer, places);
  }
  return writer.take();
}

Lines parse_lines(std::span<const std::uint64_t> words) {
  Reader reader(words);
  Lines lines;
  each_field(reader, lines);
  bool placed = false;
  reader(placed);
  if (placed) {
    auto places = std::make_shared<Places>();
    each_field(reader, *places);
    lines.places = std::move(places);
  }
  reader.end();
  if (!are_sound(lines)) Reader::fail();
  return lines;
}

}  // namespace spillway
