// SPDX-License-Identifier: BSD-3-Clause
// A message that a call of the program sends: its arguments, and its layout if the data has gaps.
#pragma once

#include <cstdint>

#include "mpi/compat/message.hpp"
#include "mpi/datatype/layouts.hpp"

namespace mh::mpi {

// Tells whether a message is part of an exchange, that is, whether its sender receives a long
// message at the same time. The sender decides by this whether the message goes by rendezvous.
enum class SendPattern : std::uint8_t {
  unknown,      // part of an exchange if a long receive is started
  nonblocking,  // as `unknown`, and if p2p::ExchangeDetector expects a long receive
  exchanged,    // part of an exchange
  one_way,      // not part of an exchange
};

struct OutgoingMessage {
  const void* buffer;
  std::uint64_t bytes;
  int dest;
  int tag;
  MPI_Comm comm;
  SendPattern pattern = SendPattern::unknown;
  bool synchronous = false;
  // For MPI_PACKED: an RTS header in place of the message would end at a basic element of the type
  // that was packed (datatype/signature.hpp).
  bool holds_rts_header = false;
  // The layout of an element, and the number of elements. Set by choose_rendezvous() if the data
  // has gaps.
  layout::LayoutPtr layout{};
  std::uint64_t count = 0;
};

}  // namespace mh::mpi
