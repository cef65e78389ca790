# What can be chosen, and the flags every target of ours gets.

set(SPILLWAY_TORCH AUTO CACHE STRING "Build the PyTorch adapter: AUTO (where torch 2.11 is found), ON, OFF")
set(SPILLWAY_CUDA AUTO CACHE STRING "Build the CUDA device: AUTO (where the CUDA toolkit is found), ON, OFF")
set(SPILLWAY_SANITIZE "" CACHE STRING "Sanitizers for every target, as for -fsanitize: address,undefined or thread")
set(SPILLWAY_PYTHON "" CACHE STRING "The Python whose torch is built against; empty: .venv, the active environment, python3")
option(SPILLWAY_TESTS "Build the tests" ${PROJECT_IS_TOP_LEVEL})
option(SPILLWAY_BENCH "Build the benchmarks" ${PROJECT_IS_TOP_LEVEL})
option(SPILLWAY_WERROR "Warnings are errors" ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()

if(NOT CMAKE_CXX_COMPILER_ID MATCHES "GNU|Clang")
  message(FATAL_ERROR "Spillway needs g++ 12 or newer (found ${CMAKE_CXX_COMPILER_ID}); choose one with CXX=g++-12")
elseif(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12)
  message(FATAL_ERROR "Spillway needs g++ 12 or newer (found ${CMAKE_CXX_COMPILER_VERSION}); choose one with CXX=g++-12")
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

find_program(SPILLWAY_CCACHE ccache)
mark_as_advanced(SPILLWAY_CCACHE)
if(SPILLWAY_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${SPILLWAY_CCACHE})
endif()

# Linked by every target of ours. -Wmissing-field-initializers is off because designated initializers leave fields to
# their defaults on purpose, -Wrestrict before g++ 13 because std::string + const char* trips it (GCC bug 105651).
add_library(spillway_flags INTERFACE)
target_compile_options(spillway_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Wno-missing-field-initializers -fno-omit-frame-pointer
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict>
  $<$<BOOL:${SPILLWAY_WERROR}>:-Werror>)
target_link_options(spillway_flags INTERFACE -Wl,--as-needed)

if(SPILLWAY_SANITIZE)
  target_compile_options(spillway_flags INTERFACE -fsanitize=${SPILLWAY_SANITIZE} -fno-sanitize-recover=all)
  target_compile_definitions(spillway_flags INTERFACE _GLIBCXX_ASSERTIONS)
  target_link_options(spillway_flags INTERFACE -fsanitize=${SPILLWAY_SANITIZE})
  message(STATUS "Sanitizers: ${SPILLWAY_SANITIZE}")
endif()
