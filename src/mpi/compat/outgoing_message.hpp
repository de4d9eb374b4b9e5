// SPDX-License-Identifier: BSD-3-Clause
// A message that a call of the program sends, as its arguments say.
#pragma once

#include <cstdint>

#include "mpi/compat/message.hpp"
#include "mpi/datatype/layouts.hpp"

namespace mh::mpi {

// Whether the sender of a message receives a long message meanwhile.
enum class SendPattern : std::uint8_t {
  unknown,      // the receives that are started tell
  nonblocking,  // likewise, and what has followed earlier nonblocking sends
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
  layout::LayoutPtr
      layout{};             // of an element, where the data has gaps; set by may_use_rendezvous()
  std::uint64_t count = 0;  // of elements, likewise
};

}  // namespace mh::mpi
