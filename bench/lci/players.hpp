// SPDX-License-Identifier: BSD-3-Clause
// The common part of ping_pong.cpp and of the same benchmark over MPI (mpi_threads.cpp) and over
// LCI v2 (lci_v2.cpp): computation between messages, and the rate that compare.py reads. The last
// two programs play with threads in place of light tasks.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <thread>
#include <vector>

// Computes for about `cycles` clock cycles: a step, a multiplication followed by an addition, takes
// four.
inline void compute(std::uint64_t cycles) {
  volatile std::uint64_t result = 1;
  std::uint64_t number = result;
  for (std::uint64_t i = 0; i < cycles / 4; ++i) number = number * 0x5851F42D4C957F2DU + 1;
  result = number;
}

// Prints messages a second if `window` is above 1, else round trips a second. A round has `window`
// messages of rank 0 and an answer; with a window of 1, a round is a round trip.
inline void print_rate(double rounds_a_second, std::size_t window) {
  if (window > 1) {
    std::printf("%10.0f messages/s", rounds_a_second * static_cast<double>(window));
  } else {
    std::printf("%10.0f round trips/s", rounds_a_second);
  }
}

// Calls play(i) in a thread of its own for each i below `threads`. Each call plays `rounds` rounds.
// Prints the rate at rank 0.
template <class Play>
void let_play(int rank, int threads, int rounds, std::size_t window, Play play) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::thread> players;
  for (int i = 0; i < threads; ++i) players.emplace_back(play, i);
  for (std::thread& player : players) player.join();
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  if (rank != 0) return;
  std::printf("%d threads: ", threads);
  print_rate(static_cast<double>(threads) * rounds / spent.count(), window);
  std::printf("\n");
}
