// SPDX-License-Identifier: BSD-3-Clause
// Ranks that process the tasks of a collection, in all orders in which messages arrive and tasks
// end. Every task runs once. The end is always detected, and only after all tasks have run. Two
// tests break a rule on purpose, in ForgetfulTasks and forget_request(), and expect that the end
// comes too early.
#include "tasks/process.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <string>
#include <vector>

#include "support/sanitizer.hpp"
#include "tasks/orders.hpp"

namespace mh::tasks {
namespace {

struct ArraySlots {
  using Task = std::uint32_t;
  std::array<Task, 8>* tasks;
  [[nodiscard]] std::uint64_t capacity() const { return tasks->size(); }
  void store(std::uint64_t slot, Task task) { (*tasks)[slot] = task; }
  void load(std::uint64_t slot, Task& task) const { task = (*tasks)[slot]; }
};
using Tasks = Deque<Alone, ArraySlots>;

// Tasks of a rank that, wrongly and on purpose, do not count the steals of thieves.
struct ForgetfulTasks : Tasks {
  using Tasks::Tasks;
  [[nodiscard]] std::uint64_t steals() const { return 0; }
};

enum class Rule { kept, votes_with_a_request };

// A job of kRanks ranks. Rank kSeeded begins with the tasks 1 to kTasks; task 1 adds one more task
// if kGrows. A rank whose request for tasks is refused sends another request while the ranks of the
// job have sent fewer than kAttempts. Rank 2, if there is one, first asks rank kFirst and then rank
// kSecond.
template <std::uint32_t kRanks, std::uint32_t kTasks, bool kGrows, std::uint32_t kSeeded,
          int kAttempts, std::uint32_t kFirst = 0, std::uint32_t kSecond = 1, class Own = Tasks,
          Rule kRule = Rule::kept>
class World {
 public:
  World() {
    rules_.places.ranks = kRanks;
    if (kRanks > 2) rules_.seed = find_seed();
    ranks_.reserve(kRanks);
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      ranks_.emplace_back(End{this, rank}, Own(words_[rank], ArraySlots{&slots_[rank]}), rank,
                          rules_);
    }
    for (std::uint32_t task = 1; task <= kTasks; ++task) ranks_[kSeeded].tasks().add(task);
  }

  std::string run(Choices& choices) {
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) go_on(rank);
    for (;;) {
      if (ended_[0] && left() != 0) return "ended while there are tasks";
      const std::vector<Action> possible = actions();
      if (possible.empty()) break;
      act(possible[choices.choose(possible.size())]);
    }
    for (const bool ended : ended_) {
      if (!ended) return "a rank waits for ever";
    }
    for (std::uint32_t task = 1; task <= last(); ++task) {
      if (ran_[task] != 1) return "a task was lost, or run twice";
    }
    return "";
  }

 private:
  static constexpr std::uint32_t kParent = 1;
  std::uint64_t find_seed() const {
    for (std::uint64_t seed = 1;; ++seed) {
      Victims victims(VictimChoice::random, 2, seed);
      if (victims.next(rules_.places) == kFirst && victims.next(rules_.places) == kSecond) {
        return seed;
      }
    }
  }
  static constexpr std::uint32_t last() { return kGrows ? kTasks + 1 : kTasks; }

  struct Parcel {
    TaskMessage message;
    std::vector<std::uint32_t> tasks;
  };
  struct End {
    World* world;
    std::uint32_t rank;
    void send(std::uint32_t to, TaskMessage message) { world->post(rank, to, message, {}); }
    void send_tasks(std::uint32_t to, Reservation taken) {
      auto& own = world->ranks_[rank].tasks();
      std::vector<std::uint32_t> tasks(taken.count);
      for (std::uint32_t i = 0; i < taken.count; ++i) {
        own.slots().load(own.slot(taken.first + i), tasks[i]);
      }
      own.complete(taken);
      world->post(rank, to, {.kind = MessageKind::work, .count = taken.count}, tasks);
    }
  };
  struct Action {
    enum What { deliver, end_task, resume } what;
    std::uint32_t from, to;
  };

  void post(std::uint32_t from, std::uint32_t to, TaskMessage message,
            std::vector<std::uint32_t> tasks) {
    message.from = from;
    ways_[from][to].push_back({message, std::move(tasks)});
    if (message.kind != MessageKind::steal) return;
    ++attempts_;
    asked_[from] = true;
  }
  std::vector<Action> actions() const {
    std::vector<Action> possible;
    for (std::uint32_t a = 0; a < kRanks; ++a) {
      if (running_[a] != 0) possible.push_back({Action::end_task, a, a});
      if (paused_[a] && attempts_ < kAttempts) possible.push_back({Action::resume, a, a});
      for (std::uint32_t b = 0; b < kRanks; ++b) {
        if (!ways_[a][b].empty()) possible.push_back({Action::deliver, a, b});
      }
    }
    return possible;
  }
  void act(const Action& action) {
    if (action.what == Action::deliver) {
      deliver(action.from, action.to);
    } else if (action.what == Action::end_task) {
      const std::uint32_t task = std::exchange(running_[action.to], 0);
      ++ran_[task];
      if (kGrows && task == kParent) ranks_[action.to].tasks().add(last());
      ranks_[action.to].ran(1000);
    } else {
      paused_[action.to] = false;
      ranks_[action.to].resume();
    }
    if (running_[action.to] == 0) go_on(action.to);
  }
  void deliver(std::uint32_t from, std::uint32_t to) {
    const Parcel parcel = ways_[from][to].front();
    ways_[from][to].pop_front();
    if (parcel.message.kind == MessageKind::steal) return ranks_[to].serve(parcel.message);
    auto& tasks = ranks_[to].tasks();
    std::uint64_t at = tasks.landing();
    for (const std::uint32_t task : parcel.tasks) tasks.slots().store(tasks.slot(at++), task);
    if (kRule == Rule::kept || parcel.message.kind != MessageKind::nothing) {
      ranks_[to].receive(parcel.message);
    }
  }
  void go_on(std::uint32_t rank) {
    if (ended_[rank]) return;
    std::uint32_t task = 0;
    switch (ranks_[rank].next(task)) {
      case NextStep::run:
        running_[rank] = task;
        break;
      case NextStep::pause:
        paused_[rank] = true;
        break;
      case NextStep::ended:
        ended_[rank] = true;
        break;
      case NextStep::wait:
        forget_request(rank);
        break;
    }
  }
  // If kRule says so, breaks the rule that a rank with a request under way is not idle: it acts as
  // if it had been refused.
  void forget_request(std::uint32_t rank) {
    if (kRule == Rule::kept || !std::exchange(asked_[rank], false)) return;
    ranks_[rank].receive({.kind = MessageKind::nothing});
    go_on(rank);
  }
  std::uint32_t left() const {
    std::uint32_t done = 0;
    for (const int times : ran_) done += static_cast<std::uint32_t>(times);
    return last() - done;
  }

