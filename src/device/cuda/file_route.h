// Copies that have the file tier at one end, in the order of any stream.
//
// The host does the reading and writing as work of the stream (host_work.h). Between card and file the bytes pass
// through a pinned buffer of the stream, a piece at a time; the stream's order alone keeps a piece from overwriting the
// one before it:
//
//   card -> file    [card to buffer][write][card to buffer][write] ...
//   file -> card    [read][buffer to card][read][buffer to card] ...
//
// The link is some 30 times faster than a disk, so copying and writing in turn costs about 3 %. Any thread; the context
// must be current.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <map>
#include <mutex>

#include "base/units.h"
#include "device/cuda/host_work.h"
#include "device/host/spill_file.h"

namespace spillway {

class FileRoute {
 public:
  FileRoute(SpillFileOptions options, HostWork& work) : file_(std::move(options)), work_(work) {}
  ~FileRoute();
  FileRoute(const FileRoute&) = delete;
  FileRoute& operator=(const FileRoute&) = delete;

  [[nodiscard]] bool try_commit(Range range) { return file_.try_commit(range); }
  void decommit(Range range) { file_.decommit(range); }

  void card_to_file(CUstream on, Bytes to, CUdeviceptr from, Bytes size);
  void file_to_card(CUstream on, CUdeviceptr to, Bytes from, Bytes size);
  void host_to_file(CUstream on, Bytes to, const std::byte* from, Bytes size);
  void file_to_host(CUstream on, std::byte* to, Bytes from, Bytes size);
  void file_to_file(CUstream on, Bytes to, Bytes from, Bytes size);

 private:
  static constexpr Bytes kBounce = 8_MiB;  // large enough for the full rate of a disk and of the link

  // What the pieces of one stream pass through, one after another.
  struct Lane {
    std::byte* pinned = nullptr;  // taken on first use
    Bounce aligned;
  };

  [[nodiscard]] Lane& lane(CUstream on);
  [[nodiscard]] std::byte* pinned(CUstream on);
  template <class Move>
  static void for_each_piece(Bytes size, Move move);

  SpillFile file_;
  HostWork& work_;
  std::mutex mutex_;
  std::map<CUstream, Lane> lanes_;
};

}  // namespace spillway
