#include "pool/pool.h"

#include "pool/books.h"
#include "pool/remap.h"
#include "pool/window.h"

namespace spillway {

double PoolStats::fragmentation() const {
  if (reserved == Bytes{}) return 0;
  return static_cast<double>((reserved - live - largest_free).count) / static_cast<double>(reserved.count);
}

Pool::Pool(const PoolOptions& options) : books_(std::make_unique<Books>(options)) {}
Pool::~Pool() = default;
Pool::Pool(Pool&&) noexcept = default;
Pool& Pool::operator=(Pool&&) noexcept = default;

std::optional<Grant> Pool::try_allocate(Bytes size, StreamId on, bool anywhere) {
  return books_->try_allocate(size, on, anywhere);
}
std::optional<Grant> Pool::try_allocate_at(Range range, StreamId on) { return books_->try_allocate_at(range, on); }
std::optional<std::vector<Range>> Pool::lacking(Range range) { return books_->lacking(range); }
void Pool::abandon(const Grant& grant) { books_->abandon(grant); }
void Pool::free(ChunkId chunk, std::span<const Tick> last_uses) { books_->free(chunk, last_uses); }

void Pool::note_done(Tick tick) { books_->clocks.note_done(tick); }
void Pool::note_wait(StreamId waiter, Tick tick, std::uint64_t position) {
  books_->clocks.note_wait(waiter, tick, position);
}
std::optional<Tick> Pool::pending(StreamId stream) const { return books_->clocks.pending(stream); }

std::optional<Window> Pool::find_window(Bytes size, const std::function<double(ChunkId)>& cost) const {
  SPILLWAY_ENSURE(size > Bytes{}, "a request has a size");
  return spillway::find_window(books_->space, books_->slabs, size, books_->room(), cost);
}
std::optional<Remap> Pool::plan_remap(Bytes size, StreamId on) const {
  SPILLWAY_ENSURE(size > Bytes{}, "a request has a size");
  return spillway::plan_remap(books_->space, size, books_->room(), on);
}
std::optional<Remap> Pool::find_donors(Bytes size, Range keep, StreamId on) const {
  return spillway::find_donors(books_->space, size, keep, on);
}
std::vector<Range> Pool::trim() { return books_->trim(); }
std::optional<Range> Pool::find_growth() const { return books_->find_growth(); }
void Pool::apply_remap(const Remap& remap) { books_->apply_remap(remap); }
void Pool::set_limit(Bytes limit) { books_->set_limit(limit); }

Bytes Pool::limit() const { return books_->limit; }
Bytes Pool::reserved() const { return books_->reserved; }
Bytes Pool::live() const { return books_->live; }
Range Pool::range(ChunkId chunk) const { return books_->granted(chunk).range(); }
PoolStats Pool::stats() const { return books_->stats(); }
void Pool::verify() const { books_->verify(); }

}  // namespace spillway
