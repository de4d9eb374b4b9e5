// SPDX-License-Identifier: BSD-3-Clause
// Two ranks under MPI_THREAD_MULTIPLE, each with N light tasks on W workers, or N threads (W = 0).
// Each task or thread plays blocking ping-pong with its counterpart of the same number in the other
// rank. in_mpi.py compiles and runs the program.
//
//   mpiexec -n 2 mpi-ping-pong N W ROUNDS [BYTES [WORK_NS]]
//
// WORK_NS: nanoseconds of computation before each send. Rank 0 prints the messages a second. If no
// task has ever given its worker to another task while it waited in MPI, the program fails.
#include <mpi.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <manyhands/ult.hpp>
#include <thread>
#include <vector>

namespace {

namespace ult = mh::ult;
using Clock = std::chrono::steady_clock;

struct Game {
  int rank, players, workers, rounds, bytes, work_ns;
};

void compute(int ns) {
  if (ns == 0) return;
  const auto end = Clock::now() + std::chrono::nanoseconds(ns);
  while (Clock::now() < end) continue;
}

void play(const Game& game, int tag) {
  std::vector<char> ball(static_cast<std::size_t>(game.bytes));
  const int other = 1 - game.rank;
  const auto send = [&] {
    compute(game.work_ns);
    MPI_Send(ball.data(), game.bytes, MPI_BYTE, other, tag, MPI_COMM_WORLD);
  };
  for (int round = 0; round < game.rounds; ++round) {
    if (game.rank == 0) send();
    MPI_Recv(ball.data(), game.bytes, MPI_BYTE, other, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (game.rank == 1) send();
  }
}

void play_with_threads(const Game& game) {
  std::vector<std::thread> threads;
  for (int tag = 0; tag < game.players; ++tag) threads.emplace_back([=] { play(game, tag); });
  for (std::thread& thread : threads) thread.join();
}

// Plays with light tasks. Returns the number of waits in MPI in which a task gave its worker to
// another task.
std::uint64_t play_with_tasks(const Game& game) {
  const auto workers = static_cast<unsigned>(game.workers);
  auto scheduler = ult::Scheduler::start({.workers = workers});
  if (!scheduler) return 0;
  const mh::Status ran = scheduler->run([&] {
    ult::Group group;
    for (int tag = 0; tag < game.players; ++tag) group.spawn([&game, tag] { play(game, tag); });
    (void)group.wait();
  });
  std::uint64_t parked = 0;
  for (unsigned i = 0; ran && i < workers; ++i) parked += scheduler->counters(i).parked;
  return parked;
}

}  // namespace

int main(int argc, char** argv) {
  int provided = 0;
  Game game{};
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &game.rank);
  if (argc < 4 || provided != MPI_THREAD_MULTIPLE) MPI_Abort(MPI_COMM_WORLD, 2);
  game.players = std::atoi(argv[1]);
  game.workers = std::atoi(argv[2]);
  game.rounds = std::atoi(argv[3]);
  game.bytes = argc > 4 ? std::atoi(argv[4]) : 64;
  game.work_ns = argc > 5 ? std::atoi(argv[5]) : 0;
  MPI_Barrier(MPI_COMM_WORLD);
  const auto start = Clock::now();
  std::uint64_t parked = 0;
  if (game.workers == 0) {
    play_with_threads(game);
  } else {
    parked = play_with_tasks(game);
    if (parked == 0) MPI_Abort(MPI_COMM_WORLD, 3);
  }
  const std::chrono::duration<double> spent = Clock::now() - start;
  MPI_Barrier(MPI_COMM_WORLD);
  if (game.rank == 0) {
    const double messages = 2.0 * game.players * game.rounds;
    std::printf("%.0f messages/s, parked %.2f of the receives\n", messages / spent.count(),
                static_cast<double>(parked) / (0.5 * messages));
  }
  MPI_Finalize();
}
