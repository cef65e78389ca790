#include "torch/cuda/torch_stats.h"

#include <algorithm>

namespace spillway {

namespace {

using c10::CachingDeviceAllocator::BlockInfo;
using c10::CachingDeviceAllocator::SegmentInfo;

// torch tells these apart by the size asked for (kSmallSize of its allocator).
constexpr Bytes kSmall = 1_MiB;

void raise(c10::CachingAllocator::Stat& stat, Bytes current, Bytes peak) {
  stat.peak = std::max(stat.current + peak.count, stat.peak);
  stat.current += current.count;
}

struct Counts {
  std::int64_t blocks = 0;
  Bytes asked;
};

Counts count_resident(const Engine& engine) {
  const auto lock = engine.lock();
  Counts counts;
  engine.for_each_resident([&](const Record* record) {
    ++counts.blocks;
    counts.asked += record->size;
  });
  return counts;
}

BlockInfo block_of(const Record& record) {
  BlockInfo block;
  block.size = static_cast<std::size_t>(record.block.range.length().count);
  block.requested_size = static_cast<std::size_t>(record.size.count);
  block.allocated = block.active = true;
  return block;
}

void append(SegmentInfo& segment, const Record& record) {
  const BlockInfo block = block_of(record);
  segment.total_size += block.size;
  segment.requested_size += block.requested_size;
  segment.allocated_size += block.size;
  segment.active_size += block.size;
  segment.is_large = segment.is_large || record.size > kSmall;
  segment.blocks.push_back(block);
}

}  // namespace

void add_to(c10::CachingDeviceAllocator::DeviceStats& stats, const Engine& engine) {
  const EngineStats now = engine.stats();
  const RecentPeaks peaks = engine.recent_peaks();
  const Counts counts = count_resident(engine);
  // The engine's reserved bytes hold what the allocator before us reserved already.
  stats.reserved_bytes[0].current = now.reserved.count;
  stats.reserved_bytes[0].peak = std::max(stats.reserved_bytes[0].peak, peaks.reserved.count);
  raise(stats.allocated_bytes[0], now.live, peaks.live);
  raise(stats.active_bytes[0], now.live, peaks.live);
  raise(stats.requested_bytes[0], counts.asked, counts.asked);
  raise(stats.allocation[0], Bytes{counts.blocks}, Bytes{counts.blocks});
  raise(stats.active[0], Bytes{counts.blocks}, Bytes{counts.blocks});
  raise(stats.segment[0], Bytes{1}, Bytes{1});
}

void append_segments(std::vector<SegmentInfo>& segments, const Engine& engine, c10::DeviceIndex device) {
  const auto lock = engine.lock();
  std::vector<const Record*> records;
  engine.for_each_resident([&](const Record* record) { records.push_back(record); });
  std::ranges::sort(records, {}, &Record::data);
  const std::byte* end = nullptr;
  for (const Record* record : records) {
    if (record->data != end) {
      SegmentInfo segment;
      segment.device = device;
      segment.address = reinterpret_cast<std::size_t>(record->data);
      segment.is_expandable = true;
      segments.push_back(std::move(segment));
    }
    append(segments.back(), *record);
    end = record->data + record->block.range.length().count;
  }
}

}  // namespace spillway
