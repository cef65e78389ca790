// Note [One draws at a time]
// A replay sets the generator back to where it was when the op first ran, runs it, and sets it to where it is now. Nobody
// else may draw from it meanwhile, nor between telling its state for a recipe and drawing. So every op that draws, at first or
// again, has a turn of its own. Whoever waits for one lets the engine know: memory it pins will not be let go of before.
#pragma once

#include "engine/engine.h"

namespace spillway {

// A turn. Not with the engine's lock held.
class Draw {
 public:
  explicit Draw(Engine& engine);
  ~Draw();
  Draw(const Draw&) = delete;
  Draw& operator=(const Draw&) = delete;
};

// In a forked child: whoever had the turn is not there.
void forget_draws();

}  // namespace spillway
