// torch's CUDA allocator while a budget holds a card: memory comes from the engine; memory made before us, memory of other
// cards and private pools (graphs, MemPool) come from the allocator that was there before, and what that one reserves on
// the card counts against the budget.
//
//   reserved told to torch == taken by the engine + reserved by the allocator before us
//
// Every block carries our deleter, which finds out whose it is, so that one deleter is "the allocator's own" for torch.
#pragma once

#include "device/cuda/cuda_device.h"
#include "torch/adapter.h"

namespace spillway {

// Takes effect for memory asked for afterwards. Once per process. `adaptive_workspace`: a convolution that cannot have its
// workspace may take another plan.
void install_cuda_allocator(Adapter& adapter, CudaDevice& card, bool adaptive_workspace);

// The calling thread's current stream on the card.
[[nodiscard]] StreamId current_cuda_stream(CudaDevice& card, c10::DeviceIndex index);

// The calling thread's work is being captured into a graph.
[[nodiscard]] bool is_capturing();

// Memory with our deleter that came from the allocator before us.
void free_native(void* data);

}  // namespace spillway
