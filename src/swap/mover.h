// Carries bytes between the device and the tiers below it on two copy streams, one each way.
//
// Copies are enqueued and never waited for here: each returns the tick after which its bytes are there. Host memory is
// used first, then the file; space in them is placed by the same stream-aware pool as the device's, so a place is
// reused only behind the copies that still read or write it. Thread-safe as Arena and Device are.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "arena/arena.h"
#include "base/tick.h"
#include "base/units.h"
#include "device/device.h"
#include "swap/children.h"

namespace spillway {

struct MoverOptions {
  Bytes host_limit;  // 0: no host tier
  Bytes file_limit;  // 0: no file tier
  Bytes host_granule;  // the host tier grows in steps of this; 0: the device's granule
};

// A storage's bytes in a lower tier.
struct LowerCopy {
  Tier tier = Tier::host;
  Block block;
  Tick written;                   // the way out
  std::optional<Tick> last_read;  // the latest way in
  Tick began;                     // the latest copy either way; value 0: copies are not timed
  std::uint64_t forks = 0;        // before it was made; see Note [Children and the file]
};

class Mover {
 public:
  Mover(Device& device, const MoverOptions& options);

  [[nodiscard]] StreamId out_stream() const { return out_; }
  [[nodiscard]] StreamId in_stream() const { return in_; }

  // Opens the tiers that are not open yet. Throws InputError when one cannot be had.
  void open(const MoverOptions& options);
  [[nodiscard]] bool has_tiers() const { return host_ != nullptr || file_ != nullptr; }

  // As BlockSource::set_ask, of all tiers.
  void set_ask(std::function<bool(Tick)> ask);

  // Takes host memory ahead of need until there are so many bytes of it, used or not, or the limit is reached, or `stop`
  // says so. On a thread that has time: pinning is dear.
  void prepare_host(Bytes bytes, const std::function<bool()>& stop);

  // Enqueues the way out behind `after`. Empty when no lower tier has room.
  [[nodiscard]] std::optional<LowerCopy> try_move_out(Bytes offset, Bytes size, std::span<const Tick> after);

  // A place in host memory that is there already, for parts of a copy. Empty when there is none.
  [[nodiscard]] std::optional<LowerCopy> try_place_there(Bytes size);
  // Enqueues one part of the way out, behind the parts before it: `size` bytes of the device from `offset` on, to `at` in the copy.
  void move_out_part(LowerCopy& copy, Bytes at, Bytes offset, Bytes size, std::span<const Tick> after);

  // Enqueues the way in; the destination was granted to in_stream(). The copy stays valid.
  Tick move_in(LowerCopy& copy, Bytes offset, Bytes size);

  // Gives the place back, once no child reads it.
  void forget(const LowerCopy& copy);

  [[nodiscard]] Bytes used(Tier tier) const;
  // Zero: there is no such tier.
  [[nodiscard]] Bytes limit(Tier tier) const { return arena(tier) == nullptr ? 0_B : arena(tier)->limit(); }
  // What the caller waited for a place in this tier: memory to be pinned, a file to grow.
  [[nodiscard]] Nanos waited(Tier tier) const { return tier == Tier::host ? waited_host_ : waited_file_; }

  // Names the beginnings of copies from now on, so that their times can be told.
  void time_copies(bool timed) { timed_ = timed; }

  // How fast the link was since the last call, from the copies that are done; zero where too few bytes went that way.
  struct Rates {
    double out_nanos_per_byte = 0, in_nanos_per_byte = 0;
  };
  [[nodiscard]] Rates take_rates();
  // From now on copies are timed for take_rates().
  void watch_rates(bool watch) { watched_ = watch; }

  // Waits until every copy enqueued so far is done.
  void drain();

  // Note [Children and the file]
  // A forked child has host memory as private copies, but the file is one for all, and whoever forks (a loader of data)
  // trains on at once. So a place that a child may still read is not used again while that child is there: it costs room
  // in the file, at most what was in it at the fork. A fork itself reads and copies nothing, because most children never
  // want any of it. A child gives no place back: its books are its own, and it never writes.
  //
  // Copies under way are waited for; what failed of them is told to whoever waits for it.
  void before_fork();
  // In a child ways in run on `restore_on` from now on.
  void after_fork(bool child, StreamId restore_on);

 private:
  Device& device_;
  StreamId out_, in_;
  std::unique_ptr<Arena> host_, file_;
  std::function<bool(Tick)> ask_;
  Nanos waited_host_, waited_file_;
  bool timed_ = false;

  // Of the newest copies between device and host; small ones are all latency and tell nothing of the rate.
  struct Sample {
    Tick began, done;
    Bytes size;
  };
  static constexpr std::size_t kMostSamples = 32;
  static constexpr Bytes kSmallestSample = 4_MiB;

  void note_sample(std::deque<Sample>& samples, const LowerCopy& copy, Tick done, Bytes size);
  [[nodiscard]] double rate_of(std::deque<Sample>& samples);

  bool watched_ = false;
  std::deque<Sample> outs_, ins_;

  // A place that was given back while children may read it, and how many forks there were by then.
  struct Held {
    LowerCopy copy;
    std::uint64_t forks = 0;
  };
  Children children_;
  bool in_child_ = false;
  std::vector<Held> held_;

  void wait_out(std::span<const Tick> after);
  void free_place(const LowerCopy& copy);
  void free_unread();
  template <class Act>
  void for_each_arena(Act act) const;

  [[nodiscard]] Arena* arena(Tier tier) const { return tier == Tier::host ? host_.get() : file_.get(); }
  [[nodiscard]] std::optional<LowerCopy> try_place(Bytes size);
};

}  // namespace spillway
