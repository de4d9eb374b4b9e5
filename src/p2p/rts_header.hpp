// SPDX-License-Identifier: BSD-3-Clause
// The small message that travels in place of a large one.
//
// The MPI library matches it like any message, so order, wildcards and unexpected messages are the
// library's own. 96 bytes: divisible by 2, 4, 8, 12, 16, 24, 32 and 48, so that a receive typed
// with any common element gets whole elements. A user's own message is never taken for one: it
// would need this size and the job's random 128-bit key in front.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <type_traits>

namespace mh::p2p {

struct RtsHeader {
  std::uint64_t key[2];      // the same for all ranks that may rendezvous sends to each other
  std::uint32_t sender;      // rank on the node
  std::uint32_t slot;        // of its send table, or, on another node, of its internode pipelines
  std::uint64_t bytes;       // of the whole message
  std::uint64_t generation;  // of the slot: which of its uses; or which of the messages to `to`
  // Messages to another node only, else 0: the ranks in MPI_COMM_WORLD of the two, counted from 1,
  // and the bytes of the pieces it comes in.
  std::uint32_t from_world = 0;
  std::uint32_t to_world = 0;
  std::uint64_t piece = 0;
  std::uint64_t seal[5] = {};  // follows from the fields above: all of it is there
};

inline constexpr std::size_t kRtsBytes = 96;
static_assert(sizeof(RtsHeader) == kRtsBytes);
static_assert(std::is_trivially_copyable_v<RtsHeader> && std::is_standard_layout_v<RtsHeader>);

// Whether the first bytes of a received message open like a descriptor of this job. The message
// must be at least kRtsBytes long; that it is exactly so long is for the caller to check.
inline bool opens_rts(const void* message, const std::uint64_t (&key)[2]) {
  return std::memcmp(message, key, sizeof key) == 0;
}

// The seal lets a rank that sees a descriptor in memory, without a word from the MPI library, tell
// that the library has finished writing it.
inline std::uint64_t seal_word(const RtsHeader& descriptor, std::uint64_t index) {
  const std::uint64_t fields[] = {std::uint64_t{descriptor.sender} << 32U | descriptor.slot,
                                  descriptor.bytes, descriptor.generation,
                                  std::uint64_t{descriptor.from_world} << 32U | descriptor.to_world,
                                  descriptor.piece};
  std::uint64_t word = descriptor.key[1] + index;
  for (const std::uint64_t field : fields) {
    word = (word ^ field) * 0x9e3779b97f4a7c15ULL;
    word ^= word >> 32U;
  }
  return word;
}
inline void seal(RtsHeader& descriptor) {
  for (std::uint64_t i = 0; i < std::size(descriptor.seal); ++i) {
    descriptor.seal[i] = seal_word(descriptor, i);
  }
}
inline bool is_sealed(const RtsHeader& descriptor) {
  for (std::uint64_t i = 0; i < std::size(descriptor.seal); ++i) {
    if (descriptor.seal[i] != seal_word(descriptor, i)) return false;
  }
  return true;
}

}  // namespace mh::p2p
