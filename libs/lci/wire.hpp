// SPDX-License-Identifier: BSD-3-Clause
// What travels: a header of one word with each packet or put, and the two control messages of the
// rendezvous. The word goes as the transport's immediate data, so a packet's payload is the user's
// bytes alone and a short message can be sent straight from the user's buffer.
//
//   sender                                receiver
//     rts {size, sender's record}    ->     match, or find memory
//     rtr {address, key, both records} <-
//     put into the buffer, with the receiver's record  ->  complete
//   complete
//
// Into a buffer that the receiver has granted (grants.cpp) there is nothing but the put.
//
// Limits: 2^20 ranks, 256 endpoints of a device, tags of 32 bits. Both sides have one byte order.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mh::lci::detail {

enum class Wire : std::uint8_t {
  eager,    // payload: the message
  rts,      // ready to send; payload: ReadyToSend
  rtr,      // ready to receive; payload: ReadyToReceive
  credit,   // tag: how many packets of the receiver are free again
  put,      // immediate of a put; tag: the receiver's record
  hello,    // nothing but that there is a connection now
  grant,    // a buffer that one message may be put into
  granted,  // immediate of a put into such a buffer; rank: granted_place()
  chunk,    // between ranks of a node: an address, and the bytes of a put that go there
};

inline constexpr int kMaxRanks = 1 << 20;
inline constexpr int kMaxEndpoints = 256;

struct Header {
  Wire kind;
  std::uint8_t endpoint;
  std::int32_t rank;  // who sent it
  std::uint32_t tag;

  [[nodiscard]] constexpr std::uint64_t pack() const {
    return static_cast<std::uint64_t>(kind) << 60U | std::uint64_t{endpoint} << 52U |
           static_cast<std::uint64_t>(rank) << 32U | tag;
  }
  static constexpr Header unpack(std::uint64_t word) {
    return {static_cast<Wire>(word >> 60U), static_cast<std::uint8_t>(word >> 52U),
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
  std::uint64_t size;  // bytes wanted; less than the message's where the buffer is short
  std::uint32_t sender_record;
  std::uint32_t receiver_record;
};

// Whose granted buffer a put has filled, and with how many bytes: one number in the place of the
// rank, so that it must be smaller than kMaxRanks for all.
constexpr std::int32_t granted_place(int rank, std::size_t grant, std::size_t size) {
  return static_cast<std::int32_t>(static_cast<std::size_t>(rank) * (grant + 1) + size);
}

// Of a posted receive and of the messages that it matches.
constexpr std::uint64_t match_key(std::uint8_t endpoint, int rank, std::uint32_t tag) {
  return Header{Wire::eager, endpoint, rank, tag}.pack();
}
constexpr int rank_of_key(std::uint64_t key) { return Header::unpack(key).rank; }

}  // namespace mh::lci::detail
