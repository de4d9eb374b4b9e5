// SPDX-License-Identifier: BSD-3-Clause
#include "tasks/sim/mailroom.hpp"

#include <algorithm>

namespace mh::tasks::sim {

std::uint32_t Mailroom::put(std::uint32_t from, Tag tag, std::span<const std::byte> data,
                            Ticket ticket) {
  if (free_mails_.empty()) {
    free_mails_.push_back(static_cast<std::uint32_t>(mails_.size()));
    mails_.emplace_back();
  }
  const std::uint32_t number = free_mails_.back();
  free_mails_.pop_back();
  Mail& mail = mails_[number];
  if (data.size() <= kSmall) {
    std::ranges::copy(data, mail.small.begin());
  } else {
    mail.large.assign(data.begin(), data.end());
  }
  mail.from = from;
  mail.bytes = static_cast<std::uint32_t>(data.size());
  mail.next = kNone;
  mail.ticket = ticket;
  mail.tag = tag;
  return number;
}

void Mailroom::arrive(std::uint32_t to, std::uint32_t mail) {
  Box& at = box(to, mails_[mail].tag);
  (at.first == kNone ? at.first : mails_[at.last].next) = mail;
  at.last = mail;
}

std::optional<Network::Envelope> Mailroom::first(std::uint32_t to, Tag tag) const {
  const std::uint32_t number = boxes_[to * kTags + static_cast<std::size_t>(tag)].first;
  if (number == kNone) return std::nullopt;
  return Network::Envelope{mails_[number].from, tag, mails_[number].bytes};
}

void Mailroom::take(std::uint32_t to, Tag tag, std::span<std::byte> data) {
  Box& at = box(to, tag);
  const std::uint32_t number = at.first;
  Mail& mail = mails_[number];
  at.first = mail.next;
  if (mail.bytes <= kSmall) {
    std::ranges::copy(std::span(mail.small).first(mail.bytes), data.begin());
  } else {
    std::ranges::copy(mail.large, data.begin());
    mail.large = {};
  }
  if (mail.ticket != kDone) end(mail.ticket);
  free_mails_.push_back(number);
}

Mailroom::Ticket Mailroom::new_ticket() {
  if (free_tickets_.empty()) {
    ended_.push_back(false);
    return static_cast<Ticket>(ended_.size() - 1);
  }
  const Ticket ticket = free_tickets_.back();
  free_tickets_.pop_back();
  ended_[static_cast<std::size_t>(ticket)] = false;
  return ticket;
}

bool Mailroom::done(Ticket ticket) {
  if (!ended_[static_cast<std::size_t>(ticket)]) return false;
  if (ticket != kDone) free_tickets_.push_back(ticket);
  return true;
}

}  // namespace mh::tasks::sim
