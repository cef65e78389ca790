# The torch that a Python would import, found without importing it and without torch's own CMake files (which would
# bring flags and a CUDA search of their own).
#
# Sets TorchWheel_FOUND, _VERSION, _ROOT, _LIBRARY_DIR, _PYTHON, and _WHY_NOT when not found. Targets: TorchWheel::cpu
# (c10, torch_cpu, torch) and, where the wheel has CUDA, TorchWheel::cuda (c10_cuda, torch_cuda).

set(TorchWheel_SUPPORTED 2.11)
set(TorchWheel_FOUND OFF)

# The Python: the one named, else the project's own, else the active environment's, else the first on the path.
# Python_EXECUTABLE is how a Python build front end names the Python it builds for.
set(TorchWheel_PYTHON "")
foreach(candidate IN ITEMS "${SPILLWAY_PYTHON}" "${Python_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/.venv/bin/python"
                           "$ENV{VIRTUAL_ENV}/bin/python")
  if(candidate AND EXISTS "${candidate}" AND NOT TorchWheel_PYTHON)
    set(TorchWheel_PYTHON "${candidate}")
  endif()
endforeach()
if(NOT TorchWheel_PYTHON)
  find_program(SPILLWAY_SYSTEM_PYTHON python3)
  mark_as_advanced(SPILLWAY_SYSTEM_PYTHON)
  set(TorchWheel_PYTHON "${SPILLWAY_SYSTEM_PYTHON}")
endif()

# A front end with build isolation hides the target's packages behind PYTHONPATH, so the environment itself (-I) is
# asked first and the isolated one second.
set(ask "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '')")
set(TorchWheel_ROOT "")
foreach(isolation IN ITEMS -I -B)
  if(TorchWheel_PYTHON AND NOT TorchWheel_ROOT)
    execute_process(COMMAND ${TorchWheel_PYTHON} ${isolation} -c "${ask}"
      OUTPUT_VARIABLE TorchWheel_ROOT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
endforeach()

if(NOT TorchWheel_PYTHON)
  set(TorchWheel_WHY_NOT "there is no python3 to ask for torch")
elseif(NOT TorchWheel_ROOT)
  set(TorchWheel_WHY_NOT "${TorchWheel_PYTHON} has no torch; SPILLWAY_PYTHON names one that has ${TorchWheel_SUPPORTED}")
elseif(NOT EXISTS "${TorchWheel_ROOT}/version.py" OR NOT EXISTS "${TorchWheel_ROOT}/include/torch/library.h")
  set(TorchWheel_WHY_NOT "the torch in ${TorchWheel_ROOT} has no C++ headers")
else()
  file(STRINGS "${TorchWheel_ROOT}/version.py" version_line REGEX "^__version__ *=")
  string(REGEX MATCH "[0-9]+\\.[0-9]+(\\.[0-9]+)?" TorchWheel_VERSION "${version_line}")
  if(TorchWheel_VERSION MATCHES "^2\\.11(\\.|$)")
    set(TorchWheel_FOUND ON)
  else()
    set(TorchWheel_WHY_NOT
      "${TorchWheel_PYTHON} has torch ${TorchWheel_VERSION}; Spillway is built against ${TorchWheel_SUPPORTED}")
  endif()
endif()

# torch_wheel_target(<name> <libraries>...): an imported target over shared libraries of the wheel.
function(torch_wheel_target name)
  add_library(TorchWheel::${name} INTERFACE IMPORTED)
  list(TRANSFORM ARGN PREPEND "${TorchWheel_LIBRARY_DIR}/lib")
  list(TRANSFORM ARGN APPEND ".so")
  target_link_libraries(TorchWheel::${name} INTERFACE ${ARGN})
  target_include_directories(TorchWheel::${name} SYSTEM INTERFACE
    ${TorchWheel_ROOT}/include ${TorchWheel_ROOT}/include/torch/csrc/api/include)
  target_compile_definitions(TorchWheel::${name} INTERFACE _GLIBCXX_USE_CXX11_ABI=1)
endfunction()

if(TorchWheel_FOUND AND NOT TARGET TorchWheel::cpu)
  set(TorchWheel_LIBRARY_DIR "${TorchWheel_ROOT}/lib")
  torch_wheel_target(cpu c10 torch_cpu torch)
  if(EXISTS "${TorchWheel_LIBRARY_DIR}/libtorch_cuda.so")
    torch_wheel_target(cuda c10_cuda torch_cuda)
  endif()
endif()
