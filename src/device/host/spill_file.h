// The file tier: one unnamed file in a folder of the user's choice, private to this process.
//
// The file has no name (O_TMPFILE, else created and unlinked at once, mode 0600), so that it is gone with the process
// however that ends. Room is taken from the file system before it is used: a full disk is a refused commit, never a
// failed write. Bytes do not linger in the page cache, which would be memory outside every budget: direct I/O where the
// file system can do it (tried when the file is opened), else written back and dropped after every piece.
//
// Offsets are multiples of kFileBlock; a write owns the blocks it touches. Which ranges are committed is the caller's
// book. Safe from several threads as long as their ranges are apart and each brings its own Bounce.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

#include "base/range.h"
#include "device/host/bounce.h"

namespace spillway {

// The calls of the operating system, so that a test can make each of them fail.
struct FileCalls {
  std::function<int(const char* folder)> open_unnamed;  // errno EOPNOTSUPP: created and unlinked instead
  std::function<ssize_t(int, void*, std::size_t, off_t)> read;
  std::function<ssize_t(int, const void*, std::size_t, off_t)> write;
  std::function<int(int, int mode, off_t, off_t)> allocate;

  static FileCalls system();
};

struct SpillFileOptions {
  std::string folder;
  bool direct = true;  // false: through the page cache even where direct I/O works
  FileCalls calls = FileCalls::system();
};

class SpillFile {
 public:
  // Throws InputError when the folder is missing, not writable, or in RAM itself (tmpfs, ramfs).
  explicit SpillFile(SpillFileOptions options);
  ~SpillFile();
  SpillFile(const SpillFile&) = delete;
  SpillFile& operator=(const SpillFile&) = delete;

  // False when the file system has no room for it, or the process may not write files that long.
  [[nodiscard]] bool try_commit(Range range);
  void decommit(Range range);

  // Both throw DeviceError when the disk fails.
  void read(Bytes offset, std::byte* to, Bytes size, Bounce& bounce) const;
  void write(Bytes offset, const std::byte* from, Bytes size, Bounce& bounce) const;

  [[nodiscard]] bool direct() const { return direct_; }
  [[nodiscard]] int descriptor() const { return descriptor_; }

 private:
  void open();
  void try_direct();
  void read_blocks(Bytes offset, std::byte* to, Bytes size) const;
  void write_blocks(Bytes offset, const std::byte* from, Bytes size) const;
  // Each returns 0 or the error number of the call that failed.
  [[nodiscard]] int try_read(Bytes offset, std::byte* to, Bytes size) const;
  [[nodiscard]] int try_write(Bytes offset, const std::byte* from, Bytes size) const;
  [[nodiscard]] int write_back(Bytes offset, Bytes size) const;
  [[nodiscard]] int try_allocate(int mode, Range range) const;
  [[nodiscard]] int fill_with_zeros(Range range) const;
  [[noreturn]] void fail(const char* what, Bytes offset, Bytes size, int error) const;

  SpillFileOptions options_;
  int descriptor_ = -1;
  bool direct_ = false;
  Bytes write_alignment_ = kFileBlock;  // of memory that is written from without a bounce
};

}  // namespace spillway
