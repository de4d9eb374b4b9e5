// SPDX-License-Identifier: BSD-3-Clause
// Threads at one deque, and sixteen ranks that are threads, with late messages. ThreadSanitizer
// checks that the copies of tasks are ordered.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "support/sanitizer.hpp"
#include "tasks/process.hpp"

namespace mh::tasks {
namespace {

struct Work {
  std::uint32_t id;
  std::array<std::uint32_t, 15> copies;  // 64 bytes in all, each word the same
};
Work make(std::uint32_t id) {
  Work work{};
  work.id = id;
  work.copies.fill(id);
  return work;
}
bool whole(const Work& work) {
  for (const std::uint32_t copy : work.copies) {
    if (copy != work.id) return false;
  }
  return true;
}

struct WorkSlots {
  using Task = Work;
  Work* works;
  std::uint64_t count;
  [[nodiscard]] std::uint64_t capacity() const { return count; }
  void store(std::uint64_t slot, const Work& work) { works[slot] = work; }
  void load(std::uint64_t slot, Work& work) const { work = works[slot]; }
};
using WorkDeque = Deque<Shared, WorkSlots>;

constexpr std::uint32_t kWorks = test::kSanitized ? 20'000 : 200'000;

TEST(DequeStress, a_worker_and_three_thieves_take_every_task_once) {
  std::array<Work, 32> slots{};
  DequeWords<Shared> words;
  WorkDeque deque(words, {slots.data(), slots.size()});
  std::vector<std::atomic<int>> taken(kWorks);
  std::atomic<std::uint32_t> left{kWorks};
  std::atomic<bool> torn{false};
  const auto took = [&](const Work& work) {
    if (!whole(work)) torn = true;
    ++taken[work.id];
    --left;
  };
  std::vector<std::thread> thieves;
  for (std::uint32_t thief = 1; thief <= 3; ++thief) {
    thieves.emplace_back([&, thief] {
      while (left != 0) {
        const Reservation mine = deque.reserve(4 * thief);
        for (std::uint32_t i = 0; i < mine.count; ++i) {
          Work work;
          deque.slots().load(deque.slot(mine.first + i), work);
          took(work);
        }
        if (mine.count == 0)
          std::this_thread::yield();
        else
          deque.complete(mine);
      }
    });
  }
  Work work;
  for (std::uint32_t id = 0; id < kWorks; ++id) {
    while (!deque.add(make(id))) {
      if (deque.get(work)) took(work);
    }
    if (id % 1000 == 0) deque.keep(id % 7 + 1);
  }
  while (deque.get(work)) took(work);
  for (std::thread& thief : thieves) thief.join();
  EXPECT_FALSE(torn);
  for (const auto& times : taken) ASSERT_EQ(times, 1);
}

// --- ranks that are threads ---------------------------------------------------------------------

constexpr std::uint32_t kRanks = 16;
constexpr std::uint32_t kSeeded = 64;                             // seeds, all on rank 0
constexpr std::uint32_t kGenerations = test::kSanitized ? 4 : 7;  // each task adds two tasks
constexpr std::uint32_t kAll = kSeeded * ((1U << kGenerations) - 1);

class Job;
struct Mail {
  std::mutex mutex;
  std::deque<std::pair<std::chrono::steady_clock::time_point, TaskMessage>> queue;
  std::vector<Work> stolen;  // the tasks of the only `work` message under way
};
struct MailEnd {
  Job* job;
  std::uint32_t rank;
  void send(std::uint32_t to, TaskMessage message);
  void send_tasks(std::uint32_t to, Reservation tasks);
};

class Job {
 public:
  Job() {
    rules_.places = {kRanks, 4, 2};
    rules_.choice = VictimChoice::hierarchical;
    rules_.patience = {.shortest_ns = 1'000, .longest_ns = 100'000};
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      slots_[rank].resize(1024);
      const WorkSlots slots{slots_[rank].data(), slots_[rank].size()};
      ranks_.push_back(std::make_unique<Process<MailEnd, WorkDeque>>(
          MailEnd{this, rank}, WorkDeque(words_[rank], slots), rank, rules_));
    }
    for (std::uint32_t i = 0; i < kSeeded; ++i) ranks_[0]->tasks().add(make(0));
  }

