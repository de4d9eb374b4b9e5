// SPDX-License-Identifier: BSD-3-Clause
// Operations on targets of other nodes, and what synchronises with them: the origin's side.
//
// An operation is sent to its target in pieces (rma/piece.hpp), which the target carries out
// (serving.hpp). What an origin gives is copied when the call returns; what it fetches is in place
// after await_results(); what it has asked for is done after flush(). Requests of this rank to a
// target are carried out in the order of its calls, so a lock given back, or an epoch completed,
// comes after the operations before it. At most kMostUnderWay requests to a target, and
// kMostLongOnes long messages, are under way; a further one waits in the wait loop.
//
// Windows over several nodes are ours only where every rank of the job has a thread that serves
// (serving.hpp): a rank may be in a call that is the library's alone, a collective or the
// opening of a file, and depend there on one whose lock or flush depends on it.
#pragma once

#include <cstdint>
#include <optional>

#include "mpi/rma/windows.hpp"
#include "rma/operation.hpp"

namespace mh::mpi::rma::remote {

// Collective over MPI_COMM_WORLD: finds out whether windows over several nodes may be ours
// (config.spanning). stop() waits, with helping hands, for all ranks.
void start();
void stop();

// With all ends of the task; `result` holds the layout of the result's end. With `compare` it is a
// swap. What only the library can reduce is done when it returns, element by element.
Status carry_out(Win& win, const mh::rma::Task& task, const layout::LayoutPtr& result,
                 const void* compare);

// Results of one target, or of all. False if something that was asked of them has failed.
bool await_results(Win& win, std::optional<std::uint32_t> target = std::nullopt);
// ... and all that was asked of them is done.
bool flush(Win& win, std::optional<std::uint32_t> target = std::nullopt);

void lock(Win& win, std::uint32_t target, mh::rma::LockMode mode);
// Counted with the operations before it: flush() waits for it, too.
void unlock(Win& win, std::uint32_t target, mh::rma::LockMode mode);
void post(Win& win, std::uint32_t origin);
void complete(Win& win, std::uint32_t target);
// All ranks of the window. Nothing may be under way to any.
void barrier(Win& win);

}  // namespace mh::mpi::rma::remote
