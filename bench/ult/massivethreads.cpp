// SPDX-License-Identifier: BSD-3-Clause
// The adapter of the benchmark cases (cases.hpp) for MassiveThreads. MassiveThreads cannot start a
// task on a given worker, and a woken task runs on the worker of the task that woke it. The case
// signal-cross is therefore absent.
#include <myth/myth.h>

#include <cstdlib>
#include <vector>

#include "bench/ult/cases.hpp"

namespace {

struct Call {
  bench::Function function;
  void* argument;
};

void* start(void* call) {
  static_cast<Call*>(call)->function(static_cast<Call*>(call)->argument);
  return nullptr;
}

struct MassiveThreads {
  static constexpr bool kHeavy = false;
  static constexpr bool kPlaces = false;

  template <class F>
  static void run(int workers, F f) {
    myth_globalattr_t attributes;
    myth_globalattr_init(&attributes);
    myth_globalattr_set_n_workers(&attributes, static_cast<std::size_t>(workers));
    myth_init_ex(&attributes);
    f();
    myth_fini();
  }

  struct Children {
    static constexpr int kMost = 2000;
    std::vector<myth_thread_t> threads;
    std::vector<Call> calls;
    myth_thread_t few[8];
    Call few_calls[8];
    int count = 0;
    void fork(bench::Function function, void* argument) {
      if (count < 8) {
        few_calls[count] = {function, argument};
        few[count] = myth_create(&start, &few_calls[count]);
        ++count;
        return;
      }
      if (calls.empty()) calls.reserve(kMost);  // keeps the addresses of the calls valid
      calls.push_back({function, argument});
      threads.push_back(myth_create(&start, &calls.back()));
    }
    void join() {
      for (int i = 0; i < count; ++i) myth_join(few[i], nullptr);
      for (myth_thread_t thread : threads) myth_join(thread, nullptr);
      count = 0;
      threads.clear();
      calls.clear();
    }
  };
  static void fork_on(Children& children, int, bench::Function function, void* argument) {
    children.fork(function, argument);
  }
  static void yield() { myth_yield(); }

  struct Gate {
    myth_uncond_t uncond;
    Gate() { myth_uncond_init(&uncond); }
    ~Gate() { myth_uncond_destroy(&uncond); }
    void wait() { myth_uncond_wait(&uncond); }
    void signal() { myth_uncond_signal(&uncond); }
  };
  struct Lock {
    myth_mutex_t mutex;
    Lock() { myth_mutex_init(&mutex, nullptr); }
    ~Lock() { myth_mutex_destroy(&mutex); }
    void lock() { myth_mutex_lock(&mutex); }
    void unlock() { myth_mutex_unlock(&mutex); }
  };
  struct Barrier {
    myth_barrier_t barrier;
    explicit Barrier(int count) { myth_barrier_init(&barrier, nullptr, count); }
    ~Barrier() { myth_barrier_destroy(&barrier); }
    void wait() { myth_barrier_wait(&barrier); }
  };
};

}  // namespace

int main(int count, char** words) { return bench::main<MassiveThreads>(count, words); }
