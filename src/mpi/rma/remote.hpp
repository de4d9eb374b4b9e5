// SPDX-License-Identifier: BSD-3-Clause
// Operations on targets of other nodes, and their synchronisation: the origin's side.
//
// An operation is sent in pieces (rma/piece.hpp), which the target carries out (serving.hpp). The
// origin buffer has been copied when the call returns; results are in place after await_results();
// requests are carried out after flush_targets(). A target carries out the requests of this rank in
// the order of its calls, so an unlock, or the end of an epoch, follows the operations before it.
// At most kMostUnderWay requests to a target and kMostLongMessages long messages are under way;
// further requests wait in the wait loop. Thread-safe.
//
// Limit: windows over several nodes are ours only if every rank of the MPI job has a server thread
// (serving.hpp). Without server threads a deadlock is possible: a rank in a call of the library
// alone, such as a collective, may wait for a rank whose flush waits for an answer of the first
// rank.
#pragma once

#include <cstdint>
#include <optional>

#include "mpi/rma/windows.hpp"
#include "rma/operation.hpp"

namespace mh::mpi::rma::remote {

// Collective over MPI_COMM_WORLD: start_internode() decides whether windows over several nodes may
// be ours (config.internode_windows). stop_internode() waits for all ranks, and serves them
// meanwhile.
void start_internode();
void stop_internode();

// Sends an operation whose buffers are all set. `result` owns the layout of the result buffer. With
// `compare` the operation is MPI_Compare_and_swap. A reduction that only the library computes is
// done at return, element by element.
Status send_operation(Win& win, const mh::rma::BoundOperation& operation,
                      const layout::LayoutPtr& result, const void* compare);

// Waits for the results from one target, or from all. Returns false if a request to such a target
// has failed.
bool await_results(Win& win, std::optional<std::uint32_t> target = std::nullopt);
// Waits for the results, and until the targets have carried out all requests.
bool flush_targets(Win& win, std::optional<std::uint32_t> target = std::nullopt);

void lock_target(Win& win, std::uint32_t target, mh::rma::LockMode mode);
// The unlock is counted like the operations before it: flush_targets() waits for the unlock, too.
void unlock_target(Win& win, std::uint32_t target, mh::rma::LockMode mode);
void send_post(Win& win, std::uint32_t origin);
void send_complete(Win& win, std::uint32_t target);
// A barrier over all ranks of the window. Precondition: flush_targets() has returned for all ranks.
void barrier(Win& win);

}  // namespace mh::mpi::rma::remote
