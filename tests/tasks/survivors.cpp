// SPDX-License-Identifier: BSD-3-Clause
// A collection over a real MPI. One rank dies in a task of the second iteration. The results of
// tasks lie in a window that the ranks share. Prints a line for each survivor.
//
//   survivors BALANCER
//
// The launcher must let the other ranks live. MPI_Finalize would wait for the dead rank, so the
// survivors end without it.
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <thread>

#include "manyhands/tasks.hpp"

namespace {

namespace tasks = mh::tasks;

constexpr std::uint32_t kTasks = 300;
constexpr std::size_t kIterations = 4;
constexpr std::uint32_t kDeadly = 150;

struct Results {
  std::array<std::array<std::atomic<std::uint32_t>, kTasks>, kIterations> ended;
  std::atomic<std::uint32_t> deaths;
};
struct Work {
  std::uint32_t id;
};
struct Local {
  Results* results = nullptr;
  std::size_t iteration = 0;
};

void work(tasks::Context& context, const Work& task) noexcept {
  auto& local = context.local<Local>();
  std::this_thread::sleep_for(std::chrono::microseconds(500));
  const bool deadly = local.iteration == 1 && task.id == kDeadly;
  if (deadly && local.results->deaths++ == 0) raise(SIGKILL);
  ++local.results->ended[local.iteration][task.id];
}

Results* shared(int rank) {
  void* memory = nullptr;
  MPI_Win window = MPI_WIN_NULL;
  const MPI_Aint own = rank == 0 ? sizeof(Results) : 0;
  MPI_Win_allocate_shared(own, 1, MPI_INFO_NULL, MPI_COMM_WORLD, static_cast<void*>(&memory),
                          &window);
  MPI_Aint size = 0;
  int unit = 0;
  MPI_Win_shared_query(window, 0, &size, &unit, static_cast<void*>(&memory));
  if (rank == 0) new (memory) Results{};
  MPI_Barrier(MPI_COMM_WORLD);
  return static_cast<Results*>(memory);
}

bool each_once(const Results& results, std::size_t iteration) {
  return std::ranges::all_of(results.ended[iteration],
                             [](const auto& times) { return times == 1; });
}

int run(int rank, std::string_view balancer) {
  Local local{.results = shared(rank)};
  const tasks::Config config{
      .balancer = *tasks::balancer_of(balancer), .local = &local, .survive_loss = true};
  auto made = tasks::create(MPI_COMM_WORLD, config);
  if (!made) return std::printf("no collection: %s\n", mh::describe(made.status().code));
  const auto function = *made->define<Work>(work);
  for (std::uint32_t id = 0; rank == 0 && id < kTasks; ++id) {
    if (!made->add(function, {id})) return std::printf("not added\n");
  }
  std::size_t right = 0;
  for (; local.iteration < kIterations; ++local.iteration) {
    const mh::Status status = made->process();
    if (!status) return std::printf("process: %s\n", mh::describe(status.code));
    right += each_once(*local.results, local.iteration) ? 1 : 0;
    if (!made->restore()) return std::printf("not restored\n");
  }
  return std::printf("lost %u right %zu\n", made->statistics().lost, right);
}

}  // namespace

int main(int count, char** words) {
  MPI_Init(&count, &words);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  run(rank, count > 1 ? words[1] : "");
  std::fflush(stdout);
  _exit(0);
}
