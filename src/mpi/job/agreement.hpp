// SPDX-License-Identifier: BSD-3-Clause
// What the ranks of a communicator tell each other while a job starts. All are collective.
//
// Each collective of the library is started, and awaited with the core given away between two
// looks: there may be more ranks than cores, and a rank in the library's own wait keeps a core for
// a time slice that the last rank needs.
#pragma once

#include <sched.h>

#include <cstddef>
#include <type_traits>
#include <vector>

#include "mpi/next.hpp"

namespace mh::mpi::agreement {

// Starts a collective, start(&request), and waits for its end; between two looks meanwhile() and
// whoever wants the core. False if the library refuses it.
template <class Start, class Meanwhile>
bool carry_out(Start start, Meanwhile meanwhile) {
  MPI_Request request = MPI_REQUEST_NULL;
  if (start(&request) != MPI_SUCCESS) return false;
  for (int flag = 0;;) {
    if (real.Test(&request, &flag, MPI_STATUS_IGNORE) != MPI_SUCCESS) return false;
    if (flag != 0) return true;
    meanwhile();
    ::sched_yield();
  }
}
template <class Start>
bool carry_out(Start start) {
  return carry_out(start, [] {});
}

inline void barrier(MPI_Comm comm) {
  carry_out([&](MPI_Request* request) { return real.Ibarrier(comm, request); });
}

template <class T>
void broadcast(T& value, int root, MPI_Comm comm) {
  static_assert(std::is_trivially_copyable_v<T>);
  carry_out([&](MPI_Request* request) {
    return real.Ibcast(&value, sizeof value, MPI_BYTE, root, comm, request);
  });
}

// By rank.
template <class T>
std::vector<T> gather(const T& mine, std::size_t ranks, MPI_Comm comm) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<T> all(ranks);
  carry_out([&](MPI_Request* request) {
    return real.Iallgather(&mine, sizeof mine, MPI_BYTE, all.data(), sizeof mine, MPI_BYTE, comm,
                           request);
  });
  return all;
}

// True if it is so on every rank.
inline bool all(bool here, MPI_Comm comm) {
  const int mine = here ? 1 : 0;
  int least = 0;
  const bool done = carry_out([&](MPI_Request* request) {
    return real.Iallreduce(&mine, &least, 1, MPI_INT, MPI_MIN, comm, request);
  });
  return done && least != 0;
}

}  // namespace mh::mpi::agreement
