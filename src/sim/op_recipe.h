// How a simulated storage is made again: the op of the score, and how large its results were.
#pragma once

#include <vector>

#include "engine/recipe.h"
#include "sim/score.h"

namespace spillway {

struct OpRecipe final : Recipe {
  explicit OpRecipe(const ScoreOp& of) : op(of) {}

  const ScoreOp& op;
  std::vector<Bytes> sizes;  // as `outputs`; they stay when a record there is gone
};

}  // namespace spillway
