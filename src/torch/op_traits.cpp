#include "torch/op_traits.h"

#include <ATen/core/enum_tag.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "torch/lean.h"

namespace spillway {

namespace {

using std::string_view;

// Note [Hidden writes]
// These write their running statistics in training without an alias annotation: positions of running_mean, running_var.
// Checked over torch's operator database: no other operator on the CPU does; the twins of other backends by name.
constexpr std::array kHiddenWrites = {
    string_view("aten::native_batch_norm"), string_view("aten::cudnn_batch_norm"), string_view("aten::miopen_batch_norm"),
    string_view("aten::batch_norm_gather_stats"), string_view("aten::batch_norm_gather_stats_with_counts"),
    string_view("aten::batch_norm_update_stats"),
};

// Note [Never replayed]
// Uninitialised results; atomics whose order is not fixed; operators with state of their own. Everything else that makes
// fresh storages from plain arguments was bit-equal on replay over torch's operator database.
constexpr std::array kNeverReplayed = {
    string_view("aten::empty_like"), string_view("aten::new_empty"), string_view("aten::new_empty_strided"),
    string_view("aten::empty_permuted"), string_view("aten::empty_strided"), string_view("aten::empty"),
    string_view("aten::_cudnn_rnn"), string_view("aten::_cudnn_init_dropout_state"), string_view("aten::_lazy_clone"),
    string_view("aten::batch_norm_gather_stats"), string_view("aten::batch_norm_gather_stats_with_counts"),
    string_view("aten::batch_norm_update_stats"), string_view("aten::_local_scalar_dense"),
    string_view("aten::record_stream"), string_view("aten::_pin_memory"), string_view("aten::is_pinned"),
};

// Those that reach us: others are made of these. (Those of sparse and nested tensors read indices.)
constexpr std::array kViews = {
    string_view("aten::_conj"), string_view("aten::_neg_view"), string_view("aten::_reshape_alias"), string_view("aten::alias"),
    string_view("aten::as_strided"), string_view("aten::detach"), string_view("aten::diagonal"), string_view("aten::expand"),
    string_view("aten::permute"), string_view("aten::select"), string_view("aten::slice"), string_view("aten::split"),
    string_view("aten::split_with_sizes"), string_view("aten::squeeze"), string_view("aten::t"), string_view("aten::transpose"),
    string_view("aten::unbind"), string_view("aten::unfold"), string_view("aten::unsqueeze"), string_view("aten::view"),
    string_view("aten::view_as_complex"), string_view("aten::view_as_real"),
};

bool contains(const auto& names, string_view name) { return std::find(names.begin(), names.end(), name) != names.end(); }

bool may_hold_tensors(const c10::TypePtr& type) {
  switch (type->kind()) {
    case c10::TypeKind::TensorType:
    case c10::TypeKind::StorageType:
    case c10::TypeKind::AnyType:
      return true;
    case c10::TypeKind::ClassType:
      return false;
    default:
      return std::ranges::any_of(type->containedTypes(), may_hold_tensors);
  }
}

bool holds_kind(const c10::TypePtr& type, c10::TypeKind kind) {
  return type->kind() == kind || std::ranges::any_of(type->containedTypes(), [&](const auto& inner) { return holds_kind(inner, kind); });
}

bool is_plain_tensor(const c10::TypePtr& type) {
  if (type->kind() == c10::TypeKind::TensorType) return true;
  return type->kind() == c10::TypeKind::OptionalType && type->containedTypes()[0]->kind() == c10::TypeKind::TensorType;
}

bool writes(const c10::Argument& argument) { return argument.alias_info() != nullptr && argument.alias_info()->isWrite(); }

bool in_namespace(string_view name, string_view prefix) { return name.substr(0, prefix.size()) == prefix; }

// The reason why an operator is never replayed; empty: it may be.
const char* why_not_replayed(const c10::OperatorHandle& op, string_view name) {
  const c10::FunctionSchema& schema = op.schema();
  if (!in_namespace(name, "aten::")) return "it is not torch's own: whether it is a function of its arguments is not known";
  if (contains(kNeverReplayed, name)) return "it leaves memory as it is, or has state of its own";
  if (schema.returns().empty()) return "it returns nothing";
  for (const c10::Argument& argument : schema.arguments()) {
    if (holds_kind(argument.type(), c10::TypeKind::StorageType) || holds_kind(argument.type(), c10::TypeKind::AnyType) ||
        holds_kind(argument.type(), c10::TypeKind::ClassType)) {
      return "an argument is an object with a life of its own";
    }
  }
  const auto written = std::ranges::count_if(schema.arguments(), writes);
  const bool first = written > 0 && writes(schema.arguments()[0]) && is_plain_tensor(schema.arguments()[0].type());
  if (written == 0 || (written == 1 && first && schema.returns().size() == 1)) return "";
  return "it writes more than its first argument";
}

bool runs_in_pieces(string_view name) {
  return in_namespace(name, "aten::_foreach_") || in_namespace(name, "aten::_fused_adam") || in_namespace(name, "aten::_fused_sgd") ||
         in_namespace(name, "aten::_fused_adagrad") || name == "aten::_amp_foreach_non_finite_check_and_unscale_";
}

Arithmetic arithmetic_of(string_view name) {
  if (name == "aten::mm" || name == "aten::bmm") return Arithmetic::product;
  if (name == "aten::addmm" || name == "aten::baddbmm" || name == "aten::_addmm_activation") return Arithmetic::added_product;
  if (name == "aten::convolution" || name == "aten::cudnn_convolution") return Arithmetic::convolution;
  if (name == "aten::convolution_backward") return Arithmetic::convolution_backward;
  if (name.find("attention") == string_view::npos) return Arithmetic::little;
  return name.find("backward") == string_view::npos ? Arithmetic::attention : Arithmetic::attention_backward;
}

// FNV-1a: recorded steps are kept from run to run, so neither an address nor a library's own hash will do.
std::uint64_t key_of(string_view name, string_view overload) {
  std::uint64_t key = 0xCBF29CE484222325ull;
  for (const string_view part : {name, string_view("."), overload}) {
    for (const char letter : part) key = (key ^ static_cast<unsigned char>(letter)) * 0x100000001B3ull;
  }
  return key;
}

}  // namespace

OpTraits traits_of(const c10::OperatorHandle& op) {
  const c10::FunctionSchema& schema = op.schema();
  const string_view name = schema.name();
  OpTraits traits;
  traits.key = key_of(name, schema.overload_name());
  traits.arguments = static_cast<std::uint16_t>(schema.arguments().size());
  traits.results = static_cast<std::uint16_t>(schema.returns().size());
  traits.collective = in_namespace(name, "c10d::") || in_namespace(name, "_c10d_functional::");
  const bool hidden = contains(kHiddenWrites, name);
  for (std::uint16_t at = 0; at < traits.arguments; ++at) {
    const c10::Argument& argument = schema.arguments()[at];
    if (hidden && argument.name() == "training") traits.training = static_cast<std::int16_t>(at);
    if (!may_hold_tensors(argument.type())) continue;
    const bool statistics = hidden && (argument.name() == "running_mean" || argument.name() == "running_var");
    traits.tensors.push_back({at, writes(argument) || statistics || traits.collective, statistics});
  }
  traits.keeps_arguments = std::ranges::any_of(schema.returns(), [](const auto& result) {
    return holds_kind(result.type(), c10::TypeKind::ClassType);
  });
  traits.why_not = traits.keeps_arguments ? "it returns an object that may keep its arguments" : why_not_replayed(op, name);
  const bool writes_any = std::ranges::any_of(schema.arguments(), writes);
  if (*traits.why_not == '\0') traits.replay = writes_any ? Replay::in_place : Replay::fresh;
  traits.arithmetic = arithmetic_of(name);
  traits.random = op.hasTag(at::Tag::nondeterministic_seeded);
  traits.splits = runs_in_pieces(name);
  traits.view = contains(kViews, name);
  traits.lean = traits.replay == Replay::fresh && has_lean_rule(name);
  traits.straight = traits.replay == Replay::fresh && (name == "aten::_to_copy" || (name == "aten::add" && op.schema().overload_name() == "Tensor"));
  return traits;
}

bool writes_hidden(const OpTraits& traits, c10::ArrayRef<c10::IValue> arguments) {
  if (traits.training < 0) return true;
  const c10::IValue& flag = arguments[static_cast<std::size_t>(traits.training)];
  return !flag.isBool() || flag.toBool();
}

}  // namespace spillway
