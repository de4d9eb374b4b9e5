// SPDX-License-Identifier: BSD-3-Clause
// Large noncontiguous messages to other nodes: packed and sent piece by piece.
//
// A message of this kind goes by *internode pipeline*. Its RTS header travels on the program's
// communicator, and the MPI library matches it. The data follow in *pieces* of the packed stream on
// a private communicator. The sender posts each piece as soon as it is packed, while helpers on
// lent cores pack the next ones (p2p/pack_pipeline.hpp). The receiver unpacks pieces that have
// arrived while further pieces are in flight.
//
// A send packs and posts the whole message before it returns, and then depends on the library's
// progress alone, in whatever call this rank is. Therefore a sender does not depend on a call of
// ours on the receiver, with one exception. The receiver may be in a call of the library that
// depends on this rank, and receive no piece. After kInternodePatienceNs without a piece received,
// the send counts as complete, since the pieces are copies of the buffer; this rank sends no
// further message by internode pipeline to that receiver.
//
// While the receiver keeps up, few buffers are in use; otherwise the message has a buffer for each
// piece.
//
// The library sends: contiguous data, synchronous and buffered sends, messages on
// intercommunicators, types without a layout, messages that need more than kMostBuffers buffers.
// The library also sends all messages of a job in which a rank is alone on its node or runs without
// Manyhands, or whose library itself packs as fast (Open MPI). A send cannot be cancelled.
//
// This file starts and ends the internode pipelines. send.hpp and receive.hpp have the two ends,
// pieces.hpp has their common part.
#pragma once

namespace mh::mpi::internode {

// Collective over MPI_COMM_WORLD: finds out whether the ranks of all nodes can use internode
// pipelines (config.internode).
void start();
// Waits until every message has been received. Pieces of messages that no receive has matched are
// discarded. is_receiving() is true while the program has a started receive, whose message may
// still come.
void stop(bool (*is_receiving)());

// Advances the sends and receives under way. A step of the wait loop; never blocks.
void progress();

}  // namespace mh::mpi::internode
