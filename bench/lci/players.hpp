// SPDX-License-Identifier: BSD-3-Clause
// The common part of the variants of ping_pong.cpp whose tasks are threads. All threads play at
// once, and rank 0 prints the sum of their round trips a second for compare.py.
#pragma once

#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

// Calls play(i) in a thread for each i below `threads`; each call plays `rounds` rounds.
template <class Play>
void let_play(int rank, int threads, int rounds, Play play) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::thread> players;
  for (int i = 0; i < threads; ++i) players.emplace_back(play, i);
  for (std::thread& player : players) player.join();
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  if (rank != 0) return;
  std::printf("%d threads: %10.0f round trips/s\n", threads,
              static_cast<double>(threads) * rounds / spent.count());
}
