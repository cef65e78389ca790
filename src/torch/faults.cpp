#include "torch/faults.h"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string_view>

#include "torch/frame.h"

namespace spillway {

namespace {

constexpr std::array kSignals = {SIGSEGV, SIGBUS};

// What the handler reads; written before it is installed.
const NoAccess* away = nullptr;
const std::byte* pool = nullptr;
Bytes pool_length;
std::array<struct sigaction, kSignals.size()> previous;
std::array<bool, kSignals.size()> is_in{};
std::atomic<const void*> told{nullptr};  // a handler that returns meets the same fault again

// A line buffer on the stack: nothing in here allocates, locks or touches the heap.
class Line {
 public:
  Line& operator<<(std::string_view text) {
    const std::size_t fits = std::min(text.size(), text_.size() - length_);
    std::memcpy(text_.data() + length_, text.data(), fits);
    length_ += fits;
    return *this;
  }
  Line& operator<<(std::uint64_t number) { return add(number, 10); }
  struct Address {
    const void* at;
  };
  Line& operator<<(Address address) { return (*this << "0x").add(reinterpret_cast<std::uintptr_t>(address.at), 16); }
  ~Line() {
    *this << "\n";
    for (std::size_t done = 0; done < length_;) {
      const ssize_t wrote = ::write(STDERR_FILENO, text_.data() + done, length_ - done);
      if (wrote <= 0) return;
      done += static_cast<std::size_t>(wrote);
    }
  }

 private:
  Line& add(std::uint64_t number, int base) {
    std::array<char, 20> digits;
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number, base).ptr;
    return *this << std::string_view(digits.data(), static_cast<std::size_t>(end - digits.data()));
  }

  std::array<char, 512> text_;
  std::size_t length_ = 0;
};

std::string_view words(Whereabouts where) {
  switch (where) {
    case Whereabouts::in_host_memory: return "its bytes are in host memory";
    case Whereabouts::in_a_file: return "its bytes are in the spill file";
    case Whereabouts::dropped: return "its bytes were dropped, to be computed again when an operator asks for them";
    case Whereabouts::home: return "its bytes have come home since, to another address";
    case Whereabouts::dead: return "it has died since";
    case Whereabouts::unknown: break;
  }
  return "its bytes are away";
}

// An operator that was unloaded takes its name along: bounded, whatever is there now.
std::string_view name_of(const char* maker) { return {maker, ::strnlen(maker, 128)}; }

void tell_storage(const NoAccess::Found& found) {
  if (!found.facts.storage.valid() || found.facts.where == Whereabouts::unknown) {
    Line() << "  storage  one that is away; this address does not tell which";
    return;
  }
  {
    Line line;
    line << "  storage  number " << std::uint64_t{found.facts.storage.index} << ", "
         << static_cast<std::uint64_t>(found.facts.size.count) << " bytes, made by ";
    line << (found.facts.maker == nullptr ? "code outside any operator" : name_of(found.facts.maker));
    line << " (operator " << found.facts.op << ", step " << found.facts.step << "); touched at byte "
         << static_cast<std::uint64_t>(found.offset);
  }
  Line() << "  where    " << words(found.facts.where);
}

void tell_reader() {
  const Frame* frame = current_frame();
  if (frame == nullptr) {
    Line() << "  reader   code outside torch's operators, in thread " << static_cast<std::uint64_t>(::gettid());
    return;
  }
  const c10::OperatorName& name = frame->op->operator_name();
  Line line;
  line << "  reader   " << name.name;
  if (!name.overload_name.empty()) line << "." << name.overload_name;
  if (frame->replay) line << " (run again to compute a dropped tensor)";
}

void tell(const void* address) {
  Line() << "spillway: memory at " << Line::Address{address} << " was touched while the bytes of its tensor were away, by code that Spillway does not see.";
  if (away->contains(address)) tell_storage(away->find(address));
  else Line() << "  storage  one that was here before: the address was kept from when its bytes were at home";
  tell_reader();
  Line() << "  help     spillway.resident(tensor) before its address is taken keeps a tensor at home for life. If only torch and";
  Line() << "           its extensions are at work, this is a defect of Spillway: please report it with these lines.";
}

bool in_pool(const void* address) {
  const auto at = reinterpret_cast<std::uintptr_t>(address), begin = reinterpret_cast<std::uintptr_t>(pool);
  return at >= begin && at - begin < static_cast<std::uint64_t>(pool_length.count);
}

// What would have happened without us. The default comes back by itself when the instruction runs again; a signal that
// somebody sent has to be sent again.
void pass_on(const struct sigaction& before, int signal, siginfo_t* facts, void* context) {
  if ((before.sa_flags & SA_SIGINFO) != 0) {
    before.sa_sigaction(signal, facts, context);
  } else if (before.sa_handler == SIG_DFL || (before.sa_handler == SIG_IGN && facts->si_code > 0)) {
    struct sigaction plain {};
    plain.sa_handler = SIG_DFL;
    ::sigaction(signal, &plain, nullptr);
    if (facts->si_code <= 0) ::raise(signal);
  } else if (before.sa_handler != SIG_IGN) {
    before.sa_handler(signal);
  }
}

void on_fault(int signal, siginfo_t* facts, void* context) {
  const int error = errno;
  const bool ours = facts->si_code > 0 && (away->contains(facts->si_addr) || in_pool(facts->si_addr));
  if (ours && told.exchange(facts->si_addr) != facts->si_addr) tell(facts->si_addr);
  pass_on(previous[signal == SIGBUS ? 1 : 0], signal, facts, context);
  errno = error;
}

}  // namespace

void watch_faults_again() {
  if (away == nullptr) return;
  struct sigaction ours {};
  ours.sa_sigaction = &on_fault;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
  ::sigemptyset(&ours.sa_mask);
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    if (is_in[i]) continue;
    is_in[i] = ::sigaction(kSignals[i], nullptr, &previous[i]) == 0 && ::sigaction(kSignals[i], &ours, nullptr) == 0;
  }
}

void step_aside_for_handlers() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    struct sigaction now {};
    const bool on_top = is_in[i] && ::sigaction(kSignals[i], nullptr, &now) == 0 && now.sa_sigaction == &on_fault;
    // Whoever came after us has us as his previous: to go now would take him out, too.
    if (on_top && ::sigaction(kSignals[i], &previous[i], nullptr) == 0) is_in[i] = false;
  }
}

void watch_faults(const NoAccess& regions, const std::byte* pool_begin, Bytes length) {
  if (away != nullptr) return;
  away = &regions;
  pool = pool_begin;
  pool_length = length;
  watch_faults_again();
}

}  // namespace spillway
