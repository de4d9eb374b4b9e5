// SPDX-License-Identifier: BSD-3-Clause
// The adapter of the benchmark cases (cases.hpp) for operating-system threads, one for each task. A
// thread of fork_on() is bound to the core with its worker's number.
#include <sched.h>

#include <barrier>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "bench/ult/cases.hpp"

namespace {

void bind(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  ::sched_setaffinity(0, sizeof set, &set);
}

struct Threads {
  static constexpr bool kHeavy = true;
  static constexpr bool kPlaces = true;

  template <class F>
  static void run(int, F f) {
    f();
  }

  struct Children {
    std::vector<std::thread> all;
    void fork(bench::Function function, void* argument) { all.emplace_back(function, argument); }
    void join() {
      for (std::thread& thread : all) thread.join();
      all.clear();
    }
  };
  static void fork_on(Children& children, int worker, bench::Function function, void* argument) {
    children.all.emplace_back([=] {
      bind(worker);
      function(argument);
    });
  }
  static void yield() { ::sched_yield(); }

  struct Gate {
    std::mutex mutex;
    std::condition_variable changed;
    bool open = false;
    void wait() {
      std::unique_lock lock(mutex);
      changed.wait(lock, [this] { return open; });
      open = false;
    }
    void signal() {
      {
        const std::lock_guard lock(mutex);
        open = true;
      }
      changed.notify_one();
    }
  };
  using Lock = std::mutex;
  struct Barrier {
    std::barrier<> barrier;
    explicit Barrier(int count) : barrier(count) {}
    void wait() { barrier.arrive_and_wait(); }
  };
};

}  // namespace

int main(int count, char** words) { return bench::main<Threads>(count, words); }