  // Plays a rank, on a thread of its own. The id of a task is its generation: a task adds two tasks
  // of the next generation, up to kGenerations.
  void work(std::uint32_t rank) {
    auto& self = *ranks_[rank];
    Work task;
    for (;;) {
      receive(rank);
      switch (self.next(task)) {
        case NextStep::run:
          if (!whole(task)) torn = true;
          if (task.id + 1 < kGenerations) {
            for (int i = 0; i < 2; ++i) {
              if (!self.tasks().add(make(task.id + 1))) full = true;
            }
          }
          self.ran(100);
          ++ran;
          break;
        case NextStep::pause:
          std::this_thread::sleep_for(std::chrono::nanoseconds(self.pause_ns()));
          self.resume();
          break;
        case NextStep::wait:
          std::this_thread::yield();
          break;
        case NextStep::ended:
          if (ran != kAll) early = true;
          return;
      }
    }
  }

  std::atomic<std::uint32_t> ran{0};
  std::atomic<bool> torn{false}, full{false}, early{false};

 private:
  friend struct MailEnd;

  void post(std::uint32_t to, const TaskMessage& message) {
    // Messages between each pair of ranks have a delay of their own. The messages of a pair keep
    // their order, because the order of the queue does not depend on delays.
    const auto delay = std::chrono::microseconds((message.from * 7 + to * 3) % 50);
    const std::lock_guard lock(mail_[to].mutex);
    mail_[to].queue.emplace_back(std::chrono::steady_clock::now() + delay, message);
  }
  void receive(std::uint32_t rank) {
    for (;;) {
      TaskMessage message;
      std::vector<Work> stolen;
      {
        const std::lock_guard lock(mail_[rank].mutex);
        auto& queue = mail_[rank].queue;
        if (queue.empty() || queue.front().first > std::chrono::steady_clock::now()) return;
        message = queue.front().second;
        queue.pop_front();
        if (message.kind == MessageKind::work) stolen.swap(mail_[rank].stolen);
      }
      auto& tasks = ranks_[rank]->tasks();
      std::uint64_t at = tasks.landing();
      for (const Work& work : stolen) tasks.slots().store(tasks.slot(at++), work);
      ranks_[rank]->receive(message);
    }
  }

  Rules rules_;
  std::array<std::vector<Work>, kRanks> slots_;
  std::array<DequeWords<Shared>, kRanks> words_;
  std::vector<std::unique_ptr<Process<MailEnd, WorkDeque>>> ranks_;
  std::array<Mail, kRanks> mail_;
};

// Sends a message to rank `to`. A request for tasks is served at once, by the thief's own thread,
// while the victim works.
void MailEnd::send(std::uint32_t to, TaskMessage message) {
  message.from = rank;
  if (message.kind == MessageKind::steal) return job->ranks_[to]->serve(message);
  job->post(to, message);
}
void MailEnd::send_tasks(std::uint32_t to, Reservation taken) {
  auto& own = job->ranks_[rank]->tasks();
  {
    const std::lock_guard lock(job->mail_[to].mutex);
    job->mail_[to].stolen.resize(taken.count);
    for (std::uint32_t i = 0; i < taken.count; ++i) {
      own.slots().load(own.slot(taken.first + i), job->mail_[to].stolen[i]);
    }
  }
  own.complete(taken);
  job->post(to, {.kind = MessageKind::work, .from = rank, .count = taken.count});
}

TEST(ProcessStress, sixteen_ranks_with_late_messages_run_every_task_and_then_end) {
  for (int round = 0; round < 3; ++round) {
    Job job;
    std::vector<std::thread> threads;
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      threads.emplace_back([&job, rank] { job.work(rank); });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(job.ran, kAll);
    EXPECT_FALSE(job.torn || job.full || job.early);
  }
}

}  // namespace
}  // namespace mh::tasks
