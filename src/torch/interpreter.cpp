#include "torch/interpreter.h"

#include <dlfcn.h>

namespace spillway {

namespace {

template <class Function>
Function* find(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

struct Interpreter {
  int (*has_lock)() = find<int()>("PyGILState_Check");
  int (*is_running)() = find<int()>("Py_IsInitialized");
  void* (*save)() = find<void*()>("PyEval_SaveThread");
  void (*restore)(void*) = find<void(void*)>("PyEval_RestoreThread");
};

const Interpreter& interpreter() {
  static const Interpreter found;
  return found;
}

}  // namespace

void* let_go_of_interpreter() {
  const Interpreter& python = interpreter();
  if (python.has_lock == nullptr || python.save == nullptr || python.restore == nullptr) return nullptr;
  if (python.is_running == nullptr || python.is_running() == 0 || python.has_lock() == 0) return nullptr;
  return python.save();
}

void take_interpreter(void* state) {
  if (state != nullptr) interpreter().restore(state);
}

}  // namespace spillway
