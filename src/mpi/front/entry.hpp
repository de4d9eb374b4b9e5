// SPDX-License-Identifier: BSD-3-Clause
// How a wrapper becomes an entry of the front, and how a tool behind us is kept from coming back.
//
// A tool that follows us exports MPI_X and calls PMPI_X, which is ours again. While a call of ours
// is inside the tool (`depth` > 0), what comes back through PMPI_X goes to the library and what
// comes back through MPI_X to the tool, as it would without us. Without such a tool entries are the
// wrappers themselves and `next` holds the library's own functions: nothing is paid. Limit: user
// code the library calls back inside a guarded call (attribute copy functions, error handlers) is
// unhelped.
#pragma once

#include <cstdint>

#include "mpi/front/table.h"
#include "mpi/next.hpp"

namespace mh::mpi {

namespace detail {

extern Next tool;  // the functions of the tool behind us; nullptr where it has none
extern constinit thread_local int depth;  // calls of this thread now inside the tool

struct Inside {
  Inside() { ++depth; }
  ~Inside() { --depth; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
};

template <class Signature>
struct Guard;

template <class... Arguments>
struct Guard<int (*)(Arguments...)> {
  using Function = int (*)(Arguments...);

  template <Function Next::*call>
  static int into_tool(Arguments... arguments) {
    Inside inside;
    return (tool.*call)(arguments...);
  }
  template <Function Next::*call, Function wrapper>
  static int from_mpi(Arguments... arguments) {
    if (depth == 0) return wrapper(arguments...);
    return tool.*call != nullptr ? (tool.*call)(arguments...) : (real.*call)(arguments...);
  }
  template <Function Next::*call, Function wrapper>
  static int from_pmpi(Arguments... arguments) {
    return depth == 0 ? wrapper(arguments...) : (real.*call)(arguments...);
  }
};

}  // namespace detail

// What answers __mh_ws_mark(), or null. Each variant defines its own.
mh_marker marker();
// What __mh_idle_work() returns, or null; likewise.
const mh_idle_work* idle_work();

// Other entries from now on, for every thread. One thread at a time.
void refill(void (*fill)(mh_table& table, bool guarded));

// Puts `wrapper` into the table as MPI_X and PMPI_X, behind the guard where a tool follows us.
template <auto call, auto wrapper>
void entry(mh_table& table, std::uint32_t index, bool guarded) {
  using Guard = detail::Guard<decltype(wrapper)>;
  auto mpi = wrapper;
  auto pmpi = wrapper;
  if (guarded) {
    mpi = Guard::template from_mpi<call, wrapper>;
    pmpi = Guard::template from_pmpi<call, wrapper>;
    if (detail::tool.*call != nullptr) next.*call = Guard::template into_tool<call>;
  }
  table.mpi[index] = reinterpret_cast<mh_function>(mpi);
  table.pmpi[index] = reinterpret_cast<mh_function>(pmpi);
}

template <class Watcher>
void observe_entry(mh_table& table, std::uint32_t index, Watcher watcher) {
  table.observe[index] = reinterpret_cast<mh_function>(watcher);
}

}  // namespace mh::mpi
