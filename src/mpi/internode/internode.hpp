// SPDX-License-Identifier: BSD-3-Clause
// Large noncontiguous messages to other nodes: packed and sent piece by piece.
//
// A message of this kind goes by *internode pipeline*. Its RTS header travels on the program's
// communicator, and the MPI library matches it. The data follow in *pieces* of the packed stream on
// a private communicator. The sender posts each piece as soon as it is packed, while helpers on
// lent cores pack the next ones (p2p/pack_pipeline.hpp). The receiver unpacks pieces that have
// arrived while further pieces are on their way.
//
// A send packs and posts the whole message before it returns. From then on it depends on the MPI
// library's progress alone, whatever call this rank is in. It depends on calls of the receiver in
// one case only. The receiver may be in a call of the library that depends on this rank, and so
// receive no piece. After tuning::kInternodePatienceNs without a received piece, the send counts as
// complete, since the pieces are copies of the send buffer. This rank then sends no further message
// by internode pipeline to that receiver.
//
// While the receiver keeps up, the sender has few piece buffers in use; otherwise a buffer for each
// piece of the message.
//
// Limits. The MPI library itself sends contiguous data, synchronous and buffered sends, messages on
// intercommunicators, datatypes without a layout, and messages that need more than kMostBuffers
// buffers. It also sends all messages of an MPI job in which a rank is alone on its node or runs
// without Manyhands, or whose library packs as fast as Manyhands (Open MPI). A send by internode
// pipeline cannot be cancelled.
//
// This file starts and ends the use of internode pipelines. send.hpp and receive.hpp have the two
// ends of a pipeline, pieces.hpp has the part that both ends use.
#pragma once

namespace mh::mpi::internode {

// Collective over MPI_COMM_WORLD: finds out whether the ranks of all nodes can use internode
// pipelines (config.internode).
void start();
// Collective over MPI_COMM_WORLD, in MPI_Finalize: waits until every message has been received.
// Pieces of messages that no receive has matched are received and discarded. is_receiving() is true
// while the program has a started receive, whose message may still come.
void stop(bool (*is_receiving)());

// Advances the sends and receives by internode pipeline that are under way on this rank. A step of
// the wait loop; never blocks.
void progress();

}  // namespace mh::mpi::internode
