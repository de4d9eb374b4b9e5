// SPDX-License-Identifier: BSD-3-Clause
// The adapter of the benchmark cases (cases.hpp) for Argobots. Each worker is an execution stream
// with its own pool. With two workers, both use the random work-stealing scheduler.
#include <abt.h>

#include <vector>

#include "bench/ult/cases.hpp"

namespace {

std::vector<ABT_pool> pools;

struct Argobots {
  static constexpr bool kHeavy = false;
  static constexpr bool kPlaces = true;

  template <class F>
  static void run(int workers, F f) {
    ABT_init(0, nullptr);
    pools.assign(static_cast<std::size_t>(workers), ABT_POOL_NULL);
    const bool alone = workers == 1;
    for (ABT_pool& pool : pools) {
      ABT_pool_create_basic(alone ? ABT_POOL_FIFO : ABT_POOL_RANDWS,
                            alone ? ABT_POOL_ACCESS_PRIV : ABT_POOL_ACCESS_MPMC, ABT_TRUE, &pool);
    }
    std::vector<ABT_xstream> streams(pools.size());
    ABT_xstream_self(streams.data());
    for (std::size_t i = 0; i < pools.size(); ++i) {
      std::vector<ABT_pool> order;  // the stream's own pool comes first
      for (std::size_t j = 0; j < pools.size(); ++j) order.push_back(pools[(i + j) % pools.size()]);
      const ABT_sched_predef kind = alone ? ABT_SCHED_BASIC : ABT_SCHED_RANDWS;
      if (i == 0) {
        ABT_xstream_set_main_sched_basic(streams[0], kind, workers, order.data());
      } else {
        ABT_xstream_create_basic(kind, workers, order.data(), ABT_SCHED_CONFIG_NULL, &streams[i]);
      }
    }
    f();
    for (std::size_t i = 1; i < streams.size(); ++i) {
      ABT_xstream_join(streams[i]);
      ABT_xstream_free(&streams[i]);
    }
    ABT_finalize();
  }

  struct Children {
    std::vector<ABT_thread> threads;
    ABT_thread few[8];
    int count = 0;
    ABT_thread* place() {
      if (count < 8) return &few[count++];
      return &threads.emplace_back();
    }
    void fork(bench::Function function, void* argument) {
      int rank = 0;
      ABT_xstream_self_rank(&rank);
      ABT_thread_create(pools[static_cast<std::size_t>(rank)], function, argument,
                        ABT_THREAD_ATTR_NULL, place());
    }
    void join() {
      for (int i = 0; i < count; ++i) ABT_thread_free(&few[i]);
      for (ABT_thread& thread : threads) ABT_thread_free(&thread);
      count = 0;
      threads.clear();
    }
  };
  static void fork_on(Children& children, int worker, bench::Function function, void* argument) {
    ABT_thread_create(pools[static_cast<std::size_t>(worker)], function, argument,
                      ABT_THREAD_ATTR_NULL, children.place());
  }
  static void yield() { ABT_self_yield(); }

  struct Gate {
    ABT_eventual eventual;
    Gate() { ABT_eventual_create(0, &eventual); }
    ~Gate() { ABT_eventual_free(&eventual); }
    void wait() {
      ABT_eventual_wait(eventual, nullptr);
      ABT_eventual_reset(eventual);
    }
    void signal() { ABT_eventual_set(eventual, nullptr, 0); }
  };
  struct Lock {
    ABT_mutex mutex;
    Lock() { ABT_mutex_create(&mutex); }
    ~Lock() { ABT_mutex_free(&mutex); }
    void lock() { ABT_mutex_lock(mutex); }
    void unlock() { ABT_mutex_unlock(mutex); }
  };
  struct Barrier {
    ABT_barrier barrier;
    explicit Barrier(int count) { ABT_barrier_create(static_cast<std::uint32_t>(count), &barrier); }
    ~Barrier() { ABT_barrier_free(&barrier); }
    void wait() { ABT_barrier_wait(barrier); }
  };
};

}  // namespace

int main(int count, char** words) { return bench::main<Argobots>(count, words); }
