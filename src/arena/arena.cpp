#include "arena/arena.h"

#include <algorithm>

#include "base/error.h"

namespace spillway {

// Note [What happens under the lock]
// Under it: the pool, and the device calls that neither wait for the device nor move bytes: query, record, commit,
// decommit. Commit and decommit must be there: between the pool's decision and the device's act nobody else may be
// granted or commit the same addresses, and a refused commit is undone before anything else happens to the pool. They
// cannot deadlock, because no device calls the arena. The exception is growth ahead of need, where a granule may take
// milliseconds to be pinned: it commits without the lock, and who would commit or decommit beside it waits for it (lock_to_commit).
// Outside the lock: wait, which blocks where the stream is the calling thread, and synchronize. A wait is therefore reported a little after it was enqueued, with a position recorded at the
// time of the report: too high, which is safe, and in the order of the reports, which is what the pool asks for.

namespace {

// Other threads may use up what a remap was planned with while the host waits for it.
constexpr int kRemapAttempts = 3;

// What is left of `whole` without `gone`; both by address, every gone range inside one of the whole ones.
std::vector<Range> without(const std::vector<Range>& whole, const std::vector<Range>& gone) {
  std::vector<Range> left;
  auto next = gone.begin();
  for (Range range : whole) {
    for (; next != gone.end() && range.contains(*next); ++next) {
      if (range.begin < next->begin) left.push_back({range.begin, next->begin});
      range.begin = next->end;
    }
    if (!range.empty()) left.push_back(range);
  }
  return left;
}

PoolOptions in_whole_granules(PoolOptions options) {
  options.address_space = round_up(options.address_space, options.granule);
  return options;
}

}  // namespace

Arena::Arena(Device& device, Tier tier, const PoolOptions& options)
    : device_(device), tier_(tier), placed_from_(options.placed_from), pool_(in_whole_granules(options)) {
  SPILLWAY_ENSURE(options.granule % device.facts().granule == Bytes{}, "the pool commits in the device's granules");
  device_.reserve(tier_, in_whole_granules(options).address_space);
}

template <class Wait>
void Arena::wait_for_all(const std::vector<Tick>& ticks, Wait wait_for) {
  if (ticks.empty()) return;
  const Nanos begin = device_.now();
  for (const Tick tick : ticks) wait_for(tick);
  waited_.fetch_add((device_.now() - begin).count, std::memory_order_relaxed);
}

void Arena::order_after(StreamId on, const std::vector<Tick>& ticks) {
  wait_for_all(ticks, [&](Tick tick) { wait_ ? wait_(on, tick) : wait(on, tick); });
}

std::optional<Block> Arena::try_allocate(Bytes size, StreamId on) {
  std::vector<Tick> waits, running;
  std::optional<Block> block;
  for (int attempt = 0; attempt < kRemapAttempts && !block; ++attempt) {
    wait_for_all(running, [&](Tick tick) { device_.synchronize(tick); });
    running.clear();
    const auto lock = lock_to_commit();
    block = take(size, on, /*anywhere=*/false, waits);
    if (block) break;
    const std::optional<Remap> remap = pool_.plan_remap(size, on);
    if (!remap || !try_move(*remap, {remap->commit})) {
      if (remap) running = not_done(remap->wait_for);
      if (!running.empty()) continue;
      if (remap && !carry_out(*remap)) return std::nullopt;
    }
    block = take(size, on, /*anywhere=*/!remap, waits);
    if (!remap) break;
  }
  order_after(on, waits);
  return block;
}

std::optional<Block> Arena::try_allocate_there(Bytes size, StreamId on) {
  std::vector<Tick> waits;
  std::optional<Block> block;
  {
    const std::lock_guard lock(mutex_);
    note_stream(on);
    block = take_without_growth(size, on, waits);
  }
  order_after(on, waits);
  return block;
}

std::optional<Block> Arena::try_allocate_at(Range range, StreamId on) {
  std::vector<Tick> waits, running;
  std::optional<Block> block;
  for (int attempt = 0; attempt < kRemapAttempts && !block; ++attempt) {
    wait_for_all(running, [&](Tick tick) { device_.synchronize(tick); });
    running.clear();
    const auto lock = lock_to_commit();
    note_stream(on);
    std::optional<Grant> grant = pool_.try_allocate_at(range, on);
    if (!grant && fill_in(range, on, running)) grant = pool_.try_allocate_at(range, on);
    if (!grant && running.empty()) return std::nullopt;
    if (!grant) continue;
    waits.assign(grant->waits.begin(), grant->waits.end());
    block = Block{grant->chunk, grant->range};
  }
  order_after(on, waits);
  return block;
}

// Memory where the range has none. False: somebody is there, there is not enough, or it must be waited for.
bool Arena::fill_in(Range range, StreamId on, std::vector<Tick>& wait_for) {
  const auto lacking = pool_.lacking(range);
  if (!lacking) return false;
  Bytes more;
  for (const Range without : *lacking) more += without.length();
  if (pool_.reserved() + more > pool_.limit()) {
    const auto donors = pool_.find_donors(pool_.reserved() + more - pool_.limit(), range, on);
    if (!donors) return false;
    if (try_move(*donors, *lacking)) return pool_.lacking(range)->empty();
    wait_for = not_done(donors->wait_for);
    if (!wait_for.empty()) return false;
    remaps_.fetch_add(1, std::memory_order_relaxed);
    for (const Range donor : donors->decommit) device_.decommit(tier_, donor);
    pool_.apply_remap(*donors);
  }
  return fill_in(*lacking);
}

// The first granules of `lacking` get what the remap takes elsewhere, the others more memory if there is any. True: the books say
// what was done, and the remap is over.
bool Arena::try_move(const Remap& remap, std::vector<Range> lacking) {
  std::vector<Range> to;
  std::vector<Remap> parts;  // with the uses of its own each
  for (std::size_t donor = 0; donor < remap.decommit.size(); ++donor) {
    for (Range left = remap.decommit[donor]; !left.empty();) {
      if (lacking.empty()) return false;
      Range& next = lacking.front();
      const Bytes length = std::min(next.length(), left.length());
      parts.push_back({.decommit = {{left.begin, left.begin + length}}, .commit = {next.begin, next.begin + length}, .uses = remap.in_use[donor]});
      if (!to.empty() && to.back().end == next.begin) to.back().end += length;
      else to.push_back(parts.back().commit);
      left.begin += length;
      next.begin += length;
      if (next.empty()) lacking.erase(lacking.begin());
    }
  }
  if (to.empty() || !device_.try_move(tier_, to, remap.decommit, not_done(remap.wait_for))) return false;
  remaps_.fetch_add(1, std::memory_order_relaxed);
  for (const Remap& part : parts) pool_.apply_remap(part);
  (void)fill_in(lacking);
  return true;
}

bool Arena::fill_in(const std::vector<Range>& lacking) {
  for (const Range range : lacking) {
    if (!commit(range)) return false;
    pool_.apply_remap({.decommit = {}, .commit = range, .wait_for = {}});
  }
  return true;
}

// A granule at a time, so that whoever has to take memory meanwhile waits for one at most.
bool Arena::try_grow() {
  std::optional<Range> more;
  {
    const auto lock = lock_to_commit();
    more = pool_.find_growth();
    if (!more) return false;
    growing_ = true;
  }
  bool grown = false;
  const auto end = [&] {
    {
      const std::lock_guard lock(mutex_);
      if (grown) pool_.apply_remap({.decommit = {}, .commit = *more, .wait_for = {}});
      growing_ = false;
    }
    growing_.notify_all();
  };
  try {
    grown = commit(*more);
  } catch (...) {
    end();
    throw;
  }
  end();
  return grown;
}

std::unique_lock<QuickMutex> Arena::lock_to_commit() {
  for (;;) {
    std::unique_lock lock(mutex_);
    if (!growing_.load(std::memory_order_relaxed)) return lock;
    lock.unlock();
    growing_.wait(true);
  }
}

std::vector<Tick> Arena::not_done(const std::vector<Tick>& ticks) const {
  std::vector<Tick> result;
  std::ranges::copy_if(ticks, std::back_inserter(result), [&](Tick tick) { return !is_done(tick); });
  return result;
}

std::optional<Block> Arena::take(Bytes size, StreamId on, bool anywhere, std::vector<Tick>& waits) {
  note_stream(on);
  std::optional<Grant> grant = pool_.try_allocate(size, on, anywhere);
  try {
    if ((!grant || grant->granted >= GrantClass::fresh) && learn_done()) {
      if (grant) pool_.abandon(*grant);
      for (const Tick tick : seen_done_) pool_.note_done(tick);
      grant = pool_.try_allocate(size, on, anywhere);
    }
    if (!grant) return std::nullopt;
    if (grant->commit.empty() || commit(grant->commit)) {
      waits.assign(grant->waits.begin(), grant->waits.end());
      return Block{grant->chunk, grant->range};
    }
  } catch (const DeviceError&) {
    if (grant) pool_.abandon(*grant);
    throw;
  }
  pool_.abandon(*grant);
  return take_without_growth(size, on, waits);
}

bool Arena::commit(Range range) {
  if (!device_.try_commit(tier_, range)) return false;
  commits_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

// What is committed already may serve, where the device has less than the limit or nobody wants to wait for more.
std::optional<Block> Arena::take_without_growth(Bytes size, StreamId on, std::vector<Tick>& waits) {
  const Bytes limit = pool_.limit();
  if (pool_.reserved() == Bytes{}) return std::nullopt;
  pool_.set_limit(std::min(limit, pool_.reserved()));
  const std::optional<Grant> grant = pool_.try_allocate(size, on, /*anywhere=*/true);
  if (grant) waits.assign(grant->waits.begin(), grant->waits.end());
  pool_.set_limit(limit);
  if (!grant) return std::nullopt;
  return Block{grant->chunk, grant->range};
}

// Everything the remap takes is done. When the device does not give the memory back that it just took, the books follow:
// the granules it took are free and done, so a trim lets go of them, and of all like them.
bool Arena::carry_out(const Remap& remap) {
  remaps_.fetch_add(1, std::memory_order_relaxed);
  for (const Range range : remap.decommit) device_.decommit(tier_, range);
  if (commit(remap.commit)) {
    pool_.apply_remap(remap);
    return true;
  }
  for (const Tick tick : remap.wait_for) pool_.note_done(tick);
  for (const Range range : without(pool_.trim(), remap.decommit)) device_.decommit(tier_, range);
  return false;
}

bool Arena::is_done(Tick tick) const { return ask_ ? ask_(tick) : device_.query(tick); }

// Asks the device about the newest tick of every stream that the pool does not know to be done. Fills seen_done_, tells
// the pool nothing yet; true when there is something to tell.
bool Arena::learn_done() {
  seen_done_.clear();
  for (std::uint32_t stream = 0; stream < streams_; ++stream) {
    const std::optional<Tick> pending = pool_.pending(StreamId{stream});
    if (pending && is_done(*pending)) seen_done_.push_back(*pending);
  }
  return !seen_done_.empty();
}

std::vector<Tick> Arena::pending() const {
  const std::lock_guard lock(mutex_);
  std::vector<Tick> ticks;
  for (std::uint32_t stream = 0; stream < streams_; ++stream) {
    if (const auto tick = pool_.pending(StreamId{stream})) ticks.push_back(*tick);
  }
  return ticks;
}

void Arena::note_stream(StreamId stream) { streams_ = std::max(streams_, stream.index + 1); }

void Arena::free(const Block& block, std::span<const Tick> last_uses) {
  const std::lock_guard lock(mutex_);
  for (const Tick tick : last_uses) note_stream(tick.stream);
  pool_.free(block.chunk, last_uses);
}

void Arena::wait(StreamId waiter, Tick tick) {
  device_.wait(waiter, tick);
  const std::lock_guard lock(mutex_);
  note_stream(waiter);
  note_stream(tick.stream);
  pool_.note_wait(waiter, tick, device_.record(waiter).value - 1);
}

void Arena::note_done(Tick tick) {
  const std::lock_guard lock(mutex_);
  note_stream(tick.stream);
  pool_.note_done(tick);
}

std::optional<Window> Arena::find_window(Bytes size, const std::function<double(ChunkId)>& cost) const {
  const std::lock_guard lock(mutex_);
  return pool_.find_window(size, cost);
}

Bytes Arena::trim(bool wait) {
  if (wait) {
    const std::vector<Tick> ticks = pending();
    for (const Tick tick : ticks) device_.synchronize(tick);
    for (const Tick tick : ticks) {
      if (device_.query(tick)) note_done(tick);  // waited for: nothing hangs on the answer
    }
  }
  const auto lock = lock_to_commit();
  if (!wait && learn_done()) {
    for (const Tick tick : seen_done_) pool_.note_done(tick);
  }
  Bytes given;
  for (const Range range : pool_.trim()) {
    device_.decommit(tier_, range);
    given += range.length();
  }
  return given;
}

void Arena::set_limit(Bytes limit) {
  const auto lock = lock_to_commit();
  pool_.set_limit(limit);
}

Bytes Arena::limit() const {
  const std::lock_guard lock(mutex_);
  return pool_.limit();
}

PoolStats Arena::stats() const {
  const std::lock_guard lock(mutex_);
  return pool_.stats();
}

void Arena::verify() const {
  const std::lock_guard lock(mutex_);
  pool_.verify();
}

}  // namespace spillway
