// A buffer that direct I/O accepts, for bytes whose own address it would not. Taken on first use; one per thread.
#pragma once

#include <cstdlib>
#include <memory>
#include <new>

#include "device/device.h"

namespace spillway {

class Bounce {
 public:
  // Large enough to reach a disk's rate, small enough to have one per copy stream.
  static constexpr Bytes kSize = 1_MiB;

  [[nodiscard]] std::byte* bytes() {
    if (!bytes_) bytes_.reset(take());
    return bytes_.get();
  }

 private:
  struct Free {
    void operator()(std::byte* bytes) const { std::free(bytes); }
  };

  static std::byte* take() {
    void* bytes = std::aligned_alloc(static_cast<std::size_t>(kFileBlock.count), static_cast<std::size_t>(kSize.count));
    if (bytes == nullptr) throw std::bad_alloc();
    return static_cast<std::byte*>(bytes);
  }

  std::unique_ptr<std::byte, Free> bytes_;
};

}  // namespace spillway
