#include "torch/registration.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/Logging.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "torch/handler.h"
#include "torch/key.h"
#include "torch/views.h"

namespace spillway {

namespace {

using c10::DispatchKey;
using std::string_view;

// Note [Composites that read memory themselves]
// Their composite kernel calls ops and then reads a pointer of an argument or a temporary. Each becomes one unit. Found
// by running torch's operator database with inputs evicted before every op.
constexpr std::array kRawReaders = {
    string_view("aten::tensor_split.tensor_indices_or_sections"), string_view("aten::ctc_loss.Tensor"),
    string_view("aten::max_pool1d"), string_view("aten::_pad_packed_sequence"), string_view("aten::_pack_padded_sequence_backward"),
    string_view("aten::_sobol_engine_draw"), string_view("aten::_sobol_engine_ff_"), string_view("aten::_sobol_engine_scramble_"), string_view("aten::_sobol_engine_initialize_state_"),
    string_view("aten::choose_qparams_optimized"), string_view("aten::_saturate_weight_to_fp16"),
    string_view("aten::_rowwise_prune"), string_view("aten::fbgemm_linear_int8_weight_fp32_activation"),
    string_view("aten::fbgemm_linear_int8_weight"), string_view("aten::fbgemm_linear_quantize_weight"),
    string_view("aten::fbgemm_pack_gemm_matrix_fp16"), string_view("aten::fbgemm_linear_fp16_weight_fp32_activation"),
    string_view("aten::fbgemm_linear_fp16_weight"), string_view("aten::fbgemm_pack_quantized_matrix"),
    string_view("aten::sparse_coo_tensor.indices"), string_view("aten::sparse_coo_tensor.indices_size"),
    string_view("aten::_sparse_coo_tensor_unsafe"), string_view("aten::_validate_sparse_coo_tensor_args"),
    string_view("aten::_validate_sparse_csr_tensor_args"), string_view("aten::_validate_sparse_csc_tensor_args"),
    string_view("aten::_validate_sparse_bsr_tensor_args"), string_view("aten::_validate_sparse_bsc_tensor_args"),
    string_view("aten::_validate_sparse_compressed_tensor_args"),
};

// Of these only the batch sizes are read so, all through the call: a packed sequence as one unit would need the memory of
// all its time steps at once.
constexpr std::array kBatchSizeReaders = {
    string_view("aten::rnn_tanh.data"), string_view("aten::rnn_relu.data"), string_view("aten::lstm.data"), string_view("aten::gru.data"),
};

// Note [Kernels on keys above ours]
// They run before our key is reached, call inner ops (after which we may evict) and then read pointers.
constexpr std::array kKeysAbove = {
    DispatchKey::SparseCPU,  DispatchKey::SparseCsrCPU,  DispatchKey::NestedTensorCPU,  DispatchKey::MkldnnCPU,  DispatchKey::QuantizedCPU,
    DispatchKey::SparseCUDA, DispatchKey::SparseCsrCUDA, DispatchKey::NestedTensorCUDA, DispatchKey::QuantizedCUDA,
};

// Registrations live as long as the process: the library is never unloaded.
struct Registry {
  std::mutex mutex;
  std::vector<c10::RegistrationHandleRAII> handles;
  std::unordered_set<std::string> done;
};

Registry& registry() {
  static auto* the_registry = new Registry;
  return *the_registry;
}

std::string full_name(const c10::OperatorName& name) {
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

void put(const c10::OperatorHandle& op, DispatchKey key, c10::KernelFunction kernel) {
  registry().handles.push_back(c10::Dispatcher::singleton().registerImpl(op.operator_name(), key, std::move(kernel), std::nullopt,
                                                                         nullptr, "spillway"));
}

// A composite key is an alias without a table entry of its own; Undefined resolves to the composite kernel.
void put_unit(const c10::OperatorHandle& op, DispatchKey key) {
  auto kernel = op.getComputedKernelForDispatchKey(c10::isAliasDispatchKey(key) ? DispatchKey::Undefined : key);
  put(op, key, c10::KernelFunction::makeFromBoxedFunctor(std::make_unique<UnitEntry>(traits_of(op), std::move(kernel))));
}

void put_pin(const c10::OperatorHandle& op, string_view argument) {
  const auto& all = op.schema().arguments();
  const auto at = std::ranges::find(all, argument, &c10::Argument::name);
  auto kernel = op.getComputedKernelForDispatchKey(DispatchKey::Undefined);
  put(op, DispatchKey::CompositeImplicitAutograd,
      c10::KernelFunction::makeFromBoxedFunctor(std::make_unique<PinEntry>(static_cast<std::size_t>(all.end() - at), std::move(kernel))));
}

// Passes a call on to a kernel fetched before the table changed.
class Forward final : public c10::OperatorKernel {
 public:
  explicit Forward(c10::SafeKernelFunction kernel) : kernel_(std::move(kernel)) {}
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) { kernel_.callBoxed(op, keys, stack); }

 private:
  c10::SafeKernelFunction kernel_;
};

// An operator with both a composite and a backend kernel would run decomposed under our key. With an entry of our own
// there AutogradOther becomes ambiguous: it keeps the kernel it had.
void put_entry(const c10::OperatorHandle& op, bool composite_implicit) {
  if (composite_implicit && op.hasComputedKernelForDispatchKey(DispatchKey::AutogradOther)) {
    auto other = op.getComputedKernelForDispatchKey(DispatchKey::AutogradOther);
    put(op, DispatchKey::AutogradOther, c10::KernelFunction::makeFromBoxedFunctor(std::make_unique<Forward>(std::move(other))));
  }
  auto view = find_view_kernel(op);
  put(op, kKey, view ? std::move(*view) : c10::KernelFunction::makeFromBoxedFunctor(std::make_unique<OpEntry>(traits_of(op))));
}

void register_op(const c10::OperatorHandle& op) {
  if (op.hasKernelForDispatchKey(kKey)) return;
  const bool implicit = op.hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd);
  const bool backend = op.hasKernelForDispatchKey(DispatchKey::CPU) || op.hasKernelForDispatchKey(DispatchKey::CUDA);
  const bool explicit_one = op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd) ||
                            op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutogradNonFunctional);
  const std::string name = full_name(op.operator_name());
  if (std::find(kRawReaders.begin(), kRawReaders.end(), name) != kRawReaders.end()) {
    if (implicit) put_unit(op, DispatchKey::CompositeImplicitAutograd);
    else if (op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd)) put_unit(op, DispatchKey::CompositeExplicitAutograd);
  }
  if (std::find(kBatchSizeReaders.begin(), kBatchSizeReaders.end(), name) != kBatchSizeReaders.end()) put_pin(op, "batch_sizes");
  for (const DispatchKey key : kKeysAbove) {
    if (op.hasKernelForDispatchKey(key) && !op.isKernelFallthroughKernel(key)) put_unit(op, key);
  }
  if (backend || (explicit_one && !implicit)) put_entry(op, implicit);
}

// torch prints a warning for every kernel that is replaced; here replacing is the point.
class Hush {
 public:
  Hush() : before_(FLAGS_caffe2_log_level) { FLAGS_caffe2_log_level = 3; }
  ~Hush() { FLAGS_caffe2_log_level = before_; }

 private:
  int before_;
};

void register_new() {
  Registry& all = registry();
  const std::scoped_lock lock(all.mutex);
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findSchema(name);
    if (!op || !all.done.insert(full_name(name)).second) continue;
    register_op(*op);
  }
}

}  // namespace

void register_handlers() {
  const Hush hush;
  {
    Registry& all = registry();
    const std::scoped_lock lock(all.mutex);
    all.handles.push_back(c10::Dispatcher::singleton().registerFallback(kKey, c10::KernelFunction::makeFromBoxedFunction<&handle_any>(), "spillway"));
  }
  register_new();
}

void register_late() { register_new(); }

}  // namespace spillway
