// SPDX-License-Identifier: BSD-3-Clause
#include <atomic>
#include <utility>
#include <vector>

#include "bench/ult/cases.hpp"
#include "manyhands/ult.hpp"

namespace {

namespace ult = mh::ult;

template <bool kInlineJoins>
struct Manyhands {
  static constexpr bool kHeavy = false;
  static constexpr bool kPlaces = true;

  template <class F>
  static void run(int workers, F f) {
    ult::Config config;
    config.workers = static_cast<unsigned>(workers);
    config.inline_joins = kInlineJoins;
    auto scheduler = ult::Scheduler::start(config);
    (void)scheduler->run(f);
  }

  // Children that anybody may run; those on a given worker have handles.
  struct Children {
    ult::Group group;
    std::vector<ult::Task> placed;
    void fork(bench::Function function, void* argument) {
      group.spawn([=] { function(argument); });
    }
    void join() {
      (void)group.wait();
      placed.clear();
    }
  };
  static void fork_on(Children& children, int worker, bench::Function function, void* argument) {
    children.placed.push_back(
        std::move(*ult::spawn_on(static_cast<unsigned>(worker), [=] { function(argument); })));
  }
  static void yield() { ult::yield(); }

  struct Gate {
    std::atomic<bool> open{false};
    std::atomic<ult::TaskRef> waiter{};
    void wait() {
      if (!waiter.load(std::memory_order_relaxed)) waiter.store(ult::self());
      while (!open.load(std::memory_order_acquire)) ult::wait();
      open.store(false, std::memory_order_relaxed);
    }
    void signal() {
      ult::TaskRef task = waiter.load(std::memory_order_acquire);
      while (!task) {  // it has not come for the first time
        ult::yield();
        task = waiter.load(std::memory_order_acquire);
      }
      open.store(true, std::memory_order_release);
      task.signal();
    }
  };
  using Lock = ult::Mutex;
  struct Barrier : ult::Barrier {
    explicit Barrier(int count) : ult::Barrier(static_cast<std::uint32_t>(count)) {}
  };
};

}  // namespace

int main(int count, char** words) {
#ifdef MH_BENCH_OWN_STACKS
  return bench::main<Manyhands<false>>(count, words);
#else
  return bench::main<Manyhands<true>>(count, words);
#endif
}
