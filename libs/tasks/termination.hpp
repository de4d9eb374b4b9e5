// SPDX-License-Identifier: BSD-3-Clause
// Whether all tasks of all ranks have been run (after Francez, 1980): rounds on a tree of ranks.
//
//   root           opens a round
//   every rank     passes it on to its children at once; votes to its parent when it is idle and
//                  all children have voted
//   a vote         is dirty if the rank has been stolen from since its last vote, or a child's was
//   root           idle, all children have voted, nothing dirty: the end, told down the tree.
//                  Else it opens the next round.
//
// Idle: no task, and no request for tasks under way. Both rules are needed:
//
//   * Say a task exists after a round without a dirty vote. Who has it, r, voted idle, so it got
//     tasks later, from v, who reserved them after r's vote, because r had no request under way.
//     If v votes after that reservation the vote is dirty: its votes of earlier rounds all lie
//     before this round's first. If v voted before, it got tasks between its vote and that
//     reservation, so the same holds for v and an earlier moment, and so on, without an end.
//
// Cost: two messages a rank and round; a round ends when the last busy rank is idle, so there are
// few. Threads: its rank's worker. A rank and its parent differ by a division, so a rank keeps
// nothing about others.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tasks/message.hpp"

namespace mh::tasks {

class Termination {
 public:
  Termination(std::uint32_t rank, std::uint32_t size, std::uint32_t arity)
      : rank_(rank), size_(size), arity_(arity) {}

  // The worker is idle. `steals`: how often it has been stolen from (Deque::steals). `send(rank,
  // message)`. True: all tasks of all ranks have been run.
  template <class Send>
  bool idle(std::uint64_t steals, Send send) {
    if (ended_) return true;
    if (rank_ == 0 && !open_) open(send);
    if (!open_ || votes_ < children()) return false;
    const bool dirty = dirty_ || steals != steals_;
    steals_ = steals;
    if (rank_ != 0) {
      open_ = false;
      send((rank_ - 1) / arity_, Message{.kind = MessageKind::vote, .dirty = dirty});
    } else if (!dirty) {
      end(send);
    } else {
      open(send);
    }
    return ended_;
  }

  // One of its messages.
  template <class Send>
  void receive(const Message& message, Send send) {
    switch (message.kind) {
      case MessageKind::round:
        open(send);
        break;
      case MessageKind::vote:
        ++votes_;
        dirty_ = dirty_ || message.dirty;
        break;
      default:
        end(send);
    }
  }

  [[nodiscard]] bool ended() const { return ended_; }
  [[nodiscard]] std::uint32_t rounds() const { return rounds_; }

 private:
  [[nodiscard]] std::uint64_t first_child() const { return std::uint64_t{rank_} * arity_ + 1; }
  [[nodiscard]] std::uint32_t children() const {
    const std::uint64_t first = std::min<std::uint64_t>(first_child(), size_);
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(first + arity_, size_) - first);
  }
  template <class Send>
  void tell_children(MessageKind kind, Send send) {
    const auto first = static_cast<std::uint32_t>(first_child());
    for (std::uint32_t i = 0; i < children(); ++i) send(first + i, Message{.kind = kind});
  }
  template <class Send>
  void open(Send send) {
    open_ = true;
    dirty_ = false;
    votes_ = 0;
    ++rounds_;
    tell_children(MessageKind::round, send);
  }
  template <class Send>
  void end(Send send) {
    ended_ = true;
    tell_children(MessageKind::ended, send);
  }

  std::uint32_t rank_;
  std::uint32_t size_;
  std::uint32_t arity_;
  std::uint32_t votes_ = 0;
  std::uint64_t steals_ = 0;  // at its last vote
  std::uint32_t rounds_ = 0;
  bool open_ = false;
  bool dirty_ = false;
  bool ended_ = false;
};

}  // namespace mh::tasks
