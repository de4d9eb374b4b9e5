// SPDX-License-Identifier: BSD-3-Clause
// The adapter of the benchmark cases (cases.hpp) for light tasks of Manyhands, in three variants:
//   * the default;
//   * MH_BENCH_OWN_STACKS: a joined task always runs on its own stack;
//   * MH_BENCH_SHARED: an additional worker stays in a blocking call, so even a single busy worker
//     pays for the atomics of stealing. This variant is the fair base for two workers.
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <utility>
#include <vector>

#include "bench/ult/cases.hpp"
#include "manyhands/ult.hpp"

namespace {

namespace ult = mh::ult;

#ifdef MH_BENCH_OWN_STACKS
constexpr bool kInlineJoins = false;
#else
constexpr bool kInlineJoins = true;
#endif
#ifdef MH_BENCH_SHARED
constexpr int kHeld = 1;
#else
constexpr int kHeld = 0;
#endif

// Keeps the additional worker of the variant MH_BENCH_SHARED in a blocking read() for the lifetime
// of the object. In the other variants it does nothing.
class Hold {
 public:
  Hold(ult::Scheduler& scheduler, int workers) {
    if (kHeld == 0 || ::pipe(ends_) != 0) return;
    auto task = scheduler.spawn_on(static_cast<unsigned>(workers), [this] {
      begun_ = true;
      char byte = 0;
      (void)!::read(ends_[0], &byte, 1);
    });
    task_ = std::move(*task);
    while (!begun_) ::usleep(10);
  }
  ~Hold() {
    if (task_.joinable()) (void)!::write(ends_[1], "x", 1);
  }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

 private:
  int ends_[2] = {-1, -1};
  std::atomic<bool> begun_{false};
  ult::Task task_;
};

struct Manyhands {
  static constexpr bool kHeavy = false;
  static constexpr bool kPlaces = true;

  template <class F>
  static void run(int workers, F f) {
    ult::Config config;
    config.workers = static_cast<unsigned>(workers + kHeld);
    config.inline_joins = kInlineJoins;
    // A task for which the scheduler has no free slot runs inside its parent. Without inline joins
    // the case `tree` fills all slots, and tasks inside their parents nest as deep as the tree: 200
    // levels overflow a stack of 64 KB.
    if (!kInlineJoins) config.stack_bytes = std::size_t{1} << 20U;
    auto scheduler = ult::Scheduler::start(config);
    const Hold hold(*scheduler, workers);
    auto task = scheduler->spawn_on(0, f);
    (void)task->join();
  }

  // The children that a task has started. Any worker may run those in `group`; those in `placed`
  // were started by fork_on() and stay on their worker.
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
      while (!task) {  // the other task has not called wait() yet
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

int main(int count, char** words) { return bench::main<Manyhands>(count, words); }
