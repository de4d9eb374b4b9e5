// SPDX-License-Identifier: BSD-3-Clause
// The wire format: the header word of each packet or put, and the two control messages of the
// rendezvous. The transport carries the word as immediate data. A packet's payload is therefore the
// user's bytes alone, and a short message is sent straight from the user's buffer.
//
//   sender                                receiver
//     rts {size, sender's record}    ->     match, or find memory
//     rtr {address, key, both records} <-
//     put into the buffer, with the receiver's record  ->  complete
//   complete
//
// A record describes a large message at one end; messages name it by its number. A message into a
// granted buffer (grants.cpp) is a single put, without RTS and RTR.
//
// Limits: 2^20 ranks, 256 endpoints of a device, tags of 32 bits. All ranks have the same byte
// order.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mh::lci::detail {

enum class PacketKind : std::uint8_t {
  eager,    // payload: the message
  rts,      // ready to send; payload: ReadyToSend
  rtr,      // ready to receive; payload: ReadyToReceive
  credit,   // tag: the number of returned credits
  put,      // immediate of a put after an RTR; tag: the receiver's record
  hello,    // opens the connection, without a message
  grant,    // payload: the address and key of a buffer for one message
  granted,  // immediate of a put into a granted buffer; rank: granted_place()
  chunk,    // between ranks of a node; payload: an address, and a part of a put to that address
};

inline constexpr int kMaxRanks = 1 << 20;
inline constexpr int kMaxEndpoints = 256;

struct Header {
  PacketKind kind;
  std::uint8_t endpoint;
  std::int32_t rank;  // the sender
  std::uint32_t tag;

  [[nodiscard]] constexpr std::uint64_t pack() const {
    return static_cast<std::uint64_t>(kind) << 60U | std::uint64_t{endpoint} << 52U |
           static_cast<std::uint64_t>(rank) << 32U | tag;
  }
  static constexpr Header unpack(std::uint64_t word) {
    return {static_cast<PacketKind>(word >> 60U), static_cast<std::uint8_t>(word >> 52U),
            static_cast<std::int32_t>(word >> 32U & 0xFFFFFU), static_cast<std::uint32_t>(word)};
  }
};

struct ReadyToSend {
  std::uint64_t size;
  std::uint32_t sender_record;
};

struct ReadyToReceive {
  std::uint64_t address;
  std::uint64_t key;
  std::uint64_t size;  // bytes to be put; fewer than the message has where the buffer is short
  std::uint32_t sender_record;
  std::uint32_t receiver_record;
};

// The sender of a put into a granted buffer, and the put's size in bytes, as one number. The number
// stands in the header's rank, so may_grant() keeps it below kMaxRanks for all ranks and sizes.
constexpr std::int32_t granted_place(int rank, std::size_t grant, std::size_t size) {
  return static_cast<std::int32_t>(static_cast<std::size_t>(rank) * (grant + 1) + size);
}

// Returns the key under which the matching table keeps a posted receive and the messages that match
// it.
constexpr std::uint64_t match_key(std::uint8_t endpoint, int rank, std::uint32_t tag) {
  return Header{PacketKind::eager, endpoint, rank, tag}.pack();
}
constexpr int rank_of_key(std::uint64_t key) { return Header::unpack(key).rank; }

}  // namespace mh::lci::detail
