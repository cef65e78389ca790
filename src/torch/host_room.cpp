#include "torch/host_room.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>

namespace spillway {

namespace {

std::optional<Bytes> read_number(const std::string& path) {
  std::ifstream file(path);
  std::int64_t number = 0;
  if (!(file >> number)) return std::nullopt;  // no such file, or "max"
  return Bytes{number};
}

Bytes free_on_machine() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  std::int64_t kibibytes = 0;
  for (std::string unit; file >> key >> kibibytes; std::getline(file, unit)) {
    if (key == "MemAvailable:") return Bytes{kibibytes} * 1024;
  }
  return 0_B;
}

std::optional<Bytes> left_by(const std::string& limit, const std::string& used) {
  const auto most = read_number(limit), now = read_number(used);
  if (!most || !now) return std::nullopt;
  return std::max(*most - *now, 0_B);
}

}  // namespace

Bytes room_on_host() {
  Bytes room = free_on_machine();
  // The process's own group as its container sees it, in the two versions of control groups.
  const auto unified = left_by("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current");
  const auto legacy = left_by("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes");
  for (const auto& left : {unified, legacy}) {
    if (left) room = std::min(room, *left);
  }
  return room;
}

}  // namespace spillway
