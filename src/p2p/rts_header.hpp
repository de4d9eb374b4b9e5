// SPDX-License-Identifier: BSD-3-Clause
// The RTS header: the short message that a sender sends in place of a rendezvous message.
//
// The MPI library matches the header like any message, so order, wildcards and unexpected messages
// are the library's. Its 96 bytes are divisible by 2, 4, 8, 12, 16, 24, 32 and 48, so a receive of
// any common element type gets whole elements. A message of the program is not mistaken for a
// header, unless it has this size and begins with the random 128-bit key of the MPI job.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <type_traits>

namespace mh::p2p {

struct RtsHeader {
  std::uint64_t key[2];  // the same for all ranks that may send rendezvous messages to each other
  std::uint32_t sender;  // rank on the node
  std::uint32_t slot;    // in the sender's send table; in a header to another node, the SendId
  std::uint64_t bytes;   // of the whole message
  std::uint64_t generation;  // the use of the slot; to another node, the number of the message
  // These members are 0 in a header within a node. In a header to another node they are the ranks
  // of sender and receiver in MPI_COMM_WORLD, each plus 1 so that it is not 0, and the bytes of a
  // piece of the message (src/mpi/internode).
  std::uint32_t from_world = 0;
  std::uint32_t to_world = 0;
  std::uint64_t piece = 0;
  std::uint64_t seal[5] = {};  // a checksum of the fields above: the header is whole
};

inline constexpr std::size_t kRtsBytes = 96;
static_assert(sizeof(RtsHeader) == kRtsBytes);
static_assert(std::is_trivially_copyable_v<RtsHeader> && std::is_standard_layout_v<RtsHeader>);

// True if a received message begins with the key of this MPI job's headers. The message is then an
// RTS header if it also has just kRtsBytes bytes. The caller has checked that the message has at
// least so many bytes, and checks that it has no more.
inline bool opens_rts(const void* message, const std::uint64_t (&key)[2]) {
  return std::memcmp(message, key, sizeof key) == 0;
}

// Returns word `index` of the header's seal, a checksum of its other fields. The seal tells a rank
// that reads a header in a receive buffer, before the MPI library has completed the receive, that
// the library has written the whole header.
inline std::uint64_t seal_word(const RtsHeader& header, std::uint64_t index) {
  const std::uint64_t fields[] = {
      std::uint64_t{header.sender} << 32U | header.slot, header.bytes, header.generation,
      std::uint64_t{header.from_world} << 32U | header.to_world, header.piece};
  std::uint64_t word = header.key[1] + index;
  for (const std::uint64_t field : fields) {
    word = (word ^ field) * 0x9e3779b97f4a7c15ULL;
    word ^= word >> 32U;
  }
  return word;
}
inline void seal(RtsHeader& header) {
  for (std::uint64_t i = 0; i < std::size(header.seal); ++i) {
    header.seal[i] = seal_word(header, i);
  }
}
inline bool is_sealed(const RtsHeader& header) {
  for (std::uint64_t i = 0; i < std::size(header.seal); ++i) {
    if (header.seal[i] != seal_word(header, i)) return false;
  }
  return true;
}

}  // namespace mh::p2p
