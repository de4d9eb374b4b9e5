// SPDX-License-Identifier: BSD-3-Clause
// What ranks that process tasks tell each other, and what carries it.
#pragma once

#include <concepts>
#include <cstdint>

#include "tasks/deque.hpp"

namespace mh::tasks {

enum class MessageKind : std::uint8_t {
  steal,    // thief to victim: up to `count` tasks, please
  nothing,  // victim to thief
  work,     // victim to thief: `count` tasks, which lie in the thief's deque from landing() on
  round,    // termination.hpp: a round is open
  vote,     // a subtree is idle; `dirty`: tasks may have passed it by
  ended,    // there are no tasks any more
};

struct Message {
  MessageKind kind = MessageKind::nothing;
  bool dirty = false;
  std::uint32_t from = 0;
  std::uint32_t count = 0;
};

// One rank's end of what carries messages. Messages between two ranks arrive in the order in which
// they were sent; who receives one finds its sender in `from`.
template <class T>
concept Transport = requires(T end, std::uint32_t to, Message message) {
  end.send(to, message);
};
// ... and tasks: send_tasks() copies those of a reservation in the sender's deque into the
// receiver's, delivers `work` there, and completes the reservation. A transport without has its
// thieves' requests answered elsewhere, by `work` and `nothing` all the same.
template <class T>
concept TaskTransport = Transport<T> && requires(T end, std::uint32_t to, Reservation tasks) {
  end.send_tasks(to, tasks);
};

}  // namespace mh::tasks
