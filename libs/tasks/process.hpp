// SPDX-License-Identifier: BSD-3-Clause
// One rank while a task collection is processed: worker as long as it has tasks, thief after that,
// until termination is detected (HPDC 2012, section 6).
//
// The rank is a state machine. Who drives it runs tasks and carries messages:
//
//   for (;;) switch (process.next(task)) {
//     case NextStep::run:    run the task; process.ran(ns); break;
//     case NextStep::wait:   the next message: receive(), or serve() if it is `steal`; break;
//     case NextStep::pause:  the same, but after pause_ns() resume(); break;
//     case NextStep::ended:  return;
//   }
//
// serve() may be called by another thread at any time, also while a task runs: it touches the deque
// alone. Retention (StealRet) is the driver's: it logs what it has run, to begin with that again.
//
// A failed attempt is followed by a pause that doubles, from Patience::shortest_ns to a small part
// of what its tasks take, so that the many thieves at the end of an iteration do not keep the
// victims' nodes from serving those that could succeed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "tasks/message.hpp"
#include "tasks/termination.hpp"
#include "tasks/victims.hpp"

namespace mh::tasks {

struct Patience {
  std::uint64_t shortest_ns = 2'000;
  std::uint64_t longest_ns = 50'000'000;  // and no longer than a 32nd of the rank's own tasks
};

// The same for all ranks.
struct Rules {
  Places places;
  VictimChoice choice = VictimChoice::random;
  std::uint32_t arity = 2;  // of the termination tree
  bool steal = true;
  std::uint32_t most_per_steal = 1024;  // 64 KB of tasks of 64 bytes
  Patience patience;
  std::uint64_t seed = 1;
};

enum class NextStep : std::uint8_t { run, wait, pause, ended };

template <Transport T, class Tasks>
class Process {
 public:
  using Task = typename std::remove_reference_t<Tasks>::Task;

  // `Tasks` may be a reference. `rules` outlives this.
  Process(T transport, Tasks tasks, std::uint32_t rank, const Rules& rules)
      : tasks_(tasks),
        transport_(transport),
        rules_(&rules),
        termination_(rank, rules.places.ranks, rules.arity),
        victims_(rules.choice, rank, rules.seed) {}

  NextStep next(Task& task) {
    if (requested_) return NextStep::wait;
    if (tasks_.get(task)) return NextStep::run;
    if (termination_.idle(tasks_.steals(), sender())) return NextStep::ended;
    if (paused_ || !rules_->steal || rules_->places.ranks < 2) return NextStep::wait;
    return pause_ns_ != 0 ? rest(pause_ns_) : request();
  }
  // After NextStep::run; how long it took.
  void ran(std::uint64_t ns) {
    mean_ns_ = mean_ns_ == 0 ? ns : mean_ns_ - mean_ns_ / kMeanOver + ns / kMeanOver;
    tasks_.keep(kKeepNs / std::max<std::uint64_t>(mean_ns_, 1));
  }
  // After NextStep::pause.
  [[nodiscard]] std::uint64_t pause_ns() const { return pause_ns_; }
  void resume() {
    paused_ = false;
    last_pause_ns_ = std::exchange(pause_ns_, 0);
  }

  // Any message but `steal`.
  void receive(const Message& message) {
    if (message.kind == MessageKind::work) {
      tasks_.landed(message.count);
      ++successes_;
      requested_ = false;
      last_pause_ns_ = 0;
      victims_.succeeded();
    } else if (message.kind == MessageKind::nothing) {
      requested_ = false;
      pause_ns_ = std::clamp(2 * last_pause_ns_, rules_->patience.shortest_ns, longest_pause());
    } else {
      termination_.receive(message, sender());
    }
  }
  // A thief's request. Any thread.
  void serve(const Message& message) requires TaskTransport<T> {
    const Reservation taken = tasks_.reserve(std::min(message.count, rules_->most_per_steal));
    if (taken.count == 0) {
      transport_.send(message.from, Message{.kind = MessageKind::nothing});
    } else {
      transport_.send_tasks(message.from, taken);
    }
  }

  Tasks& tasks() { return tasks_; }
  [[nodiscard]] std::uint32_t attempts() const { return attempts_; }
  [[nodiscard]] std::uint32_t successes() const { return successes_; }
  [[nodiscard]] std::uint32_t rounds() const { return termination_.rounds(); }

 private:
  [[nodiscard]] std::uint64_t longest_pause() const {
    const Patience& patience = rules_->patience;
    return std::clamp(mean_ns_ / kPausesOfTask, patience.shortest_ns, patience.longest_ns);
  }
  NextStep rest(std::uint64_t for_ns) {
    pause_ns_ = for_ns;
    paused_ = true;
    return NextStep::pause;
  }
  NextStep request() {
    const std::uint32_t room = tasks_.room();
    if (room == 0) return rest(rules_->patience.shortest_ns);  // its own are still copied away
    ++attempts_;
    requested_ = true;
    transport_.send(victims_.next(rules_->places),
                    Message{.kind = MessageKind::steal, .count = room});
    return NextStep::wait;
  }
  auto sender() {
    return [this](std::uint32_t to, const Message& message) { transport_.send(to, message); };
  }

  // A worker keeps tasks for so long from thieves: some hundred times what the deque's lock costs.
  static constexpr std::uint64_t kKeepNs = 20'000;
  static constexpr std::uint64_t kMeanOver = 8;  // tasks
  static constexpr std::uint64_t kPausesOfTask = 32;

  Tasks tasks_;
  T transport_;
  const Rules* rules_;
  Termination termination_;
  Victims victims_;
  std::uint64_t mean_ns_ = 0;  // of its last tasks
  std::uint64_t pause_ns_ = 0;
  std::uint64_t last_pause_ns_ = 0;
  std::uint32_t attempts_ = 0;
  std::uint32_t successes_ = 0;
  bool requested_ = false;
  bool paused_ = false;
};

}  // namespace mh::tasks
