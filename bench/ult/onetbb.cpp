// SPDX-License-Identifier: BSD-3-Clause
// The adapter of the benchmark cases (cases.hpp) for oneTBB, with task_group. Tasks of oneTBB can
// neither yield nor wait for each other.
#include <tbb/global_control.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>

#include "bench/ult/cases.hpp"

namespace {

struct OneTbb {
  static constexpr bool kHeavy = false;
  static constexpr bool kPlaces = false;

  template <class F>
  static void run(int workers, F f) {
    const tbb::global_control threads(tbb::global_control::max_allowed_parallelism,
                                      static_cast<std::size_t>(workers));
    tbb::task_arena(workers).execute(f);
  }

  struct Children {
    tbb::task_group group;
    void fork(bench::Function function, void* argument) {
      group.run([=] { function(argument); });
    }
    void join() { group.wait(); }
  };
};

}  // namespace

int main(int count, char** words) { return bench::main<OneTbb>(count, words); }
