// Where a writer's bytes go: a file or memory.
//
// A sink fails by returning false, for good, with the reason in `problem()`: a full disk must not stop training. Bytes
// are with the operating system when append() returns (they survive the death of the process), not forced to the disk.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace spillway {

class Sink {
 public:
  virtual ~Sink() = default;

  [[nodiscard]] virtual bool append(std::span<const std::uint8_t> bytes) = 0;
  // Forgets everything from `size` on; the next append lands there.
  [[nodiscard]] virtual bool truncate(std::uint64_t size) = 0;
  // Why append or truncate returned false; names the file.
  [[nodiscard]] virtual std::string problem() const = 0;
};

// Created or overwritten. A forked child of the process that opened it writes nothing: the file stays its parent's.
class FileSink final : public Sink {
 public:
  // Throws InputError naming the file and the reason when it cannot be opened for writing.
  explicit FileSink(std::string path);
  ~FileSink() override;
  FileSink(const FileSink&) = delete;
  FileSink& operator=(const FileSink&) = delete;

  [[nodiscard]] bool append(std::span<const std::uint8_t> bytes) override;
  [[nodiscard]] bool truncate(std::uint64_t size) override;
  [[nodiscard]] std::string problem() const override { return problem_; }

 private:
  bool fail(const char* verb);

  std::string path_, problem_;
  int file_ = -1;
  pid_t owner_;
};

// Appends to a vector that outlives it.
class MemorySink final : public Sink {
 public:
  explicit MemorySink(std::vector<std::uint8_t>& into) : into_(into) {}

  [[nodiscard]] bool append(std::span<const std::uint8_t> bytes) override {
    into_.insert(into_.end(), bytes.begin(), bytes.end());
    return true;
  }
  [[nodiscard]] bool truncate(std::uint64_t size) override {
    into_.resize(size);
    return true;
  }
  [[nodiscard]] std::string problem() const override { return {}; }

 private:
  std::vector<std::uint8_t>& into_;
};

}  // namespace spillway