  Rules rules_;
  std::array<std::array<std::uint32_t, 8>, kRanks> slots_{};
  std::array<DequeWords<Alone>, kRanks> words_;
  std::vector<Process<End, Own>> ranks_;
  std::array<std::array<std::deque<Parcel>, kRanks>, kRanks> ways_;
  std::array<std::uint32_t, kRanks> running_{};
  std::array<bool, kRanks> paused_{};
  std::array<bool, kRanks> ended_{};
  std::array<int, kTasks + 2> ran_{};
  int attempts_ = 0;
  std::array<bool, kRanks> asked_{};
};

void expect_holds(const Found& found, std::uint64_t at_least) {
  EXPECT_EQ(found.failure, "") << "in execution " << found.executions;
  if (test::kSanitized) return;
  EXPECT_TRUE(found.complete) << found.executions << " executions were not all";
  EXPECT_GE(found.executions, at_least);
}

constexpr std::uint64_t kMost = test::kSanitized ? 2'000 : 20'000'000;

TEST(ProcessOrders, two_ranks_end_when_all_tasks_have_run) {
  expect_holds(all_orders<World<2, 2, true, 0, 3>>(kMost), 500);
  expect_holds(all_orders<World<2, 2, true, 1, 3>>(kMost), 500);
}

TEST(ProcessOrders, three_ranks_end_when_all_tasks_have_run) {
  expect_holds(all_orders<World<3, 1, true, 1, 1>>(kMost), 1000);
}

TEST(ProcessOrders, one_rank_alone_ends) {
  expect_holds(all_orders<World<1, 3, true, 0, 0>>(kMost), 1);
}

constexpr std::uint64_t kSome = test::kSanitized ? 20'000 : 200'000;

// The jobs of the two tests with broken rules below, and a larger job, with no rule broken: no
// order that is tried fails.
TEST(ProcessOrders, larger_worlds_end_in_the_orders_that_were_tried) {
  EXPECT_EQ((some_orders<World<3, 2, false, 1, 3, 0, 1>>(kSome / 10)), "");
  EXPECT_EQ((some_orders<World<3, 2, false, 1, 2, 1, 0>>(kSome / 10)), "");
  EXPECT_EQ((some_orders<World<5, 4, true, 1, 12, 0, 1>>(kSome / 10)), "");
}

// Rank 2 votes for the end of the job. Rank 1 gives a task to rank 2 and then votes as well. Rank 1
// has not counted this steal, so the job ends while rank 2 has the task.
TEST(ProcessOrders, steals_that_are_forgotten_end_it_too_early) {
  using Forgetful = World<3, 2, false, 1, 3, 0, 1, ForgetfulTasks>;
  EXPECT_EQ(some_orders<Forgetful>(kSome), "ended while there are tasks");
}

// Rank 2 votes twice for the end of the job while a task that it asked for is on its way to it.
TEST(ProcessOrders, a_vote_with_a_request_under_way_ends_it_too_early) {
  using Hasty = World<3, 2, false, 1, 2, 1, 0, Tasks, Rule::votes_with_a_request>;
  EXPECT_EQ(some_orders<Hasty>(kSome), "ended while there are tasks");
}

struct NoTransport {
  void send(std::uint32_t /*to*/, TaskMessage /*message*/) {}
};

// A thief's pause between requests follows the mean time of all its tasks. A rank that has retained
// tasks (Retention) runs the longest first. If only its last tasks counted, the pauses would be too
// short.
TEST(Pauses, grow_to_a_32nd_of_the_mean_of_all_tasks) {
  std::array<std::uint32_t, 8> memory{};
  DequeWords<Alone> words;
  Rules rules;
  rules.places.ranks = 2;
  Process<NoTransport, Tasks> process({}, Tasks(words, ArraySlots{&memory}), 1, rules);
  constexpr std::uint64_t kLong = 320'000'000;
  process.ran(kLong);
  for (int i = 0; i < 9; ++i) process.ran(1'000);
  std::uint64_t longest = 0;
  std::uint32_t task = 0;
  for (int i = 0; i < 64; ++i) {
    const NextStep step = process.next(task);
    if (step == NextStep::wait) process.receive({.kind = MessageKind::nothing});
    if (step != NextStep::pause) continue;
    longest = std::max(longest, process.pause_ns());
    process.resume();
  }
  EXPECT_NEAR(static_cast<double>(longest), kLong / 10.0 / 32, 1'000);
}

}  // namespace
}  // namespace mh::tasks
