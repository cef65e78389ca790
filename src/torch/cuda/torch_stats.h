// The engine's figures in torch's words: what memory_stats() and memory_snapshot() show.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include <vector>

#include "engine/engine.h"

namespace spillway {

// On top of what the allocator before us told.
void add_to(c10::CachingDeviceAllocator::DeviceStats& stats, const Engine& engine);

// A segment per stretch of storages that lie side by side.
void append_segments(std::vector<c10::CachingDeviceAllocator::SegmentInfo>& segments, const Engine& engine, c10::DeviceIndex device);

}  // namespace spillway
