// SPDX-License-Identifier: BSD-3-Clause
// Collections that survive the loss of ranks. The ranks are processes, which the tests kill at
// chosen and at random moments. The results of tasks are in memory that all processes share.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "manyhands/tasks/collection.hpp"
#include "support/sanitizer.hpp"
#include "tasks/thread_network.hpp"

namespace mh::tasks {
namespace {

constexpr std::uint32_t kRanks = 4;
constexpr std::uint32_t kSeeds = 120;
constexpr std::uint32_t kIds = 3 * kSeeds;  // each seed adds two tasks
constexpr std::size_t kIterations = 3;

// The memory that the ranks of a job share.
struct Board {
  std::atomic<std::uint32_t> at_barrier{0};
  std::atomic<std::uint32_t> running{0};  // number of tasks that have begun
  std::atomic<std::uint32_t> deaths{0};   // number of deaths in Local::deadly
  std::array<std::array<std::atomic<std::uint32_t>, kIds>, kIterations> ended{};
  std::array<std::atomic<Code>, kRanks> code{};
  std::array<std::atomic<std::uint32_t>, kRanks> lost{};
  std::array<std::atomic<bool>, kRanks> finished{};
  alignas(64) std::array<std::array<std::byte, 1U << 20U>, 2> shares;
};

// The network of ranks that are processes: shared memory and a barrier. Collections that survive
// the loss of ranks send no messages.
class ProcessNetwork final : public Network {
 public:
  ProcessNetwork(Board& board, std::uint32_t rank) : board_(board), rank_(rank) {}

  [[nodiscard]] std::uint32_t rank() const override { return rank_; }
  [[nodiscard]] std::uint32_t ranks() const override { return kRanks; }
  [[nodiscard]] std::span<const std::uint32_t> nodes() const override { return nodes_; }
  [[nodiscard]] bool threads() const override { return false; }
  Result<std::byte*> share(std::size_t bytes) override {
    auto& share = board_.shares[shares_++];
    if (bytes > share.size()) return Status{Code::full};
    return share.data();
  }
  Result<Ticket> send(std::uint32_t, Tag, std::span<const std::byte>, bool) override {
    return Status{Code::system};
  }
  Result<Ticket> barrier() override {
    ++board_.at_barrier;
    return 0;
  }
  Result<bool> done(Ticket) override { return board_.at_barrier >= kRanks; }
  Result<std::optional<Envelope>> probe(std::uint32_t, Tag) override {
    return std::optional<Envelope>();
  }
  Status take(const Envelope&, std::span<std::byte>) override { return {Code::system}; }
  Status sum(std::span<double>) override { return {Code::system}; }
  Status maximum(std::span<double>) override { return {Code::system}; }

 private:
  Board& board_;
  std::uint32_t rank_;
  std::array<std::uint32_t, 1> nodes_{0};
  std::size_t shares_ = 0;
};

struct Work {
  std::uint32_t id;
};
// The data that all tasks of one rank share.
struct Local {
  Board* board;
  std::size_t iteration = 0;
  Collection* collection = nullptr;
  Function<Work> function{};
  std::uint32_t deadly = kIds;  // the first rank that runs this task dies in the task
};

void spin(std::chrono::microseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
  }
}

void work(Context& context, const Work& task) noexcept {
  auto& local = context.local<Local>();
  Board& board = *local.board;
  ++board.running;
  for (std::uint32_t i = 0; task.id < kSeeds && i < 2; ++i) {
    if (!local.collection->add(local.function, {kSeeds + 2 * task.id + i})) std::_Exit(3);
  }
  spin(std::chrono::microseconds(20));
  if (task.id == local.deadly && board.deaths++ == 0) raise(SIGKILL);
  ++board.ended[local.iteration][task.id];
}

// A job whose ranks are processes. Ranks 0 and 1 begin with the seeds, tasks that each add two
// tasks.
struct Job {
  Job() {
    void* const memory =
        mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    board = new (memory) Board;
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  ~Job() { munmap(board, sizeof(Board)); }

  void start(Balancer balancer, std::uint32_t deadly, std::size_t iterations) {
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      const pid_t pid = fork();
      if (pid == 0) {
        iterate(rank, balancer, deadly, iterations);
        std::_Exit(0);
      }
      pids.push_back(pid);
    }
  }
  void iterate(std::uint32_t rank, Balancer balancer, std::uint32_t deadly,
               std::size_t iterations) const {
    Local local{.board = board, .deadly = deadly};
    const Config config{
        .max_tasks = 1024, .balancer = balancer, .local = &local, .survive_loss = true};
    auto made = Collection::create(std::make_unique<ProcessNetwork>(*board, rank), config);
    if (!made) return;
    local.collection = &*made;
    local.function = *made->define<Work>(work);
    for (std::uint32_t id = 0; id < kSeeds; ++id) {
      if (id % 2 == rank && !made->add(local.function, {id})) return;  // ranks 0 and 1
    }
    if (early_death == rank) raise(SIGKILL);
    for (; local.iteration < iterations; ++local.iteration) {
      board->code[rank] = made->process().code;
      board->lost[rank] = made->statistics().lost;
      if (board->code[rank] != Code::ok || !made->restore()) return;
    }
    board->finished[rank] = true;
  }
  // Waits for all ranks to end. If a rank takes too long, kills all ranks and returns false.
  bool wait() {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    bool in_time = true;
    for (const pid_t pid : pids) {
      while (waitpid(pid, nullptr, WNOHANG) == 0) {
        in_time = in_time && std::chrono::steady_clock::now() < limit;
        if (!in_time) kill(pid, SIGKILL);
        std::this_thread::sleep_for(std::chrono::microseconds(200));
      }
    }
    return in_time;
  }
  [[nodiscard]] std::uint32_t runs(std::size_t iteration) const {
    std::uint32_t all = 0;
    for (const auto& times : board->ended[iteration]) all += times;
    return all;
  }
  [[nodiscard]] bool has_all(std::size_t iteration) const {
    return std::ranges::all_of(board->ended[iteration],
                               [](const auto& times) { return times >= 1; });
  }

