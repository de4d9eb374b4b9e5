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
// rank, and take nothing. After kPatienceNs without a piece taken a sender therefore counts as done
// (its buffer has long been free; the pieces are copies), and that receiver gets no more wires.
//
// Few buffers are used while the receiver keeps up, as many as the message needs where it does not.
//
// What stays with the library: contiguous data, synchronous and buffered sends, intercommunicators,
// types without a layout, messages that would need more than kMostBuffers buffers, and jobs in
// which not every rank has neighbours and the library in front, or whose library gains nothing
// (Open MPI). A send cannot be cancelled.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "mpi/protocol/sender.hpp"
#include "p2p/end.hpp"

namespace mh::mpi::internode {

// ---- Start and end, collective over MPI_COMM_WORLD

// Finds out whether the ranks of all nodes understand each other (config.internode).
void start();
// Waits until everything sent was received; pieces of messages that nobody wanted are thrown away.
void stop();

// ---- Sending

// A message under way, or about to be.
using SendId = std::uint32_t;

// Whether a message is one that goes by internode pipeline. Takes an internode pipeline for it, if
// there is one. With `fin_tag`, the end of it is a message of this rank to itself on the node's
// communicator, which completes `request`; with kOwnFin the tag is the internode pipeline's own.
inline constexpr int kNoFin = -1;
inline constexpr int kOwnFin = -2;
bool may_take(const Outgoing& message, MPI_Datatype type, const datatypes::Info& info);
std::optional<SendId> take(const Outgoing& message, MPI_Datatype type, const datatypes::Info& info,
                           int fin_tag = kNoFin, MPI_Request request = MPI_REQUEST_NULL);
// The receive of that message: the user's request. On failure the internode pipeline is given back.
int receive_fin(SendId wire, MPI_Request* request);
// Packs and sends. On failure the internode pipeline is given back, and no fin will come.
int send(SendId wire, const Outgoing& message);
// Without a fin: waits until the receiver has it; gives the internode pipeline back.
void await(SendId wire);

// MPI_Cancel: true if `request` is the fin of an internode pipeline.
bool keeps(MPI_Request request);

// ---- Receiving

// Whether this descriptor is of an internode pipeline to this rank that has not been taken yet.
bool is_new(const p2p::Descriptor& found);

// A message that is coming in.
class Incoming;
using IncomingPtr = std::shared_ptr<Incoming>;

// Starts to receive the first `bytes` of the packed stream to `to`, which stays valid.
IncomingPtr begin(const p2p::Descriptor& found, const p2p::End& to, layout::LayoutPtr layout,
                  std::uint64_t bytes);
// Waits for the rest of it.
void finish(Incoming& incoming);

// ---- The wait loop

// Messages under way go on. Never blocks.
void progress();

}  // namespace mh::mpi::internode
