#include "torch/start.h"

#include <c10/core/impl/LocalDispatchKeySet.h>
#include <pthread.h>
#include <torch/version.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <mutex>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "device/host/host_device.h"
#include "torch/cpu_allocator.h"
#include "torch/draw.h"
#include "torch/faults.h"
#include "torch/key.h"
#include "torch/out_of_memory.h"
#include "torch/registration.h"
#if SPILLWAY_HAS_CUDA
#include "torch/cuda/start_cuda.h"
#endif

namespace spillway {

namespace {

// RAM is committed in pieces of this. Only whole ones can be put together to a longer stretch, so whoever stays spoils what is
// left of two: a budget has some thousands of them, and 1.1 times the floor holds what the floor says. No more, because every
// remap looks at all that are free, and the system maps no more than 65530 pieces (vm.max_map_count).
constexpr Bytes kLargestGranule = 64_KiB;
constexpr std::int64_t kGranules = 4096;

Bytes host_granule(std::optional<Bytes> budget) {
  const Bytes page{::sysconf(_SC_PAGESIZE)};
  if (!budget) return std::max(page, kLargestGranule);
  Bytes granule = page;
  while (granule < kLargestGranule && granule * kGranules < *budget) granule = granule * 2;
  return granule;
}

// Address space costs nothing; twice a large machine's RAM leaves room to remap.
constexpr Bytes kHostSpace = 1024_GiB;
// Address space of the file; it grows as it is used.
constexpr Bytes kFileRoom = 512_GiB;

std::optional<Bytes> bytes_option(const nlohmann::json& options, const char* key) {
  const auto found = options.find(key);
  if (found == options.end() || found->is_null()) return std::nullopt;
  return Bytes{found->get<std::int64_t>()};
}

std::optional<std::string> text_option(const nlohmann::json& options, const char* key) {
  const auto found = options.find(key);
  if (found == options.end() || found->is_null()) return std::nullopt;
  return found->get<std::string>();
}

std::string allocator_of(const nlohmann::json& options) { return options.value("allocator", "spillway"); }

EngineOptions engine_options(const nlohmann::json& options) {
  const std::string policy = options.value("policy", "hybrid");
  EngineOptions engine;
  engine.plans = find_plan_policy(policy);
  const auto found = engine.plans != nullptr ? ReactivePolicy::dtr : find_policy(policy);
  if (!found) throw InputError("unknown policy '" + policy + "': " + known_policies() + " are there");
  engine.budget = bytes_option(options, "budget_bytes");
  engine.policy = *found;
  engine.leave = leave_of(*found);
  engine.smallest = bytes_option(options, "min_evict_bytes").value_or(engine.smallest);
  engine.poison = options.value("poison", false);
  engine.plans_at_once = options.value("plans_at_once", false);  // for tests, as the next
  engine.judges_plans = options.value("judges_plans", true);
  return engine;
}

// A copy in RAM or to a disk beside computing on all cores: nothing hides, so its price is most of its time.
Costs host_costs(bool host_tier) {
  const double each_way = host_tier ? 0.15 : 0.5;
  return {.out_nanos_per_byte = each_way, .in_nanos_per_byte = each_way, .out_price = each_way / 2, .in_price = each_way / 2,
          .per_copy = 20_us, .per_replay = 5_us};
}

std::unique_ptr<Adapter> start_on_cpu(const nlohmann::json& options) {
  if (allocator_of(options) != "spillway") throw InputError("allocator 'native' is for cards: on the CPU there is only spillway's own");
  EngineOptions engine = engine_options(options);
  engine.address_space = kHostSpace;
  engine.granule = host_granule(engine.budget);
  engine.alignment = 64_B;
  engine.minutes = true;
  if (engine.budget) engine.host_limit = bytes_option(options, "host_limit_bytes").value_or(0_B);
  engine.costs = host_costs(bytes_option(options, "host_limit_bytes").value_or(0_B) > 0_B);
  if (engine.budget) refuse_below_smallest(*engine.budget, engine.granule);
  const std::string folder = text_option(options, "spill_dir").value_or("/var/tmp");
  const HostOptions host{.memory = {}, .host_memory = {}, .file_room = {}, .granule = engine.granule, .poison = engine.poison,
                         .file = SpillFileOptions{.folder = folder}};
  if (engine.budget) engine.file_limit = kFileRoom;
  auto device = std::make_unique<HostDevice>(host);
  const StreamId caller = device->caller_stream();
  AdapterOptions adapter{.where = c10::Device(c10::kCPU), .slices = std::make_unique<NoAccess>(), .current_stream = [caller] { return caller; }};
  return std::make_unique<Adapter>(std::move(device), caller, engine, std::move(adapter));
}

// Empty: nobody measured.
std::optional<Rates> rates_of(const nlohmann::json& options) {
  const auto found = options.find("rates");
  if (found == options.end()) return std::nullopt;
  Rates rates;
  const auto read = [&](const char* name, double& rate) { rate = found->value(name, rate); };
  read("bytes_per_nano", rates.bytes_per_nano);
  read("half_flops_per_nano", rates.half_flops_per_nano);
  read("single_flops_per_nano", rates.single_flops_per_nano);
  read("out_bytes_per_nano", rates.out_bytes_per_nano);
  read("in_bytes_per_nano", rates.in_bytes_per_nano);
  read("out_price", rates.out_price);
  read("in_price", rates.in_price);
  return rates;
}

// "cuda" or "cuda:N".
std::optional<int> card_of(const std::string& device) {
  if (device.rfind("cuda", 0) != 0) return std::nullopt;
  if (device == "cuda") return 0;
  if (device.size() != 6 || device[4] != ':' || device[5] < '0' || device[5] > '9') return std::nullopt;
  return device[5] - '0';
}

void start_on_card(int card, const nlohmann::json& options) {
#if SPILLWAY_HAS_CUDA
  start_on_cuda(engine_options(options), {.card = card, .host_limit = bytes_option(options, "host_limit_bytes"),
                                         .spill_folder = text_option(options, "spill_dir"),
                                         .adaptive_workspace = options.value("workspace", "plain") == "adaptive",
                                         .rates = rates_of(options).value_or(Rates{}),
                                         .native_allocator = allocator_of(options) == "native"});
#else
  (void)options;
  throw InputError("device 'cuda:" + std::to_string(card) + "' is not there: this build of spillway is without CUDA");
#endif
}

void guard_forks() {
  ::pthread_atfork([] { adapter()->engine().before_fork(); }, [] { adapter()->engine().after_fork(false); },
                   [] { adapter()->engine().after_fork(true); forget_draws(); });
}

// What the first enable() of a process settles for good, and how people call it.
struct Lasting {
  const char* key;
  const char* name;
};
constexpr std::array kLasting = {
    Lasting{"device", "device"},       Lasting{"host_limit_bytes", "host limit"},
    Lasting{"spill_dir", "spill directory"}, Lasting{"min_evict_bytes", "smallest size that leaves (min_evict)"},
    Lasting{"poison", "poison mode"},  Lasting{"workspace", "workspace"},
};
nlohmann::json settled;  // the options of that enable()

// In words; defaults are none.
std::string lasting_text(const nlohmann::json& options, const std::string& key) {
  const auto found = options.find(key);
  if (key == "device" && found != options.end() && *found == "cuda") return "cuda:0";
  if (found == options.end() || found->is_null() || *found == false || *found == "plain") return "the default";
  if (found->is_number()) return to_text(Bytes{found->get<std::int64_t>()});
  return found->is_string() ? found->get<std::string>() : "on";
}

void refuse_what_lasts(const nlohmann::json& options, bool tiers_are_open) {
  for (const Lasting& one : kLasting) {
    if (!tiers_are_open && std::string_view(one.key) == "host_limit_bytes") continue;
    const std::string was = lasting_text(settled, one.key), asked = lasting_text(options, one.key);
    if (was == asked) continue;
    throw InputError("the " + std::string(one.name) + " is settled by the first enable of a process: it was " + was + " and cannot become " +
                     asked + "; start another process for that");
  }
}

MoverOptions lower_tiers(const nlohmann::json& options, bool on_card) {
  const auto host_limit = bytes_option(options, "host_limit_bytes");
#if SPILLWAY_HAS_CUDA
  if (on_card) return card_tiers(host_limit, text_option(options, "spill_dir").has_value());
#else
  (void)on_card;
#endif
  return {.host_limit = host_limit.value_or(0_B), .file_limit = kFileRoom, .host_granule = {}};
}

// Who watches, or never plans, does not measure; the next enable() of the process may.
void take_over_rates(Adapter& adapter, const Rates& rates) {
  const Costs costs = card_costs(rates);
  adapter.engine().set_costs(costs, card_move_nanos(costs));
  const auto lock = adapter.engine().lock();
  adapter.options().roofline->set_rates(rates);
}

// The process keeps the engine it had: its device stays, its budget and policy may change.
void restart(Adapter& adapter, const nlohmann::json& options) {
  if (adapter.managing) throw InputError("spillway is enabled already: use spillway.set_budget, or disable first");
  refuse_what_lasts(options, adapter.engine().has_tiers());
  if (allocator_of(options) != adapter.options().allocator) {
    throw InputError("this process's memory is placed by allocator '" + adapter.options().allocator + "' for good: another one needs a new process");
  }
  const EngineOptions engine = engine_options(options);
  if (engine.budget && !adapter.engine().has_tiers()) {
    adapter.engine().open_tiers(lower_tiers(options, adapter.options().where.is_cuda()));
    settled = options;
  }
  if (const auto rates = rates_of(options); rates && adapter.options().roofline) take_over_rates(adapter, *rates);
  adapter.engine().trust_nothing();  // ops ran unseen since disable()
  adapter.engine().set_policy(engine.policy, engine.leave, engine.plans);
  set_budget(adapter, engine.budget);
  adapter.engine().reset_stats();
  adapter.managing = true;
}

void open_trace(Adapter& adapter, const nlohmann::json& options) {
  const auto path = options.find("trace");
  if (path == options.end() || path->is_null()) return;
  Engine& engine = adapter.engine();
  const auto lock = engine.lock();
  if (engine.tape().on()) throw InputError("this process writes a trace already");
  WriterOptions kept;
  if (const auto steps = options.find("trace_steps"); steps != options.end()) kept.first_steps = steps->get<std::uint32_t>();
  engine.open_trace(path->get<std::string>(), kept);
  engine.tape().fact("torch", TORCH_VERSION);
  engine.tape().fact("device", adapter.device().facts().name);
  engine.tape().fact("policy", std::string(engine.policy_name()));
  if (engine.options().budget) engine.tape().budget(*engine.options().budget);
  std::atexit([] { close_trace(*spillway::adapter()); });
}

}  // namespace

void start(const nlohmann::json& options) {
  static std::once_flag registered;
  const std::string device = options.value("device", "cpu");
  const bool first = adapter() == nullptr;
  if (!first) {
    restart(*adapter(), options);
  } else if (device == "cpu") {
    install(start_on_cpu(options));
    watch_faults(*adapter()->options().slices, adapter()->device().address(Tier::device, 0_B), kHostSpace);
    install_cpu_allocator();
    guard_forks();
  } else if (const auto card = card_of(device)) {
    start_on_card(*card, options);
    guard_forks();
  } else {
    throw InputError("unknown device '" + device + "': cpu, cuda and cuda:N are there");
  }
  if (first) settled = options;
  try {
    open_trace(*adapter(), options);
    adapter()->engine().use_store(StepStore(text_option(options, "cache_dir").value_or(""), text_option(options, "cache_writer").value_or("")));
  } catch (...) {
    adapter()->managing = false;
    throw;
  }
  std::call_once(registered, register_handlers);
  c10::impl::tls_set_dispatch_key_included(kKey, true);
}

void refuse_below_smallest(Bytes budget, Bytes granule) {
  if (budget >= granule) return;
  const std::string told = to_text(budget) == to_text(granule) ? std::to_string(budget.count) + " bytes" : to_text(budget);
  throw InputError("a budget of " + told + " is below the smallest possible, " + to_text(granule));
}

void set_budget(Adapter& adapter, std::optional<Bytes> budget) {
  if (budget) refuse_below_smallest(*budget, adapter.engine().options().granule);
  if (adapter.engine().try_set_budget(budget)) return;
  throw InputError("a budget of " + to_text(*budget) + " is below what is allocated and cannot leave, " +
                   to_text(adapter.engine().stats().reserved) + ": free tensors first, or choose more");
}

void close_trace(Adapter& adapter) {
  const auto lock = adapter.engine().lock();
  adapter.engine().tape().close();
}

namespace {

bool try_bring_home(Engine& engine) {
  try {
    return engine.bring_all_home();
  } catch (const c10::OutOfMemoryError&) {  // in a rebuild
    return false;
  } catch (const WorkspaceShortage&) {
    return false;
  }
}

[[noreturn]] void tell_it_does_not_fit(Engine& engine) {
  const auto lock = engine.lock();
  const Bytes needed = engine.whole(), limit = engine.shortage(0_B).budget;
  const std::string missing = needed > limit ? ": " + to_text(needed - limit) + " too little" : ", but in pieces";
  throw InputError("not everything that was moved away fits into the budget at once, so spillway stays on: tensors take " + to_text(needed) +
                   ", and there is room for " + to_text(limit) + missing + "; raise the budget or free tensors first");
}

}  // namespace

void stop(Adapter& adapter) {
  if (!try_bring_home(adapter.engine())) tell_it_does_not_fit(adapter.engine());
  adapter.managing = false;
  close_trace(adapter);
  c10::impl::tls_set_dispatch_key_included(kKey, false);
}

}  // namespace spillway
