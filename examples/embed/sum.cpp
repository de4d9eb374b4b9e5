// SPDX-License-Identifier: BSD-3-Clause
// Adds the numbers below 1000 by a tree of light tasks.
#include <cstdio>
#include <manyhands/ult.hpp>

namespace ult = mh::ult;

static int sum(int from, int to) {
  if (to - from == 1) return from;
  const int middle = from + (to - from) / 2;
  int left = 0;
  ult::Group child;
  child.spawn([&] { left = sum(from, middle); });
  const int right = sum(middle, to);
  return child.wait() ? left + right : -1;  // -1 if there was no memory for a task's stack
}

int main() {
  auto scheduler = ult::Scheduler::start();
  if (!scheduler) return 1;
  return scheduler->run([] { std::printf("the sum is %d\n", sum(0, 1000)); }) ? 0 : 1;
}
