// What an operator costs on a card, from its shapes alone: good enough to choose between moving its result and running it
// again, where measuring would need an event before and after every operator.
//
//   time = launch + max(bytes read and written / memory rate, floating-point operations / arithmetic rate)
#pragma once

#include "torch/torch_recipe.h"

namespace spillway {

[[nodiscard]] Nanos estimate_cuda_time(const TorchRecipe& recipe, Bytes made);

}  // namespace spillway
