// SPDX-License-Identifier: BSD-3-Clause
// The benchmark of ping_pong.cpp over MPI: two ranks under MPI_THREAD_MULTIPLE, with THREADS
// threads each. Every thread plays with the thread of the same number at the other rank: blocking
// ping-pong, or WINDOW nonblocking messages of rank 0 and an answer. Before a round, each thread
// computes for CYCLES clock cycles. compare.py compiles and runs the program.
//
//   mpiexec -n 2 mpi-threads THREADS ROUNDS [BYTES [WINDOW [CYCLES]]]
#include <mpi.h>

#include <cstdint>
#include <cstdlib>
#include <vector>

#include "players.hpp"

namespace {

struct Game {
  int rounds;
  int bytes;
  int window;
  std::uint64_t cycles;
};

void send(std::vector<char>& ball, int tag, int other) {
  const auto bytes = static_cast<int>(ball.size());
  MPI_Send(ball.data(), bytes, MPI_BYTE, other, tag, MPI_COMM_WORLD);
}

void receive(std::vector<char>& ball, int tag, int other) {
  const auto bytes = static_cast<int>(ball.size());
  MPI_Recv(ball.data(), bytes, MPI_BYTE, other, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

void move_window(int rank, int tag, const Game& game, std::vector<char>& balls,
                 std::vector<MPI_Request>& window) {
  char* ball = balls.data();
  for (MPI_Request& request : window) {
    if (rank == 0) MPI_Isend(ball, game.bytes, MPI_BYTE, 1, tag, MPI_COMM_WORLD, &request);
    if (rank == 1) MPI_Irecv(ball, game.bytes, MPI_BYTE, 0, tag, MPI_COMM_WORLD, &request);
    ball += game.bytes;
  }
  MPI_Waitall(game.window, window.data(), MPI_STATUSES_IGNORE);
}

void play(int rank, int tag, const Game& game) {
  std::vector<char> ball(static_cast<std::size_t>(game.bytes));
  std::vector<char> balls(ball.size() * static_cast<std::size_t>(game.window));
  std::vector<MPI_Request> window(static_cast<std::size_t>(game.window));
  const int other = 1 - rank;
  for (int round = 0; round < game.rounds; ++round) {
    compute(game.cycles);
    if (game.window > 1) {
      move_window(rank, tag, game, balls, window);
    } else if (rank == 0) {
      send(ball, tag, other);
    }
    if (rank == 0 || game.window == 1) receive(ball, tag, other);
    if (rank == 1) send(ball, tag, other);
  }
}

}  // namespace

int main(int argc, char** argv) {
  int provided = 0;
  int rank = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (argc < 3 || provided != MPI_THREAD_MULTIPLE) MPI_Abort(MPI_COMM_WORLD, 2);
  const auto number = [&](int at, int otherwise) {
    return argc > at ? std::atoi(argv[at]) : otherwise;
  };
  const Game game{number(2, 1), number(3, 64), number(4, 1),
                  static_cast<std::uint64_t>(number(5, 0))};
  MPI_Barrier(MPI_COMM_WORLD);
  let_play(rank, number(1, 1), game.rounds, static_cast<std::size_t>(game.window),
           [=](int tag) { play(rank, tag, game); });
  MPI_Finalize();
}
