# SPDX-License-Identifier: BSD-3-Clause
# find_package(Manyhands COMPONENTS ult lci tasks) defines Manyhands::ult, Manyhands::lci and
# Manyhands::tasks. Without COMPONENTS it finds every installed component.
include(CMakeFindDependencyMacro)
find_dependency(Threads)
set(_manyhands_wanted ${Manyhands_FIND_COMPONENTS})
if(NOT _manyhands_wanted)
  file(GLOB _manyhands_wanted RELATIVE ${CMAKE_CURRENT_LIST_DIR} ${CMAKE_CURRENT_LIST_DIR}/Manyhands-*.cmake)
  list(FILTER _manyhands_wanted EXCLUDE REGEX "-.*-")  # not Manyhands-NAME-release.cmake
  list(TRANSFORM _manyhands_wanted REPLACE "^Manyhands-(.*)\\.cmake$" "\\1")
endif()
# The target of lci links that of ult, which must therefore be defined first.
if("lci" IN_LIST _manyhands_wanted)
  list(PREPEND _manyhands_wanted ult)
endif()
list(REMOVE_DUPLICATES _manyhands_wanted)
foreach(_manyhands_name IN LISTS _manyhands_wanted)
  set(_manyhands_file ${CMAKE_CURRENT_LIST_DIR}/Manyhands-${_manyhands_name}.cmake)
  if(EXISTS ${_manyhands_file})
    include(${_manyhands_file})
    set(Manyhands_${_manyhands_name}_FOUND TRUE)
  elseif(NOT Manyhands_FIND_COMPONENTS OR Manyhands_FIND_REQUIRED_${_manyhands_name})
    set(Manyhands_FOUND FALSE)
    string(APPEND Manyhands_NOT_FOUND_MESSAGE "component ${_manyhands_name} is not installed in ${CMAKE_CURRENT_LIST_DIR}. ")
  endif()
endforeach()
