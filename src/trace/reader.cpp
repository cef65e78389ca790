#include "trace/reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace spillway {
namespace {

// A payload is read in pieces of this size, so that a header that lies costs no more memory than the file has bytes.
constexpr std::size_t kPieceBytes = 1024 * 1024;

std::unique_ptr<std::istream> open_file(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) throw InputError(path + ": expected a trace file, found a folder");
  auto file = std::make_unique<std::ifstream>(path, std::ios::binary);
  if (!*file) throw InputError(fmt::format("{}: cannot be opened: {}", path, std::generic_category().message(errno)));
  return file;
}

std::unique_ptr<std::istream> open_bytes(std::span<const std::uint8_t> bytes) {
  return std::make_unique<std::istringstream>(std::string(bytes.begin(), bytes.end()), std::ios::binary);
}

// Finds a name that was not announced.
struct UnknownName {
  const NameBook& names;
  std::optional<NameId> found;

  void operator()(std::string_view, const NameId& id) {
    if (!names.knows(id)) found = id;
  }
  template <class T>
  void operator()(std::string_view, const T&) {}
  template <class T>
  void announced(std::string_view, const T&) {}
  template <class T>
  void since(std::uint16_t, std::string_view field, const T& value) {
    (*this)(field, value);
  }
  void moment(std::string_view, const Nanos&) {}
};

}  // namespace

TraceReader::TraceReader(std::unique_ptr<std::istream> from, std::string name)
    : from_(std::move(from)), file_(std::move(name)) {
  read_file_header();
}

TraceReader::TraceReader(const std::string& path) : TraceReader(open_file(path), path) {}
TraceReader::TraceReader(std::span<const std::uint8_t> bytes, std::string name)
    : TraceReader(open_bytes(bytes), std::move(name)) {}
TraceReader::~TraceReader() = default;

std::size_t TraceReader::read(std::uint8_t* to, std::size_t size) {
  from_->read(reinterpret_cast<char*>(to), static_cast<std::streamsize>(size));
  if (from_->bad()) fail_input(file_, at_, "cannot be read");
  const auto got = static_cast<std::size_t>(from_->gcount());
  at_ += got;
  return got;
}

void TraceReader::end_early() { truncated_ = true; }

void TraceReader::read_file_header() {
  FileHeader header{};
  const std::size_t got = read(header.data(), header.size());
  check_file_header(std::span(header).first(got), file_);
  if (got < header.size()) return end_early();
  whole_until_ = at_;
}

// False at the end of the file, whole or not.
bool TraceReader::read_block() {
  if (truncated_) return false;
  const std::uint64_t begin = at_;
  BlockHeader header{};
  const std::size_t got = read(header.data(), header.size());
  if (got == 0) return false;
  if (got < header.size()) {
    check_block_magic(std::span(header).first(got), file_, begin);
    return end_early(), false;
  }
  const BlockShape shape = parse_block_header(header, file_, begin);
  payload_.clear();
  while (payload_.size() < shape.length) {
    const std::size_t before = payload_.size();
    const std::size_t piece = std::min<std::size_t>(kPieceBytes, shape.length - before);
    payload_.resize(before + piece);
    if (read(payload_.data() + before, piece) < piece) return end_early(), false;
  }
  if (checksum(payload_) != shape.checksum)
    fail_input(file_, begin + kBlockHeaderBytes, "expected a block that matches its checksum, found a damaged one");
  decoder_.emplace(payload_, Origin{file_, begin + kBlockHeaderBytes}, shape.version);
  events_left_ = shape.events;
  return true;
}

void TraceReader::check_names(const Event& event) {
  UnknownName unknown{names_, {}};
  std::visit([&](const auto& one) { each_field(unknown, one); }, event);
  if (unknown.found)
    decoder_->fail(fmt::format("expected a name that was announced, found name {}", unknown.found->index));
  const Name* name = std::get_if<Name>(&event);
  if (name == nullptr) return;
  if (const auto problem = names_.announce(*name)) decoder_->fail(*problem);
}

std::optional<Event> TraceReader::next() {
  while (events_left_ == 0) {
    if (decoder_ && !decoder_->done()) decoder_->fail("expected the end of the block after its last event");
    decoder_.reset();
    if (!read_block()) return std::nullopt;
    if (events_left_ == 0 && decoder_->done()) whole_until_ = at_;
  }
  std::optional<Event> event;
  decode_event(*decoder_, scratch_, [&](auto& one) { event.emplace(std::move(one)); });
  check_names(*event);
  if (--events_left_ == 0) whole_until_ = at_;
  return event;
}

namespace {

Trace read_all(TraceReader&& reader) {
  Trace trace;
  while (auto event = reader.next()) trace.events.push_back(std::move(*event));
  trace.names = reader.names();
  trace.truncated = reader.truncated();
  trace.whole_until = reader.whole_until();
  return trace;
}

}  // namespace

Trace read_trace(const std::string& path) { return read_all(TraceReader(path)); }
Trace read_trace(std::span<const std::uint8_t> bytes, const std::string& name) {
  return read_all(TraceReader(bytes, name));
}

}  // namespace spillway
