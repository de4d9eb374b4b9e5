// SPDX-License-Identifier: BSD-3-Clause
// The messages that ranks exchange while they process tasks (steals, votes, the end), and the
// interface of the transport that carries them.
#pragma once

#include <concepts>
#include <cstdint>

#include "tasks/deque.hpp"

namespace mh::tasks {

enum class MessageKind : std::uint8_t {
  steal,    // thief to victim: asks for at most `count` tasks
  nothing,  // victim to thief: no tasks
  work,     // victim to thief: `count` tasks, which lie in the thief's deque from landing() on
  round,    // parent to child: a round is open (termination.hpp)
  vote,     // child to parent: the subtree is idle; `dirty`: thieves stole from the subtree
  ended,    // parent to child: all tasks have run
};

struct TaskMessage {
  MessageKind kind = MessageKind::nothing;
  bool dirty = false;
  std::uint32_t from = 0;
  std::uint32_t count = 0;
};

// The transport of one rank, which carries its messages to other ranks. Messages between two ranks
// arrive in the order of their sends. The receiver finds the sender in the message's `from`.
template <class T>
concept Transport = requires(T end, std::uint32_t to, TaskMessage message) {
  end.send(to, message);
};
// A transport of messages and tasks. send_tasks() copies the tasks that a thief has reserved from
// the sender's deque into the thief's, delivers the message `work` to the thief, and completes the
// reservation. If the transport carries messages only, other code than Process::serve() answers
// steal requests, also with `work` or `nothing`.
template <class T>
concept TaskTransport = Transport<T> && requires(T end, std::uint32_t to, Reservation tasks) {
  end.send_tasks(to, tasks);
};

}  // namespace mh::tasks
