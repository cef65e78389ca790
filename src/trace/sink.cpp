#include "trace/sink.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace spillway {
namespace {

std::string reason(int error) { return std::generic_category().message(error); }

}  // namespace

FileSink::FileSink(std::string path) : path_(std::move(path)), owner_(getpid()) {
  file_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file_ < 0) throw InputError(fmt::format("{}: cannot be opened for writing a trace: {}", path_, reason(errno)));
}

FileSink::~FileSink() { close(file_); }

bool FileSink::fail(const char* verb) {
  problem_ = fmt::format("{}: {}: {}", path_, verb, reason(errno));
  return false;
}

bool FileSink::append(std::span<const std::uint8_t> bytes) {
  if (getpid() != owner_) return true;
  while (!bytes.empty()) {
    const ssize_t written = write(file_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return fail("the trace cannot be written");
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return true;
}

bool FileSink::truncate(std::uint64_t size) {
  if (getpid() != owner_) return true;
  const auto end = static_cast<off_t>(size);
  if (ftruncate(file_, end) != 0 || lseek(file_, end, SEEK_SET) != end) return fail("the trace cannot be shortened");
  return true;
}

}  // namespace spillway
