// SPDX-License-Identifier: BSD-3-Clause
// Agreement of the ranks of a communicator while an MPI job starts or ends. All calls are
// collective.
//
// Each call except gather_rows() starts a nonblocking collective of the library and waits for it in
// the wait loop, which yields the core. With more ranks than cores, a rank that waits in the
// library would keep its core for a time slice, although the rank for which all others wait needs
// it. (gather_rows() calls the library's blocking gathers.)
#pragma once

#include <cstddef>
#include <type_traits>
#include <vector>

#include "mpi/next.hpp"
#include "wait/wait.hpp"

namespace mh::mpi::agreement {

// Starts a collective of the library by start(&request) and waits for its end in the wait loop.
// Calls meanwhile() before each test. False if the library refuses the collective.
template <class Start, class Meanwhile>
bool carry_out(Start start, Meanwhile meanwhile) {
  MPI_Request request = MPI_REQUEST_NULL;
  if (start(&request) != MPI_SUCCESS) return false;
  int code = MPI_SUCCESS;
  int flag = 0;
  wait::until([&] {
    meanwhile();
    code = real.Test(&request, &flag, MPI_STATUS_IGNORE);
    return code != MPI_SUCCESS || flag != 0;
  });
  return code == MPI_SUCCESS;
}
template <class Start>
bool carry_out(Start start) {
  return carry_out(start, [] {});
}

template <class Meanwhile>
void barrier(MPI_Comm comm, Meanwhile meanwhile) {
  carry_out([&](MPI_Request* request) { return real.Ibarrier(comm, request); }, meanwhile);
}
inline void barrier(MPI_Comm comm) {
  barrier(comm, [] {});
}

template <class T>
void broadcast(T& value, int root, MPI_Comm comm) {
  static_assert(std::is_trivially_copyable_v<T>);
  carry_out([&](MPI_Request* request) {
    return real.Ibcast(&value, sizeof value, MPI_BYTE, root, comm, request);
  });
}

// Returns the values `mine` of all `ranks` ranks of the communicator, in the order of the ranks.
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

// Reduces the `count` values at `mine` of all ranks to `whole`, on every rank, by one nonblocking
// MPI_Iallreduce. False if the library refuses the collective.
inline bool reduce(const void* mine, void* whole, int count, MPI_Datatype type, MPI_Op operation,
                   MPI_Comm comm) {
  return carry_out([&](MPI_Request* request) {
    return real.Iallreduce(mine, whole, count, type, operation, comm, request);
  });
}

// Returns true on every rank if `here` is true on every rank; else false.
inline bool all(bool here, MPI_Comm comm) {
  const int mine = here ? 1 : 0;
  int least = 0;
  return reduce(&mine, &least, 1, MPI_INT, MPI_MIN, comm) && least != 0;
}

// Gathers rows, such as lines of a report: returns the rows of all ranks of MPI_COMM_WORLD at rank
// 0, in the order of the ranks, and no rows at other ranks.
template <class Row>
std::vector<Row> gather_rows(const std::vector<Row>& mine) {
  static_assert(std::is_trivially_copyable_v<Row>);
  int ranks = 0;
  real.Comm_size(MPI_COMM_WORLD, &ranks);
  const auto bytes = static_cast<int>(mine.size() * sizeof(Row));
  std::vector<int> counts(static_cast<std::size_t>(ranks));
  std::vector<int> offsets(counts.size());
  real.Gather(&bytes, 1, MPI_INT, counts.data(), 1, MPI_INT, 0, MPI_COMM_WORLD);
  int total = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    offsets[i] = total;
    total += counts[i];
  }
  std::vector<Row> all(static_cast<std::size_t>(total) / sizeof(Row));
  real.Gatherv(mine.data(), bytes, MPI_BYTE, all.data(), counts.data(), offsets.data(), MPI_BYTE, 0,
               MPI_COMM_WORLD);
  return all;
}

}  // namespace mh::mpi::agreement
