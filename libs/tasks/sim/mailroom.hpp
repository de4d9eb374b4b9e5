// SPDX-License-Identifier: BSD-3-Clause
// The messages of a simulation: those under way, those that have arrived and wait to be received,
// and the tickets of their senders (Network::Ticket).
//
// A message is named by a number until it is taken. The bytes of a small message lie in its entry
// (Mail) itself. Threads: one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "manyhands/tasks/network.hpp"

namespace mh::tasks::sim {

class Mailroom {
 public:
  using Ticket = Network::Ticket;
  static constexpr Ticket kDone = 0;  // the ticket of a send that has ended

  explicit Mailroom(std::uint32_t ranks) : boxes_(std::size_t{ranks} * kTags), ended_(1, true) {}

  // Adds a message from rank `from` that is under way, and returns its number. The sender's
  // `ticket` ends when the receiver takes the message.
  std::uint32_t put(std::uint32_t from, Tag tag, std::span<const std::byte> data, Ticket ticket);
  void arrive(std::uint32_t to, std::uint32_t mail);
  // Returns the envelope of the first message with the tag that has arrived at rank `to`; nothing:
  // there is none.
  [[nodiscard]] std::optional<Network::Envelope> first(std::uint32_t to, Tag tag) const;
  // Takes the message that first() returns: copies its bytes to `data` and ends the sender's
  // ticket.
  void take(std::uint32_t to, Tag tag, std::span<std::byte> data);
  [[nodiscard]] Tag tag_of(std::uint32_t mail) const { return mails_[mail].tag; }

  Ticket new_ticket();
  void end(Ticket ticket) { ended_[static_cast<std::size_t>(ticket)] = true; }
  // True: the send of `ticket` has ended, and the ticket is no longer valid.
  bool done(Ticket ticket);

 private:
  static constexpr std::size_t kTags = 3;  // control, request, answer
  static constexpr std::size_t kSmall = 16;
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  struct Mail {
    std::array<std::byte, kSmall> small;
    std::vector<std::byte> large;
    std::uint32_t from;
    std::uint32_t bytes;
    std::uint32_t next;
    Ticket ticket;
    Tag tag;
  };
  struct Box {
    std::uint32_t first = kNone;
    std::uint32_t last = kNone;
  };
  Box& box(std::uint32_t to, Tag tag) { return boxes_[to * kTags + static_cast<std::size_t>(tag)]; }

  std::vector<Mail> mails_;
  std::vector<std::uint32_t> free_mails_;
  std::vector<Box> boxes_;
  std::vector<std::uint8_t> ended_;  // by ticket
  std::vector<Ticket> free_tickets_;
};

}  // namespace mh::tasks::sim
