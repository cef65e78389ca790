// The driver's functions, found at run time, and the one place where their failures become errors of ours.
//
// libcuda.so.1 comes with the driver, not with the toolkit: a library that links it cannot even be loaded on a machine
// without a card. So it is opened here on first use and everything goes through it; the runtime API is not used at all,
// which also leaves the "last error" that torch checks after its own calls alone. Handles are the same in both APIs.
//
//   SPILLWAY_CU(cuMemMap, address, size, 0, handle, 0);   // throws DeviceError naming the call and the driver's reason
//
// A context is current per thread: every function that reaches the driver opens a CudaScope first.
#pragma once

#include <cuda.h>

#include <string>

// The names are the header's own macros, which expand to the versions the header declares (cuMemGetInfo_v2).
#define SPILLWAY_DRIVER_FUNCTIONS(DO)                                                                         \
  DO(cuInit) DO(cuGetErrorName) DO(cuGetErrorString) DO(cuDeviceGetCount) DO(cuDeviceGet) DO(cuDeviceGetName) \
  DO(cuDevicePrimaryCtxRetain) DO(cuDevicePrimaryCtxRelease)                                                  \
  DO(cuCtxGetCurrent) DO(cuCtxPushCurrent) DO(cuCtxPopCurrent) DO(cuCtxSynchronize)                           \
  DO(cuMemGetInfo) DO(cuMemGetAllocationGranularity) DO(cuMemAddressReserve) DO(cuMemAddressFree)             \
  DO(cuMemCreate) DO(cuMemRelease) DO(cuMemMap) DO(cuMemUnmap) DO(cuMemSetAccess) DO(cuMemRetainAllocationHandle) \
  DO(cuMemHostRegister) DO(cuMemHostUnregister) DO(cuMemHostAlloc) DO(cuMemFreeHost)                          \
  DO(cuMemcpyHtoDAsync) DO(cuMemcpyDtoHAsync) DO(cuMemcpyDtoDAsync) DO(cuMemsetD8Async) DO(cuLaunchHostFunc)  \
  DO(cuStreamCreate) DO(cuStreamDestroy) DO(cuStreamWaitEvent)                                                \
  DO(cuEventCreate) DO(cuEventDestroy) DO(cuEventRecord) DO(cuEventQuery) DO(cuEventSynchronize) DO(cuEventElapsedTime)

namespace spillway {

struct CudaDriver {
#define SPILLWAY_DRIVER_MEMBER(function) decltype(&::function) function = nullptr;
  SPILLWAY_DRIVER_FUNCTIONS(SPILLWAY_DRIVER_MEMBER)
#undef SPILLWAY_DRIVER_MEMBER
};

// Opened once and kept. Throws InputError where there is no usable driver, with the reason.
[[nodiscard]] const CudaDriver& cuda_driver();

// The driver's own words: "out of memory (CUDA_ERROR_OUT_OF_MEMORY)".
[[nodiscard]] std::string describe_cuda(CUresult result);

[[noreturn]] void fail_cuda(const char* call, CUresult result);
inline void check_cuda(const char* call, CUresult result) {
  if (result != CUDA_SUCCESS) [[unlikely]] fail_cuda(call, result);
}

// Makes a context current for a scope, and puts back what was current before without touching any other card.
class CudaScope {
 public:
  explicit CudaScope(CUcontext context) : calls_(cuda_driver()) {
    CUcontext current = nullptr;
    check_cuda("cuCtxGetCurrent", calls_.cuCtxGetCurrent(&current));
    if (current == context) return;
    check_cuda("cuCtxPushCurrent", calls_.cuCtxPushCurrent(context));
    pushed_ = true;
  }
  ~CudaScope() {
    CUcontext popped = nullptr;
    if (pushed_) calls_.cuCtxPopCurrent(&popped);
  }
  CudaScope(const CudaScope&) = delete;
  CudaScope& operator=(const CudaScope&) = delete;

 private:
  const CudaDriver& calls_;
  bool pushed_ = false;
};

}  // namespace spillway

#define SPILLWAY_CU(function, ...) ::spillway::check_cuda(#function, ::spillway::cuda_driver().function(__VA_ARGS__))
