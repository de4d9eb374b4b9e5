// SPDX-License-Identifier: BSD-3-Clause
// Detects that all tasks of all ranks have run, in rounds on a tree of ranks (after Francez, 1980).
//
//   root           opens a round
//   every rank     passes the round on to its children at once; votes to its parent when the rank
//                  is idle and all its children have voted
//   a vote         is dirty if the rank was stolen from since its last vote, or a child's vote is
//   root           is idle and all children have voted: if nothing is dirty, the root sends the
//                  end down the tree; otherwise it opens the next round
//
// A rank is idle if it has no task and no request for tasks under way. The proof needs this rule
// and the rule for dirty votes:
//
//   * Assume that a task exists after a round without a dirty vote. Its rank r was idle when it
//     voted, so r got the task later, from a rank v. Rank v reserved the task after r's vote,
//     because r had no request under way. If v voted after that reservation, its vote was dirty,
//     because all its votes of earlier rounds lie before the first vote of this round. If v voted
//     before, v got tasks between its vote and the reservation. So the same holds for v and an
//     earlier moment, and so on without end, which is impossible.
//
// Cost: two messages for each rank and round. A round ends when the last busy rank is idle, so
// there are few rounds. A rank computes the numbers of its parent and children, and stores nothing
// about other ranks. Threads: the rank's worker.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tasks/message.hpp"

namespace mh::tasks {

class Termination {
 public:
  Termination(std::uint32_t rank, std::uint32_t size, std::uint32_t arity)
      : rank_(rank), size_(size), arity_(arity) {}

  // Call while the worker is idle. `steals`: Deque::steals(), by which the rank knows whether it
  // was stolen from. `send(rank, message)` sends a message. True: all tasks of all ranks have run.
  template <class Send>
  bool idle(std::uint64_t steals, Send send) {
    if (ended_) return true;
    if (rank_ == 0 && !open_) open(send);
    if (!open_ || votes_ < children()) return false;
    const bool dirty = dirty_ || steals != steals_;
    steals_ = steals;
    if (rank_ != 0) {
      open_ = false;
      send((rank_ - 1) / arity_, TaskMessage{.kind = MessageKind::vote, .dirty = dirty});
    } else if (!dirty) {
      end(send);
    } else {
      open(send);
    }
    return ended_;
  }

  // Takes a message of another rank, of kind `round`, `vote` or `ended`.
  template <class Send>
  void receive(const TaskMessage& message, Send send) {
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
    for (std::uint32_t i = 0; i < children(); ++i) send(first + i, TaskMessage{.kind = kind});
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
  std::uint64_t steals_ = 0;  // Deque::steals() at the last vote
  std::uint32_t rounds_ = 0;
  bool open_ = false;
  bool dirty_ = false;
  bool ended_ = false;
};

}  // namespace mh::tasks
