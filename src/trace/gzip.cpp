#include "trace/gzip.h"

#include <fmt/format.h>
#include <zlib.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <system_error>

#include "base/error.h"

namespace spillway {
namespace {

// Recorded steps unpack to a few megabytes; more than this is a mistake or a trap.
constexpr std::size_t kMostUnpacked = std::size_t{1} << 30;

struct CloseGzip {
  void operator()(gzFile file) const { gzclose_r(file); }
};
using GzipFile = std::unique_ptr<gzFile_s, CloseGzip>;

GzipFile open_gzip(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) throw InputError(path + ": expected a file, found a folder");
  errno = 0;
  GzipFile file(gzopen(path.c_str(), "rb"));
  if (!file) throw InputError(fmt::format("{}: cannot be opened: {}", path, std::generic_category().message(errno)));
  return file;
}

}  // namespace

std::string read_maybe_gzip(const std::string& path) {
  const GzipFile file = open_gzip(path);
  std::string text;
  char piece[64 * 1024];
  int got = 0;
  while ((got = gzread(file.get(), piece, sizeof(piece))) > 0) {
    text.append(piece, static_cast<std::size_t>(got));
    if (text.size() > kMostUnpacked)
      throw InputError(fmt::format("{}: unpacks to more than {} bytes", path, kMostUnpacked));
  }
  int error = Z_OK;
  const char* what = gzerror(file.get(), &error);
  if (got < 0 || error != Z_OK) throw InputError(fmt::format("{}: damaged gzip: {}", path, what));
  return text;
}

}  // namespace spillway
