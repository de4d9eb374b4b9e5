// SPDX-License-Identifier: BSD-3-Clause
// One-sided operations on windows of ours: from the arguments of a call to bytes in their places.
//
// On the own node they are done when they return: the target has let this rank in before, by fence,
// start or lock. Short puts and accumulates on memory that only the kernel reaches are kept
// (rma/kept.hpp) until something else is done there, or an epoch or flush completes them. To
// other nodes they are sent at the call. Origins' buffers are free when a call returns
// (remote.hpp). Operations of one origin take effect in the order of the calls. Any thread.
//
// What cannot be meant (a rank that is none, negative counts, elements of several kinds) is
// `unusual`: the library gets the call and says what is wrong. Where libraries differ (the types of
// MPI_Fetch_and_op and MPI_Compare_and_swap), the library is asked first, by the same call to
// MPI_PROC_NULL: it checks the arguments, calls the error handler if they are wrong, and does no
// more.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>

#include "mpi/abi.hpp"
#include "mpi/rma/windows.hpp"
#include "rma/reduce.hpp"

namespace mh::mpi::rma {

// A buffer as a call gives it.
struct Buffer {
  const void* address = nullptr;
  MPI_Count count = 0;
  MPI_Datatype type{};
};

struct Target {
  int rank;
  MPI_Aint displacement;
  MPI_Count count;
  MPI_Datatype type;
};

// What became of a call: an MPI error code, or nothing where the library must say what is wrong.
// One word: a std::optional<int> is put together in memory from two stores where calls are inlined,
// and the load that follows waits for both (6 ns of the 13 that a put takes).
class Outcome {
 public:
  constexpr Outcome(int code) : code_(code) {}
  constexpr Outcome(std::nullopt_t /*none*/) : code_(kNone) {}
  [[nodiscard]] constexpr explicit operator bool() const { return code_ != kNone; }
  [[nodiscard]] constexpr int operator*() const { return code_; }

 private:
  static constexpr int kNone = std::numeric_limits<int>::min();  // no error code
  int code_;
};

Outcome put(Win& win, const Buffer& origin, const Target& target);
Outcome get(Win& win, const Buffer& result, const Target& target);
// `result`: null for MPI_Accumulate.
Outcome accumulate(Win& win, const Buffer& origin, const Buffer* result, const Target& target,
                   MPI_Op op);
Outcome fetch_and_op(Win& win, const void* origin, void* result, MPI_Datatype type, int rank,
                     MPI_Aint displacement, MPI_Op op);
Outcome compare_and_swap(Win& win, const void* origin, const void* compare, void* result,
                         MPI_Datatype type, int rank, MPI_Aint displacement);

inline Outcome get_accumulate(Win& win, const Buffer& origin, const Buffer& result,
                              const Target& target, MPI_Op op) {
  return accumulate(win, origin, &result, target, op);
}

// An operation with a request is one without: what it fetches is waited for here, so its request is
// complete when it is made.
Outcome with_request(MPI_Win handle, Outcome done, MPI_Request* request);

// Carries out what was kept, for one rank or for all: before an epoch or a flush is over. False if
// something has failed.
bool complete_kept_slow(Win& win, std::optional<std::uint32_t> target);
[[nodiscard]] inline bool complete_kept(Win& win,
                                        std::optional<std::uint32_t> target = std::nullopt) {
  return !win.window.has_kept() || complete_kept_slow(win, target);
}

// Of every call that a program may poll with: progress of the library and of our own protocol, once
// in a while.
void progress_sometimes();

}  // namespace mh::mpi::rma
