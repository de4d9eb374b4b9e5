// SPDX-License-Identifier: BSD-3-Clause
// Makes a wrapper, Manyhands' own function for an MPI call, an entry of the front. If a tool is
// behind Manyhands in the preload list, the entry keeps calls that the tool makes from reaching a
// wrapper a second time.
//
// Such a tool exports MPI_X and calls PMPI_X, which is again an entry of the front. Each thread
// counts its calls that are inside the tool (`depth`). Inside the tool, calls of PMPI_X go to the
// MPI library and calls of MPI_X to the tool, as without Manyhands. Without such a tool, entries
// are the wrappers themselves and `next` holds the library's own functions, at no cost.
// Thread-safe, except refill_table(). Limit: MPI calls of user code that the library calls while
// this thread is inside the tool (attribute copy functions, error handlers) do not reach the
// wrappers.
#pragma once

#include <cstdint>

#include "mpi/front/table.h"
#include "mpi/next.hpp"

namespace mh::mpi {

namespace detail {

extern Next tool;  // the functions of the tool behind Manyhands; null where the tool lacks the call
extern constinit thread_local int depth;  // calls of this thread that are inside the tool

// Counts one call of this thread as inside the tool that is behind Manyhands in the preload list
// (`depth`), while the object lives.
struct ToolCall {
  ToolCall() { ++depth; }
  ~ToolCall() { --depth; }
  ToolCall(const ToolCall&) = delete;
  ToolCall& operator=(const ToolCall&) = delete;
};

template <class Signature>
struct ToolGuard;

template <class... Arguments>
struct ToolGuard<int (*)(Arguments...)> {
  using Function = int (*)(Arguments...);

  template <Function Next::*call>
  static int into_tool(Arguments... arguments) {
    ToolCall inside;
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

// The function behind the front's exported __mh_ws_mark(), which programs call before a loop that
// is marked to be shared; null if the variant has none. Each variant, the library for one MPI ABI,
// defines its own.
mh_marker marker();
// The function behind the front's exported __mh_ws_lock() and __mh_ws_unlock(), which programs call
// around critical sections of marked loops; null if the variant has none. Each variant defines its
// own.
mh_locker locker();
// The result of the front's exported __mh_idle_work(), by which a library of light tasks finds the
// wait loop; null if the variant has none. Each variant defines its own.
const mh_idle_work* idle_work();

// Replaces all entries of the front, for every thread: `fill` writes the table of entries, then the
// front sets its indirect jumps anew from the table. Called by one thread at a time.
void refill_table(void (*fill)(mh_table& table, bool guarded));

// Puts `wrapper` into the front's table of entries, for MPI_X and for PMPI_X, where X is the call.
// `guarded`: a tool is behind Manyhands, so the entries check whether the call comes from inside
// the tool.
template <auto call, auto wrapper>
void entry(mh_table& table, std::uint32_t index, bool guarded) {
  using Guarded = detail::ToolGuard<decltype(wrapper)>;
  auto mpi = wrapper;
  auto pmpi = wrapper;
  if (guarded) {
    mpi = Guarded::template from_mpi<call, wrapper>;
    pmpi = Guarded::template from_pmpi<call, wrapper>;
    if (detail::tool.*call != nullptr) next.*call = Guarded::template into_tool<call>;
  }
  table.mpi[index] = reinterpret_cast<mh_function>(mpi);
  table.pmpi[index] = reinterpret_cast<mh_function>(pmpi);
}

// Puts `watcher` into the front's table: the front calls it before the program's call goes on to
// the next layer, the tool behind Manyhands or the MPI library.
template <class Watcher>
void observe_entry(mh_table& table, std::uint32_t index, Watcher watcher) {
  table.observe[index] = reinterpret_cast<mh_function>(watcher);
}

}  // namespace mh::mpi
