// SPDX-License-Identifier: BSD-3-Clause
// The counterpart of `overhead task` (overhead.cpp) with oneTBB: one thread spawns and runs empty
// tasks. Prints the median over several rounds of the nanoseconds for a task.
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/task_group.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <vector>

int main() {
  constexpr std::uint64_t kTasks = 16'384;
  using oneapi::tbb::global_control;
  const global_control control(global_control::max_allowed_parallelism, 1);
  oneapi::tbb::task_group group;
  std::vector<double> rounds;
  for (int round = 0; round < 50; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (std::uint64_t i = 0; i < kTasks; ++i) group.run([] {});
    group.wait();
    const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - start;
    rounds.push_back(time.count() / kTasks);
  }
  std::ranges::nth_element(rounds, rounds.begin() + 25);
  std::printf("task %.1f ns\n", rounds[25]);
}
