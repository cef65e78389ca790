// A stand-in for libcuda.so.1, so that the CUDA device's own logic is tested where there is no card.
//
// Card memory is host memory, streams are threads that work off a queue, events are promises. It is strict where the
// real driver is strict or merely undefined: calls need a current context, an unmap takes whole mappings, a copy must
// lie within one registration, an address range is freed only when nothing is mapped in it. It has 2 GiB and no clock of
// its own worth measuring. Only what src/device/cuda/driver.h asks for is here. Any thread.
#include <cuda.h>
#include <sys/mman.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

// A queue of work and the thread that does it.
struct CUstream_st {
  CUstream_st() : worker_([this] { work(); }) {}
  ~CUstream_st() {
    put({});
    worker_.join();
  }

  void put(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
    changed_.notify_all();
  }

  void drain() {
    std::promise<void> reached;
    put([&] { reached.set_value(); });
    reached.get_future().wait();
  }

 private:
  void work() {
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return !queue_.empty(); });
      const std::function<void()> next = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      if (!next) return;
      next();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  std::thread worker_;
};

namespace {

// One recording of an event. Recording again makes a new one; who waits keeps the old.
struct Mark {
  std::promise<void> reached;
  std::shared_future<void> done = reached.get_future().share();
  std::chrono::steady_clock::time_point at;
};

}  // namespace

struct CUevent_st {
  std::mutex mutex;
  std::shared_ptr<Mark> mark;
  bool timed = false;

  [[nodiscard]] std::shared_ptr<Mark> latest() {
    const std::lock_guard lock(mutex);
    return mark;
  }
};

struct CUctx_st {};

