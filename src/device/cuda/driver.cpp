#include "device/cuda/driver.h"

#include <dlfcn.h>

#include "base/error.h"

namespace spillway {
namespace {

#define SPILLWAY_TEXT_OF(name) #name
#define SPILLWAY_SYMBOL(name) SPILLWAY_TEXT_OF(name)  // one more level, so that the header's macros expand first

struct Loading {
  CudaDriver calls;
  std::string problem;  // empty: usable

  Loading() {
    // Never closed: streams and events may outlive every device of ours.
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      problem = "no NVIDIA driver: libcuda.so.1 cannot be loaded";
      return;
    }
    find_functions(library);
    if (problem.empty()) start();
  }

  void find_functions(void* library) {
#define SPILLWAY_DRIVER_FIND(function) \
  find(library, SPILLWAY_SYMBOL(function), reinterpret_cast<void**>(&calls.function));
    SPILLWAY_DRIVER_FUNCTIONS(SPILLWAY_DRIVER_FIND)
#undef SPILLWAY_DRIVER_FIND
  }

  void find(void* library, const char* symbol, void** into) {
    *into = dlsym(library, symbol);
    if (*into == nullptr && problem.empty())
      problem = std::string("the NVIDIA driver is too old: it has no ") + symbol + "; CUDA 12.8 or newer has it";
  }

  void start() {
    const CUresult result = calls.cuInit(0);
    if (result == CUDA_SUCCESS) return;
    const char* text = nullptr;
    calls.cuGetErrorString(result, &text);
    problem = std::string("the NVIDIA driver does not start: ") + (text != nullptr ? text : "unknown reason");
  }
};

const Loading& loading() {
  static const Loading once;
  return once;
}

}  // namespace

const CudaDriver& cuda_driver() {
  const Loading& loaded = loading();
  if (!loaded.problem.empty()) [[unlikely]] throw InputError(loaded.problem);
  return loaded.calls;
}

std::string describe_cuda(CUresult result) {
  const char* text = nullptr;
  const char* name = nullptr;
  cuda_driver().cuGetErrorString(result, &text);
  cuda_driver().cuGetErrorName(result, &name);
  return std::string(text != nullptr ? text : "unknown error") + " (" +
         (name != nullptr ? name : std::to_string(static_cast<int>(result)).c_str()) + ")";
}

void fail_cuda(const char* call, CUresult result) { throw DeviceError(std::string(call) + ": " + describe_cuda(result)); }

}  // namespace spillway
