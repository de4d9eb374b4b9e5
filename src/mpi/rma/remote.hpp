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

// Decides whether Manyhands may serve windows over several nodes (config.internode_windows), and if
// so starts the RMA server thread (serving.hpp). stop_internode() waits for all ranks at the end,
// and serves them meanwhile. Both are collective over MPI_COMM_WORLD.
void start_internode();
void stop_internode();

// Sends an operation whose buffers are all set to a target on another node. `result` owns the
// layout of the result buffer. If `compare` is not null, the operation is MPI_Compare_and_swap with
// this value. A reduction that only the library computes is carried out element by element, and
// over at return.
Status send_operation(Win& win, const mh::rma::BoundOperation& operation,
                      const layout::LayoutPtr& result, const void* compare);

// Waits until the results from one target, or from all if `target` is empty, are in their buffers.
// Returns false if a request to such a target has failed.
bool await_results(Win& win, std::optional<std::uint32_t> target = std::nullopt);
// Waits until `target`, or every target if it is empty, has carried out all requests of this rank,
// and the results from it are in their buffers. Returns false if a request to such a target has
// failed.
bool flush_targets(Win& win, std::optional<std::uint32_t> target = std::nullopt);

void lock_target(Win& win, std::uint32_t target, mh::rma::LockMode mode);
// Sends the unlock, and does not wait until the target has carried it out. The unlock is counted
// like the operations before it, so flush_targets() waits for the unlock, too.
void unlock_target(Win& win, std::uint32_t target, mh::rma::LockMode mode);
void send_post(Win& win, std::uint32_t origin);
void send_complete(Win& win, std::uint32_t target);
// Waits until all ranks of the window have called this function. Precondition: flush_targets() has
// returned for all targets.
void barrier(Win& win);

}  // namespace mh::mpi::rma::remote
