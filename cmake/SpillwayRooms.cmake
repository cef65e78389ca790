# How a room, its tests and its benchmarks become targets.

# spillway_sources(<variable> <folder> [EXCLUDE <subfolder>...]): every .cpp below the folder.
function(spillway_sources variable folder)
  cmake_parse_arguments(arg "" "" "EXCLUDE" ${ARGN})
  file(GLOB_RECURSE found CONFIGURE_DEPENDS ${folder}/*.cpp)
  foreach(subfolder IN LISTS arg_EXCLUDE)
    list(FILTER found EXCLUDE REGEX "^${folder}/${subfolder}(/|$)")
  endforeach()
  set(${variable} ${found} PARENT_SCOPE)
endfunction()

# spillway_room(<room> [DEPS <room or library>...] [EXCLUDE <subfolder or file>...]): the static library
# spillway_<room> over src/<room>. Rooms in DEPS (base, trace, ...) are passed on to whoever links this one; libraries
# (fmt::fmt-header-only, ...) stay private, so no header of a room may include theirs. A room without sources yet is an
# INTERFACE library.
function(spillway_room room)
  cmake_parse_arguments(arg "" "" "DEPS;EXCLUDE" ${ARGN})
  spillway_sources(sources ${PROJECT_SOURCE_DIR}/src/${room} EXCLUDE ${arg_EXCLUDE})
  spillway_library(spillway_${room} SOURCES ${sources} DEPS ${arg_DEPS})
endfunction()

function(spillway_library target)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPS" ${ARGN})
  set(up PUBLIC)
  set(own PRIVATE)
  if(arg_SOURCES)
    add_library(${target} STATIC ${arg_SOURCES})
    target_link_libraries(${target} PRIVATE spillway_flags)
  else()
    add_library(${target} INTERFACE)
    set(up INTERFACE)
    set(own INTERFACE)
  endif()
  target_include_directories(${target} ${up} ${PROJECT_SOURCE_DIR}/src)
  foreach(dep IN LISTS arg_DEPS)
    if(TARGET spillway_${dep})
      target_link_libraries(${target} ${up} spillway_${dep})
    elseif(arg_SOURCES)
      target_link_libraries(${target} ${own} ${dep})
    endif()
  endforeach()
endfunction()

# spillway_embed(<target> <folder below src>): compiles the texts in the folder into the target (embed.cmake says how).
function(spillway_embed target folder)
  set(made ${CMAKE_CURRENT_BINARY_DIR}/${folder}.cpp)
  file(GLOB texts CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*)
  add_custom_command(OUTPUT ${made} DEPENDS ${texts} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
    COMMAND ${CMAKE_COMMAND} -DFOLDER=${CMAKE_CURRENT_SOURCE_DIR}/${folder} -DMADE=${made}
      -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake)
  target_sources(${target} PRIVATE ${made})
endfunction()

# spillway_tests(<name> FOLDER <folder> [LINK <target>...] [LABEL <label>]): one gtest executable <name>_tests over
# <folder>/*_test.cpp; every test of it is a ctest test. Nothing happens where there are no sources.
function(spillway_tests name)
  cmake_parse_arguments(arg "" "FOLDER;LABEL" "LINK" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${arg_FOLDER}/*_test.cpp)
  if(NOT rapidcheck_FOUND)
    spillway_skip_rapidcheck(sources)
  endif()
  if(NOT sources)
    return()
  endif()
  add_executable(${name}_tests ${sources})
  target_include_directories(${name}_tests PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
  target_compile_definitions(${name}_tests PRIVATE SPILLWAY_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  target_link_libraries(${name}_tests PRIVATE spillway_flags ${arg_LINK} GTest::gmock GTest::gtest_main Threads::Threads)
  if(rapidcheck_FOUND)
    target_link_libraries(${name}_tests PRIVATE rapidcheck)
  endif()
  # Found when ctest runs, not when the binary is built: sanitized and cross builds need not run at build time.
  set(properties LABELS "${arg_LABEL}" TIMEOUT ${SPILLWAY_TEST_TIMEOUT})
  if(arg_LABEL STREQUAL "gpu")
    list(APPEND properties RESOURCE_LOCK card)  # one card: tests that fill it must not meet
  endif()
  gtest_discover_tests(${name}_tests DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60 NO_PRETTY_VALUES TEST_PREFIX ${name}.
    PROPERTIES ${properties})
endfunction()

# Takes the sources that include RapidCheck out of the list; each becomes a ctest test that says why it is skipped.
function(spillway_skip_rapidcheck list)
  set(kept)
  foreach(source IN LISTS ${list})
    file(STRINGS ${source} includes REGEX "#include <rapidcheck")
    if(includes)
      cmake_path(GET source STEM stem)
      add_test(NAME ${stem} COMMAND ${CMAKE_COMMAND} -E echo "[  SKIPPED ] ${stem}: RapidCheck is not installed")
      set_tests_properties(${stem} PROPERTIES SKIP_REGULAR_EXPRESSION "\\[  SKIPPED \\]")
    else()
      list(APPEND kept ${source})
    endif()
  endforeach()
  set(${list} ${kept} PARENT_SCOPE)
endfunction()
