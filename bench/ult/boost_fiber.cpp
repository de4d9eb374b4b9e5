// SPDX-License-Identifier: BSD-3-Clause
// The adapter of the benchmark cases (cases.hpp) for Boost.Fiber. A worker is a thread. One worker
// uses the round-robin scheduler, two workers use work stealing. Boost.Fiber cannot start a fiber
// on a given thread. Therefore fork_on() starts another thread, and the case signal-cross measures
// one fiber on each of two threads.
#include <boost/fiber/all.hpp>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "bench/ult/cases.hpp"

namespace {

namespace fibers = boost::fibers;

struct BoostFiber {
  static constexpr bool kHeavy = false;
  static constexpr bool kPlaces = true;

  template <class F>
  static void run(int workers, F f) {
    if (workers == 1) return f();
    std::mutex mutex;
    fibers::condition_variable_any over;
    bool ended = false;
    std::thread second([&] {
      fibers::use_scheduling_algorithm<fibers::algo::work_stealing>(2);
      std::unique_lock lock(mutex);
      over.wait(lock, [&] { return ended; });
    });
    std::thread first([&] {
      fibers::use_scheduling_algorithm<fibers::algo::work_stealing>(2);
      f();
      {
        const std::lock_guard lock(mutex);
        ended = true;
      }
      over.notify_all();
    });
    first.join();
    second.join();
  }

  struct Children {
    std::deque<fibers::fiber> all;
    std::vector<std::thread> threads;
    void fork(bench::Function function, void* argument) {
      all.emplace_back(fibers::launch::post, function, argument);
    }
    void join() {
      for (fibers::fiber& fiber : all) fiber.join();
      for (std::thread& thread : threads) thread.join();
      all.clear();
      threads.clear();
    }
  };
  static void fork_on(Children& children, int worker, bench::Function function, void* argument) {
    if (worker == 0) return children.fork(function, argument);
    children.threads.emplace_back(function, argument);
  }
  static void yield() { boost::this_fiber::yield(); }

  struct Gate {
    fibers::mutex mutex;
    fibers::condition_variable changed;
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
  using Lock = fibers::mutex;
  struct Barrier : fibers::barrier {
    explicit Barrier(int count) : fibers::barrier(static_cast<std::size_t>(count)) {}
  };
};

}  // namespace

int main(int count, char** words) { return bench::main<BoostFiber>(count, words); }