namespace {

constexpr std::size_t kMemory = std::size_t{2} << 30;
constexpr std::size_t kGranule = std::size_t{2} << 20;

struct Physical {
  std::size_t size = 0;
  int holders = 0;  // the handle, and every mapping
};

struct Mapped {
  std::size_t size = 0;
  CUmemGenericAllocationHandle memory = 0;
};

struct Machine {
  std::mutex mutex;
  CUctx_st context;
  std::map<CUmemGenericAllocationHandle, Physical> physical;
  std::map<CUdeviceptr, Mapped> mapped;
  std::map<const char*, std::size_t> registered;
  std::set<CUstream> streams;
  CUmemGenericAllocationHandle next_handle = 1;
  std::size_t used = 0;
};

// Never destroyed: threads of streams that nobody closed may outlive main().
Machine& machine() {
  static auto* const one = new Machine;
  return *one;
}

std::vector<CUcontext>& contexts() {
  static thread_local std::vector<CUcontext> stack;
  return stack;
}

CUstream stream_of(CUstream stream) {
  static CUstream const legacy = [] {
    auto* made = new CUstream_st;
    const std::lock_guard lock(machine().mutex);
    machine().streams.insert(made);
    return made;
  }();
  return stream != nullptr ? stream : legacy;
}

// The machine's lock is held.
void let_go(CUmemGenericAllocationHandle memory) {
  Physical& physical = machine().physical.at(memory);
  if (--physical.holders > 0) return;
  machine().used -= physical.size;
  machine().physical.erase(memory);
}

bool lies_in_one_registration(const void* begin, std::size_t size) {
  const std::lock_guard lock(machine().mutex);
  const auto* at = static_cast<const char*>(begin);
  auto next = machine().registered.upper_bound(at);
  if (next == machine().registered.begin()) return false;
  --next;
  return at + size <= next->first + next->second;
}

CUresult enqueue(CUstream on, std::function<void()> work) {
  if (contexts().empty()) return CUDA_ERROR_INVALID_CONTEXT;
  stream_of(on)->put(std::move(work));
  return CUDA_SUCCESS;
}

CUresult enqueue_copy(CUstream on, void* to, const void* from, std::size_t size) {
  return enqueue(on, [=] { std::memcpy(to, from, size); });
}

void* pointer(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

void close_pages(CUdeviceptr address, std::size_t size) {
  mmap(pointer(address), size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

}  // namespace

extern "C" {

// --------------------------------------------------------------------------------------------- the machine, contexts

CUresult cuInit(unsigned) { return CUDA_SUCCESS; }
CUresult cuGetErrorName(CUresult, const char** text) {
  *text = "CUDA_ERROR_STAND_IN";
  return CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult, const char** text) {
  *text = "an error of the stand-in";
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetCount(int* count) {
  *count = 1;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice* card, int index) {
  *card = index;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetName(char* name, int size, CUdevice) {
  std::strncpy(name, "stand-in", static_cast<std::size_t>(size));
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice) {
  *context = &machine().context;
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRelease(CUdevice) { return CUDA_SUCCESS; }
CUresult cuCtxGetCurrent(CUcontext* context) {
  *context = contexts().empty() ? nullptr : contexts().back();
  return CUDA_SUCCESS;
}
CUresult cuCtxPushCurrent(CUcontext context) {
  contexts().push_back(context);
  return CUDA_SUCCESS;
}
CUresult cuCtxPopCurrent(CUcontext* context) {
  if (contexts().empty()) return CUDA_ERROR_INVALID_CONTEXT;
  *context = contexts().back();
  contexts().pop_back();
  return CUDA_SUCCESS;
}
CUresult cuCtxSynchronize() {
  if (contexts().empty()) return CUDA_ERROR_INVALID_CONTEXT;
  std::unique_lock lock(machine().mutex);
  const std::set<CUstream> streams = machine().streams;
  lock.unlock();
  for (CUstream stream : streams) stream->drain();
  return CUDA_SUCCESS;
}

// --------------------------------------------------------------------------------------------------- the card's memory

CUresult cuMemGetInfo(std::size_t* free, std::size_t* total) {
  if (contexts().empty()) return CUDA_ERROR_INVALID_CONTEXT;
  const std::lock_guard lock(machine().mutex);
  *free = kMemory - machine().used;
  *total = kMemory;
  return CUDA_SUCCESS;
}
CUresult cuMemGetAllocationGranularity(std::size_t* granule, const CUmemAllocationProp*,
                                       CUmemAllocationGranularity_flags) {
  *granule = kGranule;
  return CUDA_SUCCESS;
}
CUresult cuMemAddressReserve(CUdeviceptr* address, std::size_t size, std::size_t, CUdeviceptr, unsigned long long) {
  void* pages = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  *address = reinterpret_cast<CUdeviceptr>(pages);
  return CUDA_SUCCESS;
}
CUresult cuMemAddressFree(CUdeviceptr address, std::size_t size) {
  const std::lock_guard lock(machine().mutex);
  const auto first = machine().mapped.lower_bound(address);
  if (first != machine().mapped.end() && first->first < address + size) std::abort();  // destructors hear no errors
  munmap(pointer(address), size);
  return CUDA_SUCCESS;
}
CUresult cuMemCreate(CUmemGenericAllocationHandle* memory, std::size_t size, const CUmemAllocationProp*,
                     unsigned long long) {
  if (contexts().empty()) return CUDA_ERROR_INVALID_CONTEXT;
  const std::lock_guard lock(machine().mutex);
  if (size % kGranule != 0) return CUDA_ERROR_INVALID_VALUE;
  if (machine().used + size > kMemory) return CUDA_ERROR_OUT_OF_MEMORY;
  machine().used += size;
  *memory = machine().next_handle++;
  machine().physical[*memory] = {size, 1};
  return CUDA_SUCCESS;
}
CUresult cuMemRelease(CUmemGenericAllocationHandle memory) {
  const std::lock_guard lock(machine().mutex);
  let_go(memory);
  return CUDA_SUCCESS;
}
CUresult cuMemMap(CUdeviceptr address, std::size_t size, std::size_t, CUmemGenericAllocationHandle memory,
                  unsigned long long) {
  const std::lock_guard lock(machine().mutex);
  if (machine().mapped.contains(address) || machine().physical.at(memory).size != size)
    return CUDA_ERROR_INVALID_VALUE;
  machine().mapped[address] = {size, memory};
  ++machine().physical.at(memory).holders;
  return CUDA_SUCCESS;
}
CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* memory, void* address) {
  const std::lock_guard lock(machine().mutex);
  const auto found = machine().mapped.find(reinterpret_cast<CUdeviceptr>(address));
  if (found == machine().mapped.end()) return CUDA_ERROR_INVALID_VALUE;
  *memory = found->second.memory;
  ++machine().physical.at(*memory).holders;
  return CUDA_SUCCESS;
}
CUresult cuMemSetAccess(CUdeviceptr address, std::size_t size, const CUmemAccessDesc*, std::size_t) {
  return mprotect(pointer(address), size, PROT_READ | PROT_WRITE) == 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
CUresult cuMemUnmap(CUdeviceptr address, std::size_t size) {
  const std::lock_guard lock(machine().mutex);
  std::vector<CUdeviceptr> whole;
  for (CUdeviceptr at = address; at < address + size; at += machine().mapped.at(whole.back()).size) {
    if (!machine().mapped.contains(at)) return CUDA_ERROR_INVALID_VALUE;
    whole.push_back(at);
  }
  for (CUdeviceptr at : whole) {
    let_go(machine().mapped.at(at).memory);
    machine().mapped.erase(at);
  }
  close_pages(address, size);
  return CUDA_SUCCESS;
}

// ------------------------------------------------------------------------------------------------------- pinned memory

CUresult cuMemHostRegister(void* memory, std::size_t size, unsigned) {
  if (contexts().empty()) return CUDA_ERROR_INVALID_CONTEXT;
  const std::lock_guard lock(machine().mutex);
  const bool fresh = machine().registered.emplace(static_cast<const char*>(memory), size).second;
  return fresh ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
}
CUresult cuMemHostUnregister(void* memory) {
  if (contexts().empty()) return CUDA_ERROR_INVALID_CONTEXT;
  const std::lock_guard lock(machine().mutex);
  const bool known = machine().registered.erase(static_cast<const char*>(memory)) > 0;
  return known ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}
CUresult cuMemHostAlloc(void** memory, std::size_t size, unsigned flags) {
  *memory = std::aligned_alloc(4096, size);
  return cuMemHostRegister(*memory, size, flags);
}
CUresult cuMemFreeHost(void* memory) {
  const CUresult result = cuMemHostUnregister(memory);
  std::free(memory);
  return result;
}

// -------------------------------------------------------------------------------------------------- streams and events

CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, std::size_t size, CUstream on) {
  if (!lies_in_one_registration(from, size)) return CUDA_ERROR_INVALID_VALUE;
  return enqueue_copy(on, pointer(to), from, size);
}
CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, std::size_t size, CUstream on) {
  if (!lies_in_one_registration(to, size)) return CUDA_ERROR_INVALID_VALUE;
  return enqueue_copy(on, to, pointer(from), size);
}
CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, std::size_t size, CUstream on) {
  return enqueue_copy(on, pointer(to), pointer(from), size);
}
CUresult cuMemsetD8Async(CUdeviceptr at, unsigned char value, std::size_t size, CUstream on) {
  return enqueue(on, [=] { std::memset(pointer(at), value, size); });
}
CUresult cuLaunchHostFunc(CUstream on, CUhostFn work, void* argument) {
  return enqueue(on, [=] { work(argument); });
}
CUresult cuStreamCreate(CUstream* stream, unsigned) {
  if (contexts().empty()) return CUDA_ERROR_INVALID_CONTEXT;
  *stream = new CUstream_st;
  const std::lock_guard lock(machine().mutex);
  machine().streams.insert(*stream);
  return CUDA_SUCCESS;
}
CUresult cuStreamDestroy(CUstream stream) {
  std::unique_lock lock(machine().mutex);
  machine().streams.erase(stream);
  lock.unlock();
  delete stream;
  return CUDA_SUCCESS;
}
CUresult cuStreamWaitEvent(CUstream waiter, CUevent event, unsigned) {
  return enqueue(waiter, [mark = event->latest()] {
    if (mark) mark->done.wait();
  });
}
CUresult cuEventCreate(CUevent* event, unsigned flags) {
  if (contexts().empty()) return CUDA_ERROR_INVALID_CONTEXT;
  *event = new CUevent_st;
  (*event)->timed = (flags & CU_EVENT_DISABLE_TIMING) == 0;
  return CUDA_SUCCESS;
}
CUresult cuEventDestroy(CUevent event) {
  delete event;
  return CUDA_SUCCESS;
}
CUresult cuEventRecord(CUevent event, CUstream on) {
  auto mark = std::make_shared<Mark>();
  {
    const std::lock_guard lock(event->mutex);
    event->mark = mark;
  }
  return enqueue(on, [mark] {
    mark->at = std::chrono::steady_clock::now();
    mark->reached.set_value();
  });
}
CUresult cuEventQuery(CUevent event) {
  if (contexts().empty()) return CUDA_ERROR_INVALID_CONTEXT;
  const std::shared_ptr<Mark> mark = event->latest();
  const bool done = !mark || mark->done.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  return done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}
CUresult cuEventSynchronize(CUevent event) {
  if (contexts().empty()) return CUDA_ERROR_INVALID_CONTEXT;
  if (const std::shared_ptr<Mark> mark = event->latest()) mark->done.wait();
  return CUDA_SUCCESS;
}
CUresult cuEventElapsedTime(float* milliseconds, CUevent from, CUevent to) {
  if (!from->timed || !to->timed) return CUDA_ERROR_INVALID_HANDLE;
  *milliseconds = std::chrono::duration<float, std::milli>(to->latest()->at - from->latest()->at).count();
  return CUDA_SUCCESS;
}

}  // extern "C"
