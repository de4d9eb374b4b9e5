// SPDX-License-Identifier: BSD-3-Clause
// The sending end of internode pipelines (internode.hpp). Any thread.
#pragma once

#include <cstdint>
#include <optional>

#include "mpi/compat/outgoing_message.hpp"

namespace mh::mpi::internode {

// A message under way, or about to be.
using SendId = std::uint32_t;

// Whether a message is one that goes by internode pipeline. Takes an internode pipeline for it, if
// there is one. With `fin_tag`, the end of it is a message of this rank to itself on the node's
// communicator, which completes `request`; with kOwnFin the tag is the internode pipeline's own.
inline constexpr int kNoFin = -1;
inline constexpr int kOwnFin = -2;
bool may_take(const OutgoingMessage& message, MPI_Datatype type, const datatypes::Info& info);
std::optional<SendId> take(const OutgoingMessage& message, MPI_Datatype type,
                           const datatypes::Info& info, int fin_tag = kNoFin,
                           MPI_Request request = MPI_REQUEST_NULL);
// The receive of that message: the user's request. On failure the internode pipeline is given back.
int receive_fin(SendId id, MPI_Request* request);
// Packs and sends. On failure the internode pipeline is given back, and no fin will come.
int send(SendId id, const OutgoingMessage& message);
// Without a fin: waits until the receiver has it; gives the internode pipeline back.
void await(SendId id);

// MPI_Cancel: true if `request` is the fin of an internode pipeline.
bool keeps(MPI_Request request);

// Messages under way go on. Never blocks.
void progress_sends();
// Some are under way; a hint.
bool any_sends();

}  // namespace mh::mpi::internode
