// Python's own lock, reached without its headers: a C++ program with torch has no interpreter.
#pragma once

namespace spillway {

// Whoever waits for other threads must not keep them from getting on. Null: the calling thread does not have the lock.
[[nodiscard]] void* let_go_of_interpreter();
// The other way; `state` is what that returned.
void take_interpreter(void* state);

}  // namespace spillway
