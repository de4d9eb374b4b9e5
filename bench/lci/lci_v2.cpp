// SPDX-License-Identifier: BSD-3-Clause
// The benchmark of ping_pong.cpp over LCI version 2: two processes, each with THREADS threads on
// one device. Every thread plays blocking ping-pong with the thread of the same number in the other
// process. A waiting thread makes progress and yields its core. compare.py compiles the program
// against an installed LCI and runs it.
//
//   lcrun -n 2 lci-v2 THREADS ROUNDS [BYTES]
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "lci.hpp"
#include "players.hpp"

namespace {

// Calls `call`, which posts a send or a receive, until LCI takes it; makes progress in between. If
// the operation is then under way (posted), makes progress until `done` is signaled.
template <class Call>
void complete(lci::comp_t done, Call call) {
  lci::status_t status = call();
  while (status.is_retry()) {
    if (!lci::progress().is_done()) std::this_thread::yield();
    status = call();
  }
  if (!status.is_posted()) return;
  while (!lci::sync_test(done, &status)) {
    if (!lci::progress().is_done()) std::this_thread::yield();
  }
}

void play(int rank, int thread, int rounds, std::size_t bytes) {
  std::vector<char> ball(bytes);
  const int other = 1 - rank;
  const auto tag = static_cast<lci::tag_t>(thread);
  lci::comp_t done = lci::alloc_sync();
  const auto send = [&] {
    complete(done, [&] { return lci::post_send(other, ball.data(), bytes, tag, done); });
  };
  for (int round = 0; round < rounds; ++round) {
    if (rank == 0) send();
    complete(done, [&] { return lci::post_recv(other, ball.data(), bytes, tag, done); });
    if (rank == 1) send();
  }
  lci::free_comp(&done);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: lcrun -n 2 lci-v2 THREADS ROUNDS [BYTES]\n");
    return 2;
  }
  const int threads = std::atoi(argv[1]);
  const int rounds = std::atoi(argv[2]);
  const std::size_t bytes = argc > 3 ? static_cast<std::size_t>(std::atoi(argv[3])) : 64;
  lci::g_runtime_init();
  const int rank = lci::get_rank_me();
  if (lci::get_rank_n() != 2) return 2;
  lci::barrier();
  let_play(rank, threads, rounds, 1, [=](int thread) { play(rank, thread, rounds, bytes); });
  lci::barrier();
  lci::g_runtime_fina();
}
