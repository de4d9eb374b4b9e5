// SPDX-License-Identifier: BSD-3-Clause
// The state machine of a rank in process(). The rank is a worker while it has tasks, and then a
// thief until termination is detected (section 6 of the paper that tasks/config.hpp names).
//
// The driver of the state machine runs tasks and carries messages:
//
//   for (;;) switch (process.next(task)) {
//     case NextStep::run:    run the task; process.ran(ns); break;
//     case NextStep::wait:   pass the next message to receive(), a `steal` to serve(); break;
//     case NextStep::pause:  the same, and call resume() after pause_ns(); break;
//     case NextStep::ended:  return;
//   }
//
// Another thread may call serve() at any time, also while a task runs, because serve() uses only
// the deque and the transport. The driver is responsible for retention (the paper's StealRet): it
// records the tasks that it has run, to begin the next iteration with them.
//
// A pause follows each failed attempt. The pause doubles, from Patience::shortest_ns to a small
// part of the duration of the rank's tasks. Without pauses, the requests of many thieves at the end
// of an iteration would delay the answers to thieves that could succeed.
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
  std::uint64_t longest_ns = 50'000'000;  // and at most 1/32 of a mean task of the rank
};

// The settings of the state machine, the same on all ranks.
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

  // `Tasks` is the rank's deque, or a reference to it. `rules` must outlive the state machine.
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
  // Call after each task that NextStep::run has asked for, with the duration of the task.
  void ran(std::uint64_t ns) {
    mean_ns_ = mean_ns_ == 0 ? ns : mean_ns_ - mean_ns_ / kMeanOver + ns / kMeanOver;
    task_sum_ns_ += ns;
    ++tasks_run_;
    tasks_.keep(kKeepNs / std::max<std::uint64_t>(mean_ns_, 1));
  }
  // The length of the pause before the next steal attempt. Valid after NextStep::pause.
  [[nodiscard]] std::uint64_t pause_ns() const { return pause_ns_; }
  void resume() {
    paused_ = false;
    last_pause_ns_ = std::exchange(pause_ns_, 0);
  }

  // Takes any message that has arrived for this rank but `steal`, which serve() takes.
  void receive(const TaskMessage& message) {
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
  // Answers the request of a thief: sends tasks of this rank's deque, or `nothing`. Any thread may
  // call this.
  void serve(const TaskMessage& message) requires TaskTransport<T> {
    const Reservation taken = tasks_.reserve(std::min(message.count, rules_->most_per_steal));
    if (taken.count == 0) {
      transport_.send(message.from, TaskMessage{.kind = MessageKind::nothing});
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
    const std::uint64_t mean_ns = task_sum_ns_ / std::max<std::uint64_t>(tasks_run_, 1);
    return std::clamp(mean_ns / kPausesOfTask, patience.shortest_ns, patience.longest_ns);
  }
  NextStep rest(std::uint64_t for_ns) {
    pause_ns_ = for_ns;
    paused_ = true;
    return NextStep::pause;
  }
  NextStep request() {
    const std::uint32_t room = tasks_.room();
    // The deque has no room for stolen tasks, although the rank has no task: thieves are still
    // copying tasks out of the slots. The rank tries again after a short pause.
    if (room == 0) return rest(rules_->patience.shortest_ns);
    ++attempts_;
    requested_ = true;
    transport_.send(victims_.next(rules_->places),
                    TaskMessage{.kind = MessageKind::steal, .count = room});
    return NextStep::wait;
  }
  auto sender() {
    return [this](std::uint32_t to, const TaskMessage& message) { transport_.send(to, message); };
  }

  // The total duration of the tasks that a worker keeps from thieves: a few hundred times the cost
  // of the deque's lock.
  static constexpr std::uint64_t kKeepNs = 20'000;
  static constexpr std::uint64_t kMeanOver = 8;       // tasks, of mean_ns_
  static constexpr std::uint64_t kPausesOfTask = 32;  // the longest pause: a 32nd of a mean task

  Tasks tasks_;
  T transport_;
  const Rules* rules_;
  Termination termination_;
  Victims victims_;
  std::uint64_t mean_ns_ = 0;  // the mean duration of the last tasks that the rank has run
  // The sum of the durations of all tasks that the rank has run, and the number of these tasks.
  // longest_pause() uses their mean. The other mean, mean_ns_, is of the latest tasks, which with
  // retention are a rank's shortest.
  std::uint64_t task_sum_ns_ = 0;
  std::uint64_t tasks_run_ = 0;
  std::uint64_t pause_ns_ = 0;
  std::uint64_t last_pause_ns_ = 0;
  std::uint32_t attempts_ = 0;
  std::uint32_t successes_ = 0;
  bool requested_ = false;
  bool paused_ = false;
};

}  // namespace mh::tasks
