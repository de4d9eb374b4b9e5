// SPDX-License-Identifier: BSD-3-Clause
// Three light tasks wait for a message. A fourth task stops the program, so that the debugger's
// extension can be tested on tasks that wait.
#include <csignal>
#include <cstdio>
#include <manyhands/ult.hpp>

namespace ult = mh::ult;

ult::Event message;

void wait_for_a_message() {
  message.wait();
  std::puts("got it");
}

int main() {
  ult::Config config;
  config.workers = 2;
  auto scheduler = ult::Scheduler::start(config);
  if (!scheduler) return 1;
  const mh::Status status = scheduler->run([] {
    std::atomic<int> begun{0};
    ult::Group group;
    for (int i = 0; i < 3; ++i) {
      group.spawn(
          [&begun] {
            ++begun;
            wait_for_a_message();
          },
          "receiver");
    }
    group.spawn(
        [&begun] {
          while (begun != 3) ult::yield();
          for (int i = 0; i < 100; ++i) ult::yield();  // lets all three suspend
          std::raise(SIGTRAP);
          message.set();
        },
        "trap");
    (void)group.wait();
  });
  return status ? 0 : 1;
}
