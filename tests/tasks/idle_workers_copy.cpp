// SPDX-License-Identifier: BSD-3-Clause
// Rank 0 sends long messages to rank 1 while ranks 2 and 3 process a collection. Rank 2 has one
// task, which lasts from before the first message until the last message has arrived: it computes
// and calls MPI_Iprobe by turns.
// Rank 3 has no task. $ROUNDS is the number of messages.
#include <mpi.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "manyhands/tasks.hpp"

namespace {

constexpr int kBytes = 4 << 20;
constexpr int kData = 1;
constexpr int kBegin = 2;
constexpr int kOver = 3;
const int kWork[2000] = {};  // read between two polls

int rank() {
  int number = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &number);
  return number;
}

void send(int rounds) {
  MPI_Recv(nullptr, 0, MPI_BYTE, 2, kBegin, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (int round = 0; round < rounds; ++round) {
    const std::vector<char> data(kBytes, static_cast<char>(round));
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Isend(data.data(), kBytes, MPI_BYTE, 1, kData, MPI_COMM_WORLD, &request);
    usleep(20'000);  // outside of MPI
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
}

bool receive(int rounds) {
  bool right = true;
  for (int round = 0; round < rounds; ++round) {
    std::vector<char> data(kBytes);
    MPI_Recv(data.data(), kBytes, MPI_BYTE, 0, kData, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (const char byte : data) right = right && byte == static_cast<char>(round);
  }
  MPI_Send(nullptr, 0, MPI_BYTE, 2, kOver, MPI_COMM_WORLD);
  return right;
}

struct Poll {
  int unused;
};
bool process(MPI_Comm comm) {
  auto made = mh::tasks::create(comm, {});
  if (!made) return false;
  const auto poll = *made->define<Poll>([](mh::tasks::Context&, const Poll&) noexcept {
    int flag = 0;
    MPI_Send(nullptr, 0, MPI_BYTE, 0, kBegin, MPI_COMM_WORLD);
    while (flag == 0) {
      for (volatile const int* i = kWork; i != kWork + 2000; ++i) static_cast<void>(*i);
      MPI_Iprobe(1, kOver, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    }
    MPI_Recv(nullptr, 0, MPI_BYTE, 1, kOver, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  });
  if (rank() == 2 && !made->add(poll, {0})) return false;
  return made->process().ok();
}

}  // namespace

int main(int count, char** words) {
  MPI_Init(&count, &words);
  const char* given = std::getenv("ROUNDS");
  const int rounds = given != nullptr ? std::atoi(given) : 10;
  MPI_Comm half = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank() / 2, rank(), &half);
  int right = 1;
  if (rank() == 0) send(rounds);
  if (rank() == 1) right = receive(rounds) ? 1 : 0;
  if (rank() >= 2) right = process(half) ? 1 : 0;
  int all = 0;
  MPI_Reduce(&right, &all, 1, MPI_INT, MPI_MIN, 0, MPI_COMM_WORLD);
  if (rank() == 0) std::puts(all == 1 ? "PASS" : "FAIL");
  MPI_Comm_free(&half);
  MPI_Finalize();
}
