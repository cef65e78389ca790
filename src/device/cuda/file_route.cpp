#include "device/cuda/file_route.h"

#include <algorithm>

#include "device/cuda/driver.h"

namespace spillway {
namespace {

std::size_t count_of(Bytes size) { return static_cast<std::size_t>(size.count); }
CUdeviceptr advance(CUdeviceptr at, Bytes by) { return at + static_cast<CUdeviceptr>(by.count); }

}  // namespace

FileRoute::~FileRoute() {
  for (const auto& [stream, lane] : lanes_)
    if (lane.pinned != nullptr) cuda_driver().cuMemFreeHost(lane.pinned);
}

void FileRoute::card_to_file(CUstream on, Bytes to, CUdeviceptr from, Bytes size) {
  std::byte* buffer = pinned(on);
  for_each_piece(size, [&](Bytes at, Bytes length) {
    SPILLWAY_CU(cuMemcpyDtoHAsync, buffer, advance(from, at), count_of(length), on);
    host_to_file(on, to + at, buffer, length);
  });
}

void FileRoute::file_to_card(CUstream on, CUdeviceptr to, Bytes from, Bytes size) {
  std::byte* buffer = pinned(on);
  for_each_piece(size, [&](Bytes at, Bytes length) {
    file_to_host(on, buffer, from + at, length);
    SPILLWAY_CU(cuMemcpyHtoDAsync, advance(to, at), buffer, count_of(length), on);
  });
}

void FileRoute::host_to_file(CUstream on, Bytes to, const std::byte* from, Bytes size) {
  work_.enqueue(on, [=, this, &bounce = lane(on).aligned] { file_.write(to, from, size, bounce); });
}

void FileRoute::file_to_host(CUstream on, std::byte* to, Bytes from, Bytes size) {
  work_.enqueue(on, [=, this, &bounce = lane(on).aligned] { file_.read(from, to, size, bounce); });
}

void FileRoute::file_to_file(CUstream on, Bytes to, Bytes from, Bytes size) {
  std::byte* buffer = pinned(on);
  for_each_piece(size, [&](Bytes at, Bytes length) {
    file_to_host(on, buffer, from + at, length);
    host_to_file(on, to + at, buffer, length);
  });
}

FileRoute::Lane& FileRoute::lane(CUstream on) {
  const std::lock_guard lock(mutex_);
  return lanes_[on];
}

std::byte* FileRoute::pinned(CUstream on) {
  const std::lock_guard lock(mutex_);
  std::byte*& buffer = lanes_[on].pinned;
  if (buffer == nullptr) {
    void* memory = nullptr;
    SPILLWAY_CU(cuMemHostAlloc, &memory, count_of(kBounce), CU_MEMHOSTALLOC_PORTABLE);
    buffer = static_cast<std::byte*>(memory);
  }
  return buffer;
}

template <class Move>
void FileRoute::for_each_piece(Bytes size, Move move) {
  for (Bytes at; at < size; at += kBounce) move(at, std::min(kBounce, size - at));
}

}  // namespace spillway