  Board* board;
  std::vector<pid_t> pids;
  std::uint32_t early_death = kRanks;  // this rank dies before process()
};

class Survivors : public testing::TestWithParam<Balancer> {};
INSTANTIATE_TEST_SUITE_P(Collections, Survivors,
                         testing::Values(Balancer::none, Balancer::steal, Balancer::retain),
                         [](const auto& one) { return std::string(name_of(one.param)); });

TEST_P(Survivors, run_every_task_once_if_no_rank_dies) {
  Job job;
  job.start(GetParam(), kIds, kIterations);
  ASSERT_TRUE(job.wait());
  for (std::size_t i = 0; i < kIterations; ++i) {
    EXPECT_TRUE(job.has_all(i));
    EXPECT_EQ(job.runs(i), kIds);
  }
  for (const auto& finished : job.board->finished) EXPECT_TRUE(finished);
}

// The task in which a rank dies has added two tasks before the rank dies. The task runs again and
// adds the two tasks again, so each of the two runs twice.
TEST_P(Survivors, run_the_task_again_in_which_a_rank_died) {
  Job job;
  constexpr std::uint32_t kDeadly = 60;
  job.start(GetParam(), kDeadly, kIterations);
  ASSERT_TRUE(job.wait());
  for (std::size_t i = 0; i < kIterations; ++i) {
    EXPECT_TRUE(job.has_all(i)) << i;
    EXPECT_EQ(job.runs(i), i == 0 ? kIds + 2 : kIds) << i;
    EXPECT_EQ(job.board->ended[i][kDeadly], 1U);
  }
  int finished = 0;
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    if (!job.board->finished[rank]) continue;
    ++finished;
    EXPECT_EQ(job.board->lost[rank], 1U);
  }
  EXPECT_EQ(finished, static_cast<int>(kRanks) - 1);
}

TEST_P(Survivors, say_so_if_a_rank_died_before_it_had_all_its_tasks) {
  Job job;
  job.early_death = 1;
  job.start(GetParam(), kIds, 1);
  ASSERT_TRUE(job.wait());
  for (const std::uint32_t rank : {0U, 2U, 3U}) EXPECT_EQ(job.board->code[rank], Code::gone);
  EXPECT_EQ(job.board->running, 0U);
}

// Two of four ranks are killed at random moments. The heir of a dead rank, which saves its tasks,
// may be the second to be killed. If a rank is killed between two calls of process(), the
// collection ends with Code::gone.
TEST(Survivor, runs_all_tasks_whenever_ranks_die) {
  constexpr int kRounds = test::kSanitized ? 20 : 60;
  constexpr std::array kBalancers{Balancer::none, Balancer::steal, Balancer::retain};
  std::mt19937 random(20261129);
  int saved = 0;
  for (int round = 0; round < kRounds; ++round) {
    Job job;
    job.start(kBalancers[static_cast<std::size_t>(round) % 3], kIds, kIterations);
    while (job.board->running == 0) std::this_thread::yield();
    const std::uint32_t first = random() % kRanks;
    for (const std::uint32_t rank : {first, (first + 1) % kRanks}) {
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 1500));
      kill(job.pids[rank], SIGKILL);
    }
    ASSERT_TRUE(job.wait()) << "round " << round;
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      if (!job.board->finished[rank]) continue;
      if (job.board->lost[rank] == 2) ++saved;
      for (std::size_t i = 0; i < kIterations; ++i) {
        EXPECT_TRUE(job.has_all(i)) << "round " << round << " iteration " << i;
        EXPECT_LE(job.runs(i), kIds + 2 * 3) << "round " << round << " iteration " << i;
      }
    }
  }
  EXPECT_GT(saved, 0);
}

TEST(Survivor, needs_one_node_and_a_balancer_that_moves_no_tasks) {
  ThreadJob two_nodes(2, 1, std::chrono::microseconds(0));
  ThreadJob one_node(1, 1, std::chrono::microseconds(0));
  const auto code = [](ThreadJob& job, Balancer balancer, bool server) {
    const Config config{.balancer = balancer, .server = server, .survive_loss = true};
    return Collection::create(job.network(0), config).status().code;
  };
  EXPECT_EQ(code(two_nodes, Balancer::steal, false), Code::unsupported);
  EXPECT_EQ(code(one_node, Balancer::plb_tree, false), Code::unsupported);
  EXPECT_EQ(code(one_node, Balancer::automatic, false), Code::unsupported);
  EXPECT_EQ(code(one_node, Balancer::steal, true), Code::unsupported);
  EXPECT_EQ(code(one_node, Balancer::steal, false), Code::ok);
}

}  // namespace
}  // namespace mh::tasks
