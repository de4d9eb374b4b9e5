# SPDX-License-Identifier: BSD-3-Clause
# The common part of the interposer and the libraries in libs/: the platform, the language,
# warnings, sanitizers, precompiled headers, and how one folder uses the targets of another. Every
# project of the tree includes this file after project(), so a library is built with the same
# options alone and inside the whole build.
get_filename_component(MH_ROOT ${CMAKE_CURRENT_LIST_DIR} DIRECTORY)

if(NOT CMAKE_SYSTEM_NAME STREQUAL Linux OR NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
  message(FATAL_ERROR "Manyhands is for Linux on x86-64, not for ${CMAKE_SYSTEM_NAME} on ${CMAKE_SYSTEM_PROCESSOR}.")
endif()

# Libraries that other projects use are named libmanyhands-NAME.so.ABI. Before version 1 a minor
# version may change the ABI.
set(MH_VERSION 0.1.0)
set(MH_ABI 0.1)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
set(CMAKE_INSTALL_LIBDIR lib CACHE PATH "Folder of libraries below the prefix")
set(CMAKE_INSTALL_INCLUDEDIR include CACHE PATH "Folder of headers below the prefix")

set(MH_SANITIZE "" CACHE STRING "Sanitizers to build with: thread, or address, undefined")
option(MH_WERROR "Warnings are errors" ${PROJECT_IS_TOP_LEVEL})

set(mh_std_headers algorithm array atomic functional memory mutex optional span string unordered_map vector)
find_package(Threads REQUIRED)

# Once per build: inside a larger build, a library uses the targets and functions that the first
# inclusion of this file has defined.
if(TARGET mh_flags)
  return()
endif()

# These warnings are for our sources only: they do not apply to headers of other projects.
add_library(mh_flags INTERFACE)
target_compile_options(mh_flags INTERFACE -Wall -Wextra -Wconversion -Wshadow
                       $<$<BOOL:${MH_WERROR}>:-Werror>)
# Our thread-local data is small and exists from the start of a thread. Every MPI call and every
# call of the OpenMP run time reads it, and the dynamic TLS model would make three function calls
# for a read.
target_compile_options(mh_flags INTERFACE -ftls-model=initial-exec)
target_include_directories(mh_flags INTERFACE ${MH_ROOT}/include)  # the public headers
if(MH_SANITIZE)
  # -g1: sanitizer reports need line numbers only, and full debug information takes a quarter of the
  # compiler's time.
  string(REPLACE ";" "," mh_sanitizers "${MH_SANITIZE}")
  add_compile_options(-fsanitize=${mh_sanitizers} -fno-omit-frame-pointer -fno-sanitize-recover=all -g1)
  add_link_options(-fsanitize=${mh_sanitizers})
endif()

# Precompiles the headers named after `target` for all sources of `target`. Without this, parsing
# these headers takes half of the compiler's time. `REUSE_FROM other` uses the precompiled headers
# of target `other`. Precompiled headers hide a missing include, so clang-tidy checks all sources
# without them.
function(mh_precompile target)
  if(ARGV1 STREQUAL "REUSE_FROM")
    target_precompile_headers(${target} ${ARGN})
  else()
    list(TRANSFORM ARGN REPLACE "^(.+)$" "$<$<COMPILE_LANGUAGE:CXX>:<\\1$<ANGLE-R>>" OUTPUT_VARIABLE headers)
    target_precompile_headers(${target} PRIVATE ${headers})
  endif()
  # With -fpch-preprocess, ccache (see Makefile) sees in the preprocessed source which precompiled
  # headers it uses.
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>)
endfunction()
# Adds `folder`, whose CMakeLists.txt defines `target`, unless the build already has that target.
function(mh_add_once target folder)
  if(NOT TARGET ${target})
    add_subdirectory(${MH_ROOT}/${folder} ${CMAKE_BINARY_DIR}/${folder})
  endif()
endfunction()

# Ends the CMakeLists.txt of a library that cannot be built, and prints the reason. A larger build
# goes on without the library; a build of the library alone fails.
macro(mh_skip_library reason)
  if(PROJECT_IS_TOP_LEVEL)
    message(FATAL_ERROR "${reason}")
  endif()
  message(STATUS "${reason}")
  return()
endmacro()

# Installs the library `manyhands-NAME` for other projects: the library under its versioned name, a
# CMake package component (Manyhands::NAME) and a pkg-config file. `sentence` describes the library.
# The arguments after it are the names of the components that a program of NAME must link as well.
function(mh_install_library name sentence)
  set(target manyhands-${name})
  list(TRANSFORM ARGN PREPEND "manyhands-" OUTPUT_VARIABLE MH_PC_REQUIRES)
  list(JOIN MH_PC_REQUIRES " " MH_PC_REQUIRES)
  set(MH_PC_NAME ${name})
  set(MH_PC_SENTENCE "${sentence}")
  add_library(Manyhands::${name} ALIAS ${target})
  target_compile_features(${target} INTERFACE cxx_std_20)  # the public headers are C++20
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name} VERSION ${MH_VERSION} SOVERSION ${MH_ABI})
  install(TARGETS ${target} EXPORT Manyhands-${name} COMPONENT ${name}
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} NAMELINK_COMPONENT ${name})
  set(package ${CMAKE_INSTALL_LIBDIR}/cmake/Manyhands)
  install(EXPORT Manyhands-${name} NAMESPACE Manyhands:: DESTINATION ${package} COMPONENT ${name})
  include(CMakePackageConfigHelpers)
  set(here ${CMAKE_CURRENT_BINARY_DIR}/package)
  configure_file(${MH_ROOT}/cmake/ManyhandsConfig.cmake ${here}/ManyhandsConfig.cmake COPYONLY)
  write_basic_package_version_file(${here}/ManyhandsConfigVersion.cmake VERSION ${MH_VERSION}
                                   COMPATIBILITY SameMinorVersion)
  install(FILES ${here}/ManyhandsConfig.cmake ${here}/ManyhandsConfigVersion.cmake DESTINATION ${package}
          COMPONENT ${name})
  file(RELATIVE_PATH MH_PC_UP /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
  configure_file(${MH_ROOT}/cmake/manyhands.pc.in ${here}/${target}.pc @ONLY)
  install(FILES ${here}/${target}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT ${name})
endfunction()

# Installs public headers as part of component `name`. The arguments are headers or folders,
# relative to include/.
function(mh_install_headers name)
  foreach(header ${ARGN})
    get_filename_component(folder ${header} DIRECTORY)
    if(IS_DIRECTORY ${MH_ROOT}/include/${header})
      install(DIRECTORY ${MH_ROOT}/include/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/${folder} COMPONENT ${name})
    else()
      install(FILES ${MH_ROOT}/include/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/${folder} COMPONENT ${name})
    endif()
  endforeach()
endfunction()
