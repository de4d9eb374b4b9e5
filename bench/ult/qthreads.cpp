// SPDX-License-Identifier: BSD-3-Clause
// The adapter of the benchmark cases (cases.hpp) for Qthreads. Full/empty bits implement joins and
// signals. Each worker has its own shepherd (a queue of tasks in Qthreads).
#include <qthread/barrier.h>
#include <qthread/qthread.h>

#include <cstdlib>
#include <deque>
#include <string>

#include "bench/ult/cases.hpp"

namespace {

struct Call {
  bench::Function function;
  void* argument;
  aligned_t done = 0;
};

aligned_t start(void* call) {
  static_cast<Call*>(call)->function(static_cast<Call*>(call)->argument);
  return 0;
}

struct Qthreads {
  static constexpr bool kHeavy = false;
  static constexpr bool kPlaces = true;

  template <class F>
  static void run(int workers, F f) {
    ::setenv("QTHREAD_NUM_SHEPHERDS", std::to_string(workers).c_str(), 1);
    ::setenv("QTHREAD_NUM_WORKERS_PER_SHEPHERD", "1", 1);
    ::setenv("QTHREAD_STACK_SIZE", "65536", 1);
    qthread_initialize();
    f();
    qthread_finalize();
  }

  struct Children {
    std::deque<Call> calls;  // a deque, so that the addresses of the calls stay valid
    Call few[8];
    int count = 0;
    Call* place(bench::Function function, void* argument) {
      Call* call = count < 8 ? &few[count++] : &calls.emplace_back();
      *call = {function, argument};
      return call;
    }
    void fork(bench::Function function, void* argument) {
      Call* call = place(function, argument);
      qthread_fork(&start, call, &call->done);
    }
    void join() {
      for (int i = 0; i < count; ++i) qthread_readFF(nullptr, &few[i].done);
      for (Call& call : calls) qthread_readFF(nullptr, &call.done);
      count = 0;
      calls.clear();
    }
  };
  static void fork_on(Children& children, int worker, bench::Function function, void* argument) {
    Call* call = children.place(function, argument);
    qthread_fork_to(&start, call, &call->done, static_cast<qthread_shepherd_id_t>(worker));
  }
  static void yield() { qthread_yield(); }

  struct Gate {
    aligned_t word = 0;
    Gate() { qthread_empty(&word); }
    ~Gate() { qthread_fill(&word); }
    void wait() { qthread_readFE(nullptr, &word); }
    void signal() { qthread_writeF_const(&word, 1); }
  };
  struct Lock {
    aligned_t word = 0;
    void lock() { qthread_lock(&word); }
    void unlock() { qthread_unlock(&word); }
  };
  struct Barrier {
    qt_barrier_t* barrier;
    explicit Barrier(int count)
        : barrier(qt_barrier_create(static_cast<std::size_t>(count), REGION_BARRIER)) {}
    ~Barrier() { qt_barrier_destroy(barrier); }
    void wait() { qt_barrier_enter(barrier); }
  };
};

}  // namespace

int main(int count, char** words) { return bench::main<Qthreads>(count, words); }
