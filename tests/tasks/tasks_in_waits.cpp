// SPDX-License-Identifier: BSD-3-Clause
// Tasks that run while another task of their rank waits in an MPI call. Rank 0 prints the result.
//
//   tasks_in_waits one CALL SECONDS   a task of rank 0 waits in CALL (recv, barrier, wait, waitall,
//                                     waitany, probe, sendrecv) for rank 1. Rank 1 makes its call
//                                     when the eight other tasks of rank 0 have run, or after
//                                     SECONDS
//   tasks_in_waits nested             tasks wait in the wait of another task
//   tasks_in_waits questions BALANCER tasks of all ranks ask another rank and wait for its answer
#include <mpi.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string_view>
#include <thread>

#include "manyhands/tasks.hpp"

namespace {

namespace tasks = mh::tasks;
using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kOthers = 8;
constexpr int kTag = 7;

int rank() {
  int number = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &number);
  return number;
}

// A counter in memory that ranks 0 and 1 share.
class SharedCount {
 public:
  SharedCount() {
    void* memory = nullptr;
    MPI_Aint size = rank() == 0 ? MPI_Aint{64} : MPI_Aint{0};
    int unit = 0;
    MPI_Win_allocate_shared(size, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window_);
    MPI_Win_shared_query(window_, 0, &size, &unit, &memory);
    if (rank() == 0) new (memory) std::atomic<std::uint64_t>(0);
    MPI_Barrier(MPI_COMM_WORLD);
    value_ = static_cast<std::atomic<std::uint64_t>*>(memory);
  }
  ~SharedCount() { MPI_Win_free(&window_); }
  SharedCount(const SharedCount&) = delete;
  SharedCount& operator=(const SharedCount&) = delete;
  std::atomic<std::uint64_t>& operator*() { return *value_; }
  void await(std::uint64_t least, double seconds) {
    const auto end = Clock::now() + std::chrono::duration<double>(seconds);
    while (value_->load() < least && Clock::now() < end) std::this_thread::yield();
  }

 private:
  MPI_Win window_ = MPI_WIN_NULL;
  std::atomic<std::uint64_t>* value_ = nullptr;
};

struct Nothing {
  std::uint64_t number;
};

// --- `one`: a wait of one task ------------------------------------------------------------------

struct One {
  SharedCount ran;
  std::string_view call;
  double seconds = 0;
  std::uint64_t in_wait = 0;
};

