// SPDX-License-Identifier: BSD-3-Clause
// A message that a call of the program sends: its arguments, and its layout if the data has gaps.
#pragma once

#include <cstdint>

#include "mpi/compat/message.hpp"
#include "mpi/datatype/layouts.hpp"

namespace mh::mpi {

// Whether the sender of a message also receives a long message (an exchange).
enum class SendPattern : std::uint8_t {
  unknown,      // an exchange if a long receive is started
  nonblocking,  // or if long receives followed earlier nonblocking sends (ExchangeDetector)
  exchanged,
  one_way,
};

struct OutgoingMessage {
  const void* buffer;
  std::uint64_t bytes;
  int dest;
  int tag;
  MPI_Comm comm;
  SendPattern pattern = SendPattern::unknown;
  bool synchronous = false;
  // Set by choose_rendezvous() if the data has gaps: the layout of an element, their number.
  layout::LayoutPtr layout{};
  std::uint64_t count = 0;
};

}  // namespace mh::mpi
