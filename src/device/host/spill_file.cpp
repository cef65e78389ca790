#include "device/host/spill_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "base/error.h"

namespace spillway {
namespace {

// Written back and dropped in pieces of this size where direct I/O does not work: at most so much of the page cache is
// ever taken by a copy stream.
constexpr Bytes kCachedPiece = 8_MiB;

constexpr int kPunch = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;

// The least alignment of memory that disks are known to take, and that of the pool's chunks.
constexpr Bytes kSector = 512_B;

bool is_aligned(const std::byte* at, Bytes alignment) {
  return std::bit_cast<std::uintptr_t>(at) % static_cast<std::uintptr_t>(alignment.count) == 0;
}

std::size_t to_size(Bytes bytes) { return static_cast<std::size_t>(bytes.count); }

[[noreturn]] void refuse(const std::string& folder, const std::string& why) {
  throw InputError("spill folder '" + folder + "' " + why);
}

[[noreturn]] void refuse_open(const std::string& folder, int error) {
  const std::string other = "; choose another folder with --spill-dir";
  switch (error) {
    case ENOENT: refuse(folder, "does not exist: create it, or choose another folder with --spill-dir");
    case ENOTDIR: refuse(folder, "is not a folder" + other);
    case EACCES:
    case EPERM: refuse(folder, "is not writable" + other);
    case EROFS: refuse(folder, "is on a read-only file system" + other);
    case ENOSPC:
    case EDQUOT: refuse(folder, "has no room left" + other);
    default: refuse(folder, std::string("cannot be used: ") + std::strerror(error) + other);
  }
}

int open_named_and_unlink(const std::string& folder) {
  std::string path = folder + "/spillway-XXXXXX";
  const int descriptor = mkostemp(path.data(), O_CLOEXEC);
  if (descriptor >= 0) unlink(path.c_str());
  return descriptor;
}

// A process may be forbidden to write long files; asking first spares it the signal that comes with trying.
bool longer_than_allowed(Bytes end) {
  rlimit limit{};
  return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
         static_cast<rlim_t>(end.count) > limit.rlim_cur;
}

// A file system may take all it has before it finds that it is not enough; others would see a full disk for a while.
bool more_than_free(int descriptor, Bytes size) {
  struct statvfs system {};
  if (fstatvfs(descriptor, &system) != 0) return false;
  return static_cast<fsblkcnt_t>(size.count) / system.f_frsize >= system.f_bavail;
}

// How far one call of read or write came: not at all when it was interrupted, otherwise whole blocks, since direct I/O
// goes on only from one. The end of the file is an error, for what is committed has been given its length.
struct Step {
  Bytes done;
  int error = 0;
};

Step judge(ssize_t result) {
  if (result < 0) return {.error = errno == EINTR ? 0 : errno};
  const Bytes done = round_down(Bytes{result}, kFileBlock);
  return {.done = done, .error = done > 0_B ? 0 : EIO};
}

bool means_no_room(int error) { return error == ENOSPC || error == EDQUOT || error == EFBIG; }

}  // namespace

FileCalls FileCalls::system() {
  return {.open_unnamed = [](const char* folder) { return ::open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600); },
          .read = ::pread,
          .write = ::pwrite,
          .allocate = ::fallocate};
}

SpillFile::SpillFile(SpillFileOptions options) : options_(std::move(options)) {
  open();
  struct statfs system {};
  if (fstatfs(descriptor_, &system) == 0 && (system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC)) {
    close(descriptor_);
    refuse(options_.folder, "is kept in RAM (tmpfs), so that moving memory there would free nothing: "
                            "choose a folder on a disk with --spill-dir, for example --spill-dir /var/tmp");
  }
  if (options_.direct) try_direct();
}

SpillFile::~SpillFile() { close(descriptor_); }

void SpillFile::open() {
  struct stat folder {};
  if (stat(options_.folder.c_str(), &folder) != 0) refuse_open(options_.folder, errno);
  if (!S_ISDIR(folder.st_mode)) refuse_open(options_.folder, ENOTDIR);
  descriptor_ = options_.calls.open_unnamed(options_.folder.c_str());
  if (descriptor_ < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL))
    descriptor_ = open_named_and_unlink(options_.folder);
  if (descriptor_ < 0) refuse_open(options_.folder, errno);
}

// Some file systems take the flag and refuse the I/O, so a block is written to find out, from worse and worse
// addresses.
void SpillFile::try_direct() {
  const int flags = fcntl(descriptor_, F_GETFL);
  if (fcntl(descriptor_, F_SETFL, flags | O_DIRECT) != 0) return;
  Bounce bounce;
  std::memset(bounce.bytes(), 0, to_size(kFileBlock * 2));
  for (Bytes alignment : {kFileBlock, kSector}) {
    const std::byte* from = bounce.bytes() + alignment.count;
    if (options_.calls.write(descriptor_, from, to_size(kFileBlock), 0) < 0 && errno == EINVAL) break;
    direct_ = true;
    write_alignment_ = alignment;
  }
  if (!direct_) fcntl(descriptor_, F_SETFL, flags);
  if (ftruncate(descriptor_, 0) != 0) fail("emptying", 0_B, kFileBlock, errno);
}

