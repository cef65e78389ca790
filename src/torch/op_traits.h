// What is known of an operator from its schema and our tables, worked out once when it gets its entry.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <vector>

namespace spillway {

struct TensorArgument {
  std::uint16_t position = 0;
  bool write = false;
  bool hidden_write = false;  // written without the schema saying so; a replay passes None instead
};

// How a recipe may use the operator.
enum class Replay : std::uint8_t {
  never,     // moves instead
  fresh,     // makes new storages from its arguments
  in_place,  // writes its first tensor argument and nothing else
};

// Which rule tells its floating-point operations from the shapes of its arguments; see roofline.cpp.
enum class Arithmetic : std::uint8_t { little, product, added_product, convolution, convolution_backward, attention, attention_backward };

struct OpTraits {
  std::uint64_t key = 0;  // of its name: the same in every process
  std::uint16_t arguments = 0, results = 0;
  std::vector<TensorArgument> tensors;  // positions whose value may hold tensors or storages
  std::int16_t training = -1;  // position of the flag that turns hidden writes on; -1: they always happen
  Replay replay = Replay::never;
  Arithmetic arithmetic = Arithmetic::little;
  const char* why_not = "";  // where it is never replayed: the reason, for people
  bool random = false;      // draws from a generator
  bool splits = false;      // works through lists element by element: may run in pieces
  bool view = false;        // of plain tensors: looks at their storage another way and reads none of it
  bool lean = false;        // lean.h has a rule for it
  bool straight = false;    // it may be made again in one pass with what made an argument; see fused.h
  bool collective = false;  // writes its tensors behind the schema's back and may finish later
  bool keeps_arguments = false;  // returns an object that may keep its arguments inside
};

[[nodiscard]] OpTraits traits_of(const c10::OperatorHandle& op);

// Whether this call writes behind its schema's back. `arguments`: all of them, in order.
[[nodiscard]] bool writes_hidden(const OpTraits& traits, c10::ArrayRef<c10::IValue> arguments);

}  // namespace spillway
