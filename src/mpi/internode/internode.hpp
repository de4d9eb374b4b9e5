// SPDX-License-Identifier: BSD-3-Clause
// Large noncontiguous messages to other nodes: packed and sent piece by piece.
//
// Words: such a message goes by *internode pipeline*. Its descriptor travels on the user's
// communicator, so the library does the matching; the data follow in *pieces* of the packed stream
// on a communicator of our own, each sent as soon as it is packed, while the next is packed by the
// sender and by cores lent to it (p2p/pack_pipeline.hpp). The receiver unpacks likewise what has
// come while the rest is coming.
//
// A send starts by packing everything: when the call is over the library has all of it, and what
// still has to happen is the library's progress, in whatever call this rank is. So a rank that
// waits for an internode pipeline never waits for a call of ours on the other side that may not
// come, with one exception: the receiver may sit in a call of the library that depends on this
// rank, and take nothing. After kInternodePatienceNs without a piece taken a sender therefore
// counts as done (its buffer has long been free; the pieces are copies), and nothing more is sent
// to that receiver this way.
//
// Few buffers are used while the receiver keeps up, as many as the message needs where it does not.
//
// What stays with the library: contiguous data, synchronous and buffered sends, intercommunicators,
// types without a layout, messages that would need more than kMostBuffers buffers, and jobs in
// which not every rank has neighbours and the library in front, or whose library gains nothing
// (Open MPI). A send cannot be cancelled.
// This file has their start and end; send.hpp and receive.hpp have the two
// ends, pieces.hpp what these share.
#pragma once

namespace mh::mpi::internode {

// Collective over MPI_COMM_WORLD: finds out whether the ranks of all nodes understand each other
// (config.internode).
void start();
// Waits until everything sent was received; pieces of messages that nobody wanted are thrown away.
// `is_receiving`: a receive of the program is started, whose message may still come.
void stop(bool (*is_receiving)());

// Part of the wait loop: messages under way go on. Never blocks.
void progress();

}  // namespace mh::mpi::internode
