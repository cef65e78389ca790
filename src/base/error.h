// Errors by who can act on them.
//
// InputError: the user (bad file, flag, budget); its text names the thing and what is accepted. DeviceError: a device
// call failed and nobody here can mend it. InvariantError: a programming error, thrown by SPILLWAY_ENSURE, which is
// always on. What the next line of our own code can handle is a value, never an exception.
#pragma once

#include <stdexcept>
#include <string>

namespace spillway {

class InputError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class DeviceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class InvariantError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

[[noreturn]] void fail_invariant(const char* file, int line, const char* condition, const char* meaning);

}  // namespace spillway

#define SPILLWAY_ENSURE(condition, meaning)                                             \
  do {                                                                                  \
    if (!(condition)) [[unlikely]]                                                      \
      ::spillway::fail_invariant(__FILE__, __LINE__, #condition, meaning);              \
  } while (false)
