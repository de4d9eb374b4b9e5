// SPDX-License-Identifier: BSD-3-Clause
// The benchmark of queue_messages.cpp over MPI: rank 0 sends WINDOW messages of BYTES, and rank 1
// answers. With `probe`, the receiver probes for a message, allocates a buffer of the message's
// size and receives. With `known`, the receiver posts receives of the known size. The difference of
// the two times is the cost of probing. unknown_sizes.py compiles and runs the program.
//
//   mpiexec -n 2 mpi-messages probe|known ROUNDS BYTES [WINDOW]
#include <mpi.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "players.hpp"

namespace {

void send(std::vector<char>& data, int count, int other) {
  std::vector<MPI_Request> requests(static_cast<std::size_t>(count));
  const auto bytes = static_cast<int>(data.size());
  for (MPI_Request& request : requests) {
    MPI_Isend(data.data(), bytes, MPI_BYTE, other, 0, MPI_COMM_WORLD, &request);
  }
  MPI_Waitall(count, requests.data(), MPI_STATUSES_IGNORE);
}

void receive_unknown(int count) {
  for (int i = 0; i < count; ++i) {
    MPI_Status status;
    int found = 0;
    while (found == 0) MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &found, &status);
    int bytes = 0;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    std::vector<char> came(static_cast<std::size_t>(bytes));
    MPI_Recv(came.data(), bytes, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD,
             MPI_STATUS_IGNORE);
  }
}

void receive_known(std::vector<char>& data, int count, int other) {
  std::vector<MPI_Request> requests(static_cast<std::size_t>(count));
  std::vector<char> came(data.size() * static_cast<std::size_t>(count));
  const auto bytes = static_cast<int>(data.size());
  char* to = came.data();
  for (MPI_Request& request : requests) {
    MPI_Irecv(to, bytes, MPI_BYTE, other, 0, MPI_COMM_WORLD, &request);
    to += bytes;
  }
  MPI_Waitall(count, requests.data(), MPI_STATUSES_IGNORE);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (argc < 4) MPI_Abort(MPI_COMM_WORLD, 2);
  const bool probes = std::string_view(argv[1]) == "probe";
  const int rounds = std::atoi(argv[2]);
  std::vector<char> data(static_cast<std::size_t>(std::atol(argv[3])));
  const int window = argc > 4 ? std::atoi(argv[4]) : 1;
  const int other = 1 - rank;
  const auto receive = [&](int count) {
    probes ? receive_unknown(count) : receive_known(data, count, other);
  };
  MPI_Barrier(MPI_COMM_WORLD);
  const auto start = std::chrono::steady_clock::now();
  for (int round = 0; round < rounds; ++round) {
    rank == 0 ? send(data, window, other) : receive(window);
    rank == 0 ? receive(1) : send(data, 1, other);
  }
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  if (rank == 0) {
    print_rate(rounds / spent.count(), static_cast<std::size_t>(window));
    std::printf("\n");
  }
  MPI_Finalize();
}
