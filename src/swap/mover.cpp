#include "swap/mover.h"

#include <utility>

#include "base/error.h"

namespace spillway {

namespace {

std::unique_ptr<Arena> open_tier(Device& device, Tier tier, Bytes limit, Bytes step = {}) {
  if (limit <= 0_B) return nullptr;
  const Bytes granule = round_up(std::max(step, device.facts().granule), device.facts().granule);
  const Bytes whole = round_up(limit, granule);
  return std::make_unique<Arena>(device, tier,
                                 PoolOptions{.address_space = whole * 2, .limit = whole, .granule = granule,
                                             .alignment = 4_KiB, .slab = 0_B, .dear_memory = true});
}

}  // namespace

template <class Act>
void Mover::for_each_arena(Act act) const {
  for (Arena* arena : {host_.get(), file_.get()}) {
    if (arena != nullptr) act(*arena);
  }
}

Mover::Mover(Device& device, const MoverOptions& options)
    : device_(device),
      out_(device.open_stream()),
      in_(device.open_stream()) {
  open(options);
}

void Mover::open(const MoverOptions& options) {
  if (!host_) host_ = open_tier(device_, Tier::host, options.host_limit, options.host_granule);
  if (!file_) file_ = open_tier(device_, Tier::file, options.file_limit);
  if (ask_) for_each_arena([&](Arena& arena) { arena.set_ask(ask_); });
}

void Mover::set_ask(std::function<bool(Tick)> ask) {
  ask_ = std::move(ask);
  for_each_arena([&](Arena& arena) { arena.set_ask(ask_); });
}

void Mover::prepare_host(Bytes bytes, const std::function<bool()>& stop) {
  if (!host_) return;
  try {
    while (host_->reserved() < std::min(bytes, host_->limit()) && !stop() && host_->try_grow()) {
    }
  } catch (const DeviceError&) {
    // The process is ending, or the device is broken: whoever needs memory from it next is told.
  }
}

std::optional<LowerCopy> Mover::try_place(Bytes size) {
  if (!held_.empty()) free_unread();
  for (const Tier tier : {Tier::host, Tier::file}) {
    if (arena(tier) == nullptr) continue;
    const Nanos begin = device_.now();
    auto block = arena(tier)->try_allocate_there(size, out_);  // another thread may be pinning more
    if (!block) block = arena(tier)->try_allocate(size, out_);
    (tier == Tier::host ? waited_host_ : waited_file_) += device_.now() - begin;
    if (block) return LowerCopy{.tier = tier, .block = *block, .written = {}, .last_read = {}, .began = {}, .forks = children_.count()};
  }
  return std::nullopt;
}

std::optional<LowerCopy> Mover::try_place_there(Bytes size) {
  const auto block = host_ ? host_->try_allocate_there(size, out_) : std::nullopt;
  if (!block) return std::nullopt;
  return LowerCopy{.tier = Tier::host, .block = *block, .written = {}, .last_read = {}, .began = {}, .forks = children_.count()};
}

void Mover::move_out_part(LowerCopy& copy, Bytes at, Bytes offset, Bytes size, std::span<const Tick> after) {
  wait_out(after);
  if (at == 0_B && (timed_ || watched_)) copy.began = device_.record(out_);
  device_.copy(out_, {copy.tier, copy.block.range.begin + at}, {Tier::device, offset}, size);
  copy.written = device_.record(out_);
}

// What is on the stream itself is before it already.
void Mover::wait_out(std::span<const Tick> after) {
  for (const Tick tick : after) {
    if (tick.stream != out_) device_.wait(out_, tick);
  }
}

std::optional<LowerCopy> Mover::try_move_out(Bytes offset, Bytes size, std::span<const Tick> after) {
  auto copy = try_place(size);
  if (!copy) return std::nullopt;
  wait_out(after);
  if (timed_ || watched_) copy->began = device_.record(out_);
  device_.copy(out_, {copy->tier, copy->block.range.begin}, {Tier::device, offset}, size);
  copy->written = device_.record(out_);
  note_sample(outs_, *copy, copy->written, size);
  return copy;
}

Tick Mover::move_in(LowerCopy& copy, Bytes offset, Bytes size) {
  device_.wait(in_, copy.written);
  if (timed_ || watched_) copy.began = device_.record(in_);
  device_.copy(in_, {Tier::device, offset}, {copy.tier, copy.block.range.begin}, size);
  copy.last_read = device_.record(in_);
  note_sample(ins_, copy, *copy.last_read, size);
  return *copy.last_read;
}

void Mover::note_sample(std::deque<Sample>& samples, const LowerCopy& copy, Tick done, Bytes size) {
  while (!samples.empty() && samples.front().began.value + kTickWindow / 2 < done.value) samples.pop_front();  // soon forgotten
  if (!watched_ || copy.tier != Tier::host || size < kSmallestSample) return;
  samples.push_back({copy.began, done, size});
  if (samples.size() > kMostSamples) samples.pop_front();
}

double Mover::rate_of(std::deque<Sample>& samples) {
  Nanos time;
  Bytes bytes;
  for (const Sample& sample : samples) {
    if (!device_.query(sample.done)) break;
    time += device_.elapsed(sample.began, sample.done);
    bytes += sample.size;
  }
  samples.clear();
  return bytes > 0_B ? static_cast<double>(time.count) / static_cast<double>(bytes.count) : 0;
}

Mover::Rates Mover::take_rates() { return {.out_nanos_per_byte = rate_of(outs_), .in_nanos_per_byte = rate_of(ins_)}; }

void Mover::forget(const LowerCopy& copy) {
  const std::uint64_t forks = children_.count();
  if (copy.tier == Tier::file && children_.any_there(copy.forks, forks)) held_.push_back({copy, forks});
  else free_place(copy);
}

// Most children are gone, or other programs, long before the file would have to grow for them.
void Mover::free_unread() {
  children_.look();
  std::erase_if(held_, [&](const Held& held) {
    const bool read = children_.any_there(held.copy.forks, held.forks);
    if (!read) free_place(held.copy);
    return !read;
  });
}

void Mover::free_place(const LowerCopy& copy) {
  if (copy.last_read) {
    arena(copy.tier)->free(copy.block, std::array{copy.written, *copy.last_read});
  } else {
    arena(copy.tier)->free(copy.block, std::array{copy.written});
  }
}

void Mover::drain() {
  for (const StreamId stream : {out_, in_}) device_.synchronize(device_.record(stream));
}

void Mover::before_fork() {
  try {
    if (!in_child_) drain();
  } catch (const DeviceError&) {  // not the forking thread's affair
  }
  if (!in_child_ && used(Tier::file) > 0_B) children_.before_fork();
  for_each_arena([](Arena& arena) { arena.before_fork(); });
}

void Mover::after_fork(bool child, StreamId restore_on) {
  for_each_arena([](Arena& arena) { arena.after_fork(); });
  children_.after_fork(child);
  if (!child) return;
  in_child_ = true;
  in_ = restore_on;
}

Bytes Mover::used(Tier tier) const {
  return arena(tier) == nullptr ? 0_B : arena(tier)->stats().live;
}

}  // namespace spillway
