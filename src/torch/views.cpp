#include "torch/views.h"

#include <ATen/ops/_reshape_alias_ops.h>
#include <ATen/ops/alias_ops.h>
#include <ATen/ops/as_strided_ops.h>
#include <ATen/ops/detach_ops.h>
#include <ATen/ops/expand_ops.h>
#include <ATen/ops/permute_ops.h>
#include <ATen/ops/select_ops.h>
#include <ATen/ops/slice_ops.h>
#include <ATen/ops/split_ops.h>
#include <ATen/ops/squeeze_ops.h>
#include <ATen/ops/t_ops.h>
#include <ATen/ops/transpose_ops.h>
#include <ATen/ops/unbind_ops.h>
#include <ATen/ops/unsqueeze_ops.h>
#include <ATen/ops/view_ops.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <memory>
#include <string_view>
#include <utility>

#include "torch/handler.h"
#include "torch/key.h"

namespace spillway {

namespace {

template <class View, class Schema = typename View::schema>
class ViewEntry;

template <class View, class Result, class... Others>
class ViewEntry<View, Result(const at::Tensor&, Others...)> final : public c10::OperatorKernel {
 public:
  explicit ViewEntry(const c10::OperatorHandle& op)
      : op_(op), traits_(traits_of(op)), closely_(c10::KernelFunction::makeFromBoxedFunctor(std::make_unique<OpEntry>(traits_))) {}

  Result operator()(c10::DispatchKeySet keys, const at::Tensor& base, Others... others) {
    if (!pass_view(traits_, base)) return closely_.template call<Result, const at::Tensor&, Others...>(op_, keys, base, std::forward<Others>(others)...);
    const c10::impl::ExcludeDispatchKeyGuard unit{c10::DispatchKeySet(kKey)};
    return View::redispatch(keys & kBelowKey, base, std::forward<Others>(others)...);
  }

 private:
  const c10::OperatorHandle op_;
  const OpTraits traits_;
  const c10::KernelFunction closely_;
};

template <class View>
bool add(const c10::OperatorHandle& op, std::optional<c10::KernelFunction>& kernel) {
  const c10::OperatorName& name = op.operator_name();
  if (name.name != View::name || name.overload_name != View::overload_name) return false;
  kernel = c10::KernelFunction::makeFromUnboxedFunctor<false, ViewEntry<View>>(std::make_unique<ViewEntry<View>>(op));
  return true;
}

template <class... Views>
std::optional<c10::KernelFunction> find_among(const c10::OperatorHandle& op) {
  std::optional<c10::KernelFunction> kernel;
  (void)(add<Views>(op, kernel) || ...);
  return kernel;
}

}  // namespace

std::optional<c10::KernelFunction> find_view_kernel(const c10::OperatorHandle& op) {
  using namespace at::_ops;
  return find_among<view, t, transpose_int, permute, expand, detach, alias, as_strided, slice_Tensor, select_int, unsqueeze, squeeze,
                    squeeze_dim, split_Tensor, unbind_int, _reshape_alias>(op);
}

}  // namespace spillway
