// SPDX-License-Identifier: BSD-3-Clause
// ping_pong.cpp on MPI: two ranks under MPI_THREAD_MULTIPLE, with T threads each. Every thread
// plays blocking ping-pong with the thread of the same number. compare.py compiles and runs the
// program.
//
//   mpiexec -n 2 mpi-threads THREADS ROUNDS [BYTES]
#include <mpi.h>

#include <cstdlib>
#include <vector>

#include "players.hpp"

namespace {

void play(int rank, int tag, int rounds, int bytes) {
  std::vector<char> ball(static_cast<std::size_t>(bytes));
  const int other = 1 - rank;
  for (int round = 0; round < rounds; ++round) {
    if (rank == 0) MPI_Send(ball.data(), bytes, MPI_BYTE, other, tag, MPI_COMM_WORLD);
    MPI_Recv(ball.data(), bytes, MPI_BYTE, other, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 1) MPI_Send(ball.data(), bytes, MPI_BYTE, other, tag, MPI_COMM_WORLD);
  }
}

}  // namespace

int main(int argc, char** argv) {
  int provided = 0;
  int rank = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (argc < 3 || provided != MPI_THREAD_MULTIPLE) MPI_Abort(MPI_COMM_WORLD, 2);
  const int threads = std::atoi(argv[1]);
  const int rounds = std::atoi(argv[2]);
  const int bytes = argc > 3 ? std::atoi(argv[3]) : 64;
  MPI_Barrier(MPI_COMM_WORLD);
  let_play(rank, threads, rounds, [=](int tag) { play(rank, tag, rounds, bytes); });
  MPI_Finalize();
}