void wait_in(std::string_view call) {
  std::array<int, 2> words{};
  std::array<MPI_Request, 2> requests{MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  int index = 0;
  if (call == "barrier") {
    MPI_Barrier(MPI_COMM_WORLD);
  } else if (call == "recv") {
    MPI_Recv(words.data(), 1, MPI_INT, 1, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  } else if (call == "probe") {
    MPI_Probe(1, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Recv(words.data(), 1, MPI_INT, 1, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  } else if (call == "sendrecv") {
    MPI_Sendrecv(words.data(), 1, MPI_INT, 1, kTag, &words[1], 1, MPI_INT, 1, kTag, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
  } else {
    MPI_Irecv(words.data(), 1, MPI_INT, 1, kTag, MPI_COMM_WORLD, requests.data());
    if (call == "wait") MPI_Wait(requests.data(), MPI_STATUS_IGNORE);
    if (call == "waitall") MPI_Waitall(2, requests.data(), MPI_STATUSES_IGNORE);
    if (call == "waitany") MPI_Waitany(2, requests.data(), &index, MPI_STATUS_IGNORE);
  }
}

void come_to(std::string_view call) {
  int word = 1;
  if (call == "barrier") {
    MPI_Barrier(MPI_COMM_WORLD);
    return;
  }
  MPI_Send(&word, 1, MPI_INT, 0, kTag, MPI_COMM_WORLD);
  if (call != "sendrecv") return;
  MPI_Recv(&word, 1, MPI_INT, 0, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

int one(std::string_view call, double seconds) {
  One one;
  one.call = call;
  one.seconds = seconds;
  auto made = tasks::create(MPI_COMM_WORLD, {.balancer = tasks::Balancer::none, .local = &one});
  if (!made) return std::printf("no collection\n");
  const auto count = *made->define<Nothing>(
      [](tasks::Context& context, const Nothing&) noexcept { ++*context.local<One>().ran; });
  const auto meet = *made->define<Nothing>([](tasks::Context& context, const Nothing&) noexcept {
    auto& local = context.local<One>();
    if (rank() == 0) {
      wait_in(local.call);
      local.in_wait = *local.ran;
    } else {
      local.ran.await(kOthers, local.seconds);
      come_to(local.call);
    }
  });
  for (std::uint64_t i = 0; rank() == 0 && i < kOthers; ++i) {
    if (!made->add(count, {i})) return 1;
  }
  if (!made->add(meet, {0}) || !made->process()) return std::printf("failed\n");
  if (rank() != 0) return 0;
  return std::printf("in the wait %ju counted %ju in all %ju\n", std::uintmax_t{one.in_wait},
                     std::uintmax_t{made->statistics().in_waits},
                     std::uintmax_t{made->statistics().tasks});
}

// --- `nested`: waits in a wait ------------------------------------------------------------------

struct Nested {
  SharedCount begun;
  int depth = 0;
  int deepest = 0;
};

// Tasks of rank 0 wait for messages of rank 1, the second task within the wait of the first. Rank 1
// sends the messages once the second task has waited for a while.
int nested() {
  Nested nested;
  auto made = tasks::create(MPI_COMM_WORLD, {.balancer = tasks::Balancer::none, .local = &nested});
  if (!made) return std::printf("no collection\n");
  const auto ask = *made->define<Nothing>([](tasks::Context& context, const Nothing& n) noexcept {
    auto& local = context.local<Nested>();
    ++*local.begun;
    local.deepest = std::max(local.deepest, ++local.depth);
    int word = 0;
    MPI_Recv(&word, 1, MPI_INT, 1, static_cast<int>(n.number), MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    --local.depth;
  });
  const auto answer = *made->define<Nothing>([](tasks::Context& context, const Nothing&) noexcept {
    auto& local = context.local<Nested>();
    local.begun.await(2, 20);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    for (int tag = 0; tag < static_cast<int>(kOthers); ++tag) {
      MPI_Send(&tag, 1, MPI_INT, 0, tag, MPI_COMM_WORLD);
    }
  });
  for (std::uint64_t i = 0; rank() == 0 && i < kOthers; ++i) {
    if (!made->add(ask, {i})) return 1;
  }
  if (rank() == 1 && !made->add(answer, {0})) return 1;
  if (!made->process()) return std::printf("failed\n");
  if (rank() != 0) return 0;
  return std::printf("deepest %d in all %ju\n", nested.deepest,
                     std::uintmax_t{made->statistics().tasks});
}

// --- `questions`: waits of many tasks -----------------------------------------------------------

constexpr int kQuestion = 1;
constexpr int kAnswer = 2;  // the first tag of the answers under way
constexpr int kNoMore = 0;

struct Question {
  std::int32_t number;
  std::int32_t answer_tag;
};

// Answers the questions of other ranks' tasks, each after a moment.
void answer_questions(MPI_Comm comm) {
  for (;;) {
    Question question{};
    MPI_Status status;
    MPI_Recv(&question, 2, MPI_INT32_T, MPI_ANY_SOURCE, kQuestion, comm, &status);
    if (question.answer_tag == kNoMore) return;
    std::this_thread::sleep_for(std::chrono::microseconds(20));
    const std::int32_t twice = 2 * question.number;
    MPI_Send(&twice, 1, MPI_INT32_T, status.MPI_SOURCE, question.answer_tag, comm);
  }
}

struct Asking {
  MPI_Comm comm = MPI_COMM_NULL;
  int to = 0;
  int under_way = 0;
  std::array<std::uint64_t, 3> sums{};  // completed tasks, answers, errors
  tasks::Collection* collection = nullptr;
  tasks::Function<Question> function;
};

void ask(tasks::Context& context, const Question& task) noexcept {
  auto& local = context.local<Asking>();
  const Question question{task.number, kAnswer + local.under_way++};
  std::int32_t answer = 0;
  MPI_Send(&question, 2, MPI_INT32_T, local.to, kQuestion, local.comm);
  MPI_Recv(&answer, 1, MPI_INT32_T, local.to, question.answer_tag, local.comm, MPI_STATUS_IGNORE);
  --local.under_way;
  ++local.sums[0];
  local.sums[1] += static_cast<std::uint64_t>(answer);
  if (answer != 2 * question.number) ++local.sums[2];
  if (task.answer_tag == 0) return;
  // In a task, `answer_tag` has another meaning than in a message: how many more tasks follow this
  // one, each added by the one before.
  if (!local.collection->add(local.function, {task.number + 1, task.answer_tag - 1})) {
    ++local.sums[2];
  }
}

int questions(std::string_view balancer) {
  constexpr std::int32_t kSeeds = 40;
  constexpr std::int32_t kGenerations = 3;
  Asking asking;
  MPI_Comm_dup(MPI_COMM_WORLD, &asking.comm);
  asking.to = 1 - rank();
  std::thread answers(answer_questions, asking.comm);
  std::array<std::uint64_t, 4> own{};
  {
    auto made = tasks::create(MPI_COMM_WORLD,
                              {.balancer = *tasks::balancer_of(balancer), .local = &asking});
    if (!made) return std::printf("no collection\n");
    asking.collection = &*made;
    asking.function = *made->define<Question>(ask);
    for (std::int32_t i = 0; rank() == 0 && i < kSeeds; ++i) {
      if (!made->add(asking.function, {i, kGenerations})) ++asking.sums[2];
    }
    for (int iteration = 0; iteration < 3; ++iteration) {
      if (!made->process()) ++asking.sums[2];
      own[3] += made->statistics().in_waits;
      if (!made->restore()) ++asking.sums[2];
    }
  }
  const Question no_more{0, kNoMore};
  MPI_Send(&no_more, 2, MPI_INT32_T, asking.to, kQuestion, asking.comm);
  answers.join();
  for (std::size_t i = 0; i < 3; ++i) own[i] = asking.sums[i];
  std::array<std::uint64_t, 4> all{};
  MPI_Allreduce(own.data(), all.data(), 4, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
  MPI_Comm_free(&asking.comm);
  if (rank() != 0) return 0;
  return std::printf("run %ju answers %ju wrong %ju\nin waits %s\n", std::uintmax_t{all[0]},
                     std::uintmax_t{all[1]}, std::uintmax_t{all[2]}, all[3] != 0 ? "yes" : "no");
}

int run(int count, char** words) {
  const std::string_view what = count > 1 ? words[1] : "";
  if (what == "one" && count > 3) return one(words[2], std::atof(words[3]));
  if (what == "nested") return nested();
  if (what == "questions" && count > 2) return questions(words[2]);
  return std::printf("no such test\n");
}

}  // namespace

// Starts MPI with MPI_THREAD_MULTIPLE for `questions` only: there a second thread answers.
int main(int count, char** words) {
  const bool threads = count > 1 && std::string_view(words[1]) == "questions";
  int level = MPI_THREAD_SINGLE;
  MPI_Init_thread(&count, &words, threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED, &level);
  run(count, words);
  MPI_Finalize();
  return 0;
}