bool SpillFile::try_commit(Range range) {
  if (longer_than_allowed(range.end) || more_than_free(descriptor_, range.length())) return false;
  int error = try_allocate(0, range);
  if (error == EOPNOTSUPP) error = fill_with_zeros(range);
  if (error == 0) return true;
  if (!means_no_room(error)) fail("reserving", range.begin, range.length(), error);
  (void)try_allocate(kPunch, range);  // a refused request may have taken a part
  return false;
}

// Where the file system cannot make holes the room stays taken, for the next commit of the same range.
void SpillFile::decommit(Range range) {
  const int error = try_allocate(kPunch, range);
  if (error != 0 && error != EOPNOTSUPP) fail("giving back", range.begin, range.length(), error);
}

int SpillFile::try_allocate(int mode, Range range) const {
  while (options_.calls.allocate(descriptor_, mode, range.begin.count, range.length().count) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

// File systems that cannot reserve room have it reserved by using it.
int SpillFile::fill_with_zeros(Range range) const {
  Bounce bounce;
  std::memset(bounce.bytes(), 0, to_size(Bounce::kSize));
  for (Bytes at = range.begin; at < range.end; at += Bounce::kSize) {
    if (const int error = try_write(at, bounce.bytes(), std::min(Bounce::kSize, range.end - at))) return error;
  }
  return 0;
}

// Only whole pages are read into directly: before Linux 6.3 a fork during the read may part a page from its new
// contents if another owner writes to the rest of it.
void SpillFile::read(Bytes offset, std::byte* to, Bytes size, Bounce& bounce) const {
  const Bytes whole = is_aligned(to, kFileBlock) ? round_down(size, kFileBlock) : 0_B;
  read_blocks(offset, to, whole);
  for (Bytes at = whole; at < size; at += Bounce::kSize) {
    const Bytes piece = std::min(Bounce::kSize, size - at);
    read_blocks(offset + at, bounce.bytes(), round_up(piece, kFileBlock));
    std::memcpy(to + at.count, bounce.bytes(), to_size(piece));
  }
}

void SpillFile::write(Bytes offset, const std::byte* from, Bytes size, Bounce& bounce) const {
  const Bytes whole = is_aligned(from, write_alignment_) ? round_down(size, kFileBlock) : 0_B;
  write_blocks(offset, from, whole);
  for (Bytes at = whole; at < size; at += Bounce::kSize) {
    const Bytes piece = std::min(Bounce::kSize, size - at), blocks = round_up(piece, kFileBlock);
    std::memcpy(bounce.bytes(), from + at.count, to_size(piece));
    std::memset(bounce.bytes() + piece.count, 0, to_size(blocks - piece));
    write_blocks(offset + at, bounce.bytes(), blocks);
  }
}

void SpillFile::read_blocks(Bytes offset, std::byte* to, Bytes size) const {
  if (const int error = try_read(offset, to, size)) fail("reading", offset, size, error);
}

void SpillFile::write_blocks(Bytes offset, const std::byte* from, Bytes size) const {
  if (const int error = try_write(offset, from, size)) fail("writing", offset, size, error);
}

int SpillFile::try_read(Bytes offset, std::byte* to, Bytes size) const {
  for (Bytes at; at < size;) {
    const Bytes piece = direct_ ? size - at : std::min(kCachedPiece, size - at);
    const ssize_t result = options_.calls.read(descriptor_, to + at.count, to_size(piece), (offset + at).count);
    const Step step = judge(result);
    if (step.error != 0) return step.error;
    if (!direct_) posix_fadvise(descriptor_, (offset + at).count, step.done.count, POSIX_FADV_DONTNEED);
    at += step.done;
  }
  return 0;
}

int SpillFile::try_write(Bytes offset, const std::byte* from, Bytes size) const {
  for (Bytes at; at < size;) {
    const Bytes piece = direct_ ? size - at : std::min(kCachedPiece, size - at);
    const ssize_t result = options_.calls.write(descriptor_, from + at.count, to_size(piece), (offset + at).count);
    Step step = judge(result);
    if (step.error == 0 && !direct_) step.error = write_back(offset + at, step.done);
    if (step.error != 0) return step.error;
    at += step.done;
  }
  return 0;
}

// Only pages that are on the disk can be dropped.
int SpillFile::write_back(Bytes offset, Bytes size) const {
  const unsigned flags = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
  if (size == 0_B) return 0;
  if (sync_file_range(descriptor_, offset.count, size.count, flags) != 0 && errno != ENOSYS) return errno;
  posix_fadvise(descriptor_, offset.count, size.count, POSIX_FADV_DONTNEED);
  return 0;
}

void SpillFile::fail(const char* what, Bytes offset, Bytes size, int error) const {
  const std::string message = "spill file in '" + options_.folder + "': " + what + " " + std::to_string(size.count) +
                              " bytes at " + std::to_string(offset.count) + " failed: " + std::strerror(error);
  throw DeviceError(message);
}

}  // namespace spillway
