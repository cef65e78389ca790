#include "torch/lean.h"

#include <ATen/Context.h>
#include <ATen/RedispatchFunctions.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <array>
#include <atomic>

#include "torch/fused.h"

namespace spillway {

TwinResults run_max_pool_cuda(const TwinCall& call) __attribute__((weak));

namespace {

std::atomic<LeanMode> mode{LeanMode::proven};

at::Tensor with_shape(const at::Tensor& tensor, at::IntArrayRef sizes, at::IntArrayRef strides) {
  auto impl = c10::make_intrusive<c10::TensorImpl>(c10::Storage(tensor.storage()), tensor.key_set(), tensor.dtype());
  impl->set_storage_offset(tensor.storage_offset());
  impl->set_sizes_and_strides(sizes, strides);
  return at::Tensor(std::move(impl));
}

std::optional<at::Tensor> optional_tensor(const c10::IValue& value) {
  return value.isTensor() && value.toTensor().defined() ? std::optional(value.toTensor()) : std::nullopt;
}

const TensorFacts* first_argument(const TorchRecipe& recipe) {
  return !recipe.tensors.empty() && recipe.tensors[0].position == 0 ? &recipe.tensors[0].facts : nullptr;
}

// --- native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps) -----------------------
// In training its kernel for the result is the one of batch_norm_elemt, over the statistics it saved.

bool trains(const TorchRecipe& recipe) { return recipe.arguments[5].isBool() && recipe.arguments[5].toBool(); }

at::Tensor batch_norm(const LeanCall& call) {
  return at::redispatch::batch_norm_elemt(call.recipe.keys, call.arguments[0].toTensor(), optional_tensor(call.arguments[1]),
                                          optional_tensor(call.arguments[2]), call.sides[0], call.sides[1],
                                          call.arguments[7].toDouble());
}

// --- native_dropout(input, p, train) ----------------------------------------------------------------------------------

// At the ends of its range it is another function (a clone, zeros).
bool drops_some(const TorchRecipe& recipe) {
  const double p = recipe.arguments[1].toDouble();
  return p > 0 && p < 1 && (recipe.arguments[2].isNone() || recipe.arguments[2].toBool());
}

// The CPU's kernel multiplies by the scale in the tensor's own precision.
at::Tensor dropout_cpu(const LeanCall& call) {
  const at::Tensor& input = call.arguments[0].toTensor();
  const double scale = 1.0 / (1.0 - call.arguments[1].toDouble());
  const auto rounded = [&]() -> double {
    switch (input.scalar_type()) {
      case at::kFloat: return static_cast<float>(scale);
      case at::kBFloat16: return static_cast<float>(c10::BFloat16(static_cast<float>(scale)));
      case at::kHalf: return static_cast<float>(c10::Half(static_cast<float>(scale)));
      default: return scale;
    }
  };
  at::Tensor made = at::redispatch::mul(call.recipe.keys, input, call.sides[0]);
  at::redispatch::mul_(call.recipe.keys, made, at::Scalar(rounded()));
  return made;
}

// The card's backward multiplies by mask and scale as the forward did.
at::Tensor dropout_cuda(const LeanCall& call) {
  const at::Tensor& input = call.arguments[0].toTensor();
  const double scale = input.scalar_type() == at::kDouble ? 1.0 / (1.0 - call.arguments[1].toDouble()) : dropout_scale(call.recipe);
  return at::redispatch::native_dropout_backward(call.recipe.keys, input, call.sides[0], scale);
}

// --- native_layer_norm(input, normalized_shape, weight, bias, eps) ----------------------------------------------------
// By a kernel of our own: torch has none that takes the statistics.

// Without weight or bias torch's two kernels round differently from each other.
bool is_whole_and_affine(const TorchRecipe& recipe) {
  if (!has_fused_kernels() || recipe.tensors.size() != 3 || recipe.tensors[1].position != 2 || recipe.tensors[2].position != 3) return false;
  const caffe2::TypeMeta dtype = recipe.results[0].dtype;
  return is_known(dtype) && std::ranges::all_of(recipe.tensors, [&](const TensorSlot& slot) { return slot.facts.dtype == dtype && is_contiguous(slot.facts); });
}

at::Tensor layer_norm(const LeanCall& call) {
  const FusedChain chain{.maker = &call.recipe};
  return run_fused({.chain = chain, .x = call.arguments[0].toTensor(), .weight = call.arguments[2].toTensor(),
                    .bias = call.arguments[3].toTensor(), .sides = {call.sides[0], call.sides[1]}, .z = {}});
}

// --- max_pool2d_with_indices(input, ...) ------------------------------------------------------------------------------
// The indices count over one plane of the input.

// In bfloat16 a NaN comes out of the kernel as another NaN.
bool lies_alike_and_keeps_nans(const TorchRecipe& recipe) {
  const TensorFacts* input = first_argument(recipe);
  if (input == nullptr || order_of(*input) == Order::other) return false;
  const bool keeps_nans = input->dtype == caffe2::TypeMeta::Make<float>() || input->dtype == caffe2::TypeMeta::Make<double>();
  const auto lies_alike = [&](const TensorFacts& facts) { return order_of(facts) == order_of(*input); };
  return keeps_nans && std::ranges::all_of(recipe.results, lies_alike);
}

at::Tensor max_pool(const LeanCall& call) {
  const TensorFacts& made = call.recipe.results[0];
  const bool planes = order_of(made) == Order::planes;
  const auto flat = [&](const at::Tensor& tensor) {
    const std::int64_t last = tensor.dim() - 1, plane = tensor.size(last) * tensor.size(last - 1), channels = tensor.size(last - 2);
    const std::int64_t batch = tensor.dim() == 4 ? tensor.size(0) : 1, all = channels * plane;
    return planes ? with_shape(tensor, {batch * channels, plane}, {plane, 1}) : with_shape(tensor, {batch, plane, channels}, {all, channels, 1});
  };
  const at::Tensor found = at::redispatch::gather(call.recipe.keys, flat(call.arguments[0].toTensor()), 1, flat(call.sides[0]));
  return with_shape(found, made.sizes, made.strides);
}

// On a card max pooling by its indices has other bits than the op in some channels-last shapes: no rule, but a twin.
constexpr std::array kRules = {
    LeanRule{"aten::native_batch_norm", c10::kCUDA, /*proven=*/true, /*sides=*/2, 40, trains, batch_norm, Fuses::changes},
    LeanRule{"aten::native_dropout", c10::kCUDA, /*proven=*/true, /*sides=*/1, 70, drops_some, dropout_cuda, Fuses::sums},
    LeanRule{"aten::native_layer_norm", c10::kCUDA, /*proven=*/true, /*sides=*/2, 70, is_whole_and_affine, layer_norm, Fuses::casts},
    LeanRule{"aten::native_dropout", c10::kCPU, /*proven=*/true, /*sides=*/1, 40, drops_some, dropout_cpu},
    LeanRule{"aten::max_pool2d_with_indices", c10::kCPU, /*proven=*/true, /*sides=*/1, 50, lies_alike_and_keeps_nans, max_pool},
};

// --- twins ------------------------------------------------------------------------------------------------------------

// What 32 bits can index. A pooling whose windows have gaps is another function on a card.
bool pools_channels_last(const TorchRecipe& recipe) {
  const TensorFacts* input = first_argument(recipe);
  if (run_max_pool_cuda == nullptr || input == nullptr || !is_known(input->dtype) || recipe.tensors.size() != 1 || !is_small(*input)) return false;
  const auto lies_well = [](const TensorFacts& facts) { return order_of(facts) == Order::channels_last; };
  const auto spread = recipe.arguments[4].toIntVector();
  return lies_well(*input) && std::ranges::all_of(recipe.results, lies_well) && recipe.results[0].dtype == input->dtype &&
         std::ranges::all_of(spread, [](std::int64_t by) { return by == 1; });
}

TwinResults max_pool_again(const TwinCall& call) { return run_max_pool_cuda(call); }

constexpr std::array kTwins = {
    TwinRule{"aten::max_pool2d_with_indices", c10::kCUDA, /*proven=*/true, /*results=*/2, pools_channels_last, max_pool_again},
};

// Of this operator on this device, and trusted.
template <class Rule, std::size_t kCount>
const Rule* find_rule(const std::array<Rule, kCount>& rules, const TorchRecipe& recipe, c10::DeviceType where) {
  const LeanMode now = mode.load(std::memory_order_relaxed);
  const std::string_view name = recipe.op.schema().name();
  const auto found = std::ranges::find_if(rules, [&](const Rule& rule) { return rule.op == name && rule.where == where; });
  return found != rules.end() && (now == LeanMode::all || (now == LeanMode::proven && found->proven)) ? &*found : nullptr;
}

bool lies_as_before(const at::Tensor& made, const TensorFacts& before) {
  return made.sizes() == at::IntArrayRef(before.sizes) && made.strides() == at::IntArrayRef(before.strides) &&
         made.storage_offset() == before.offset && made.dtype() == before.dtype;
}

}  // namespace

// In single precision, as torch's kernel computes it.
double dropout_scale(const TorchRecipe& dropout) { return 1.0 / static_cast<double>(static_cast<float>(1.0 - dropout.arguments[1].toDouble())); }

Order order_of(const TensorFacts& facts) {
  if (facts.sizes.size() < 3 || facts.sizes.size() > 4) return Order::other;
  const auto has_strides = [&](std::initializer_list<std::size_t> inner_first) {
    std::int64_t stride = 1;
    for (const std::size_t back : inner_first) {
      if (back > facts.sizes.size()) continue;
      const std::size_t at = facts.sizes.size() - back;
      if (facts.sizes[at] == 0 || facts.strides[at] != stride) return false;
      stride *= facts.sizes[at];
    }
    return true;
  };
  if (has_strides({1, 2, 3, 4})) return Order::planes;
  return facts.sizes.size() == 4 && has_strides({3, 1, 2, 4}) ? Order::channels_last : Order::other;
}

void set_lean_mode(LeanMode wanted) { mode.store(wanted, std::memory_order_relaxed); }

bool has_lean_rule(std::string_view op) {
  return std::ranges::find(kRules, op, &LeanRule::op) != kRules.end() || std::ranges::find(kTwins, op, &TwinRule::op) != kTwins.end();
}

const LeanRule* find_lean_rule(const TorchRecipe& recipe, c10::DeviceType where) {
  const LeanRule* rule = find_rule(kRules, recipe, where);
  return rule != nullptr && recipe.results.size() == rule->sides + 1u && rule->applies(recipe) ? rule : nullptr;
}

const TwinRule* find_twin_rule(const TorchRecipe& recipe, c10::DeviceType where) {
  const TwinRule* rule = find_rule(kTwins, recipe, where);
  return rule != nullptr && recipe.results.size() == rule->results && rule->applies(recipe) ? rule : nullptr;
}

// Past autocast as well as past us: the argument's dtypes are what they were.
at::Tensor run_lean(const LeanCall& call) {
  const c10::impl::ExcludeDispatchKeyGuard as_they_are{c10::autocast_dispatch_keyset};
  at::Tensor made = call.recipe.lean->run(call);
  return made.defined() && lies_as_before(made, call.recipe.results[0]) ? made : at::Tensor();
}

}  // namespace spillway
