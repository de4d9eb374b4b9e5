// SPDX-License-Identifier: BSD-3-Clause
// The benchmark cases of bench/ult/compare.py, shared by all runtimes of light tasks.
//
// Each runtime has a program: an adapter class, the Runtime, and a call of bench::main<Runtime>().
// `PROGRAM CASE` prints one number: nanoseconds per operation. The number is the median of kRepeats
// measurements in one process, after one warm-up. The program prints nothing if the runtime lacks
// the operation.
//
// The members of a Runtime:
//   run(workers, f)                   runs f as a task on `workers` workers until f returns
//   Children                          fork(function, argument) starts a task; join() joins all
//   kHeavy                            true: tasks are threads; smaller counts, fewer cases
//   kPlaces                           true: a task of fork_on() stays on its worker
//   fork_on(children, worker, f, arg) starts a task on a worker; children.join() joins it
//   yield()
//   Gate                              signal() and wait(); one task waits for one signal at a time
//   Lock, Barrier
// A Runtime leaves out the members that its runtime lacks; the cases test for them with `requires`.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

namespace bench {

using Function = void (*)(void*);
inline constexpr int kRepeats = 5;

class Clock {
 public:
  [[nodiscard]] double ns() const {
    return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start_)
        .count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Returns the median of the results of `once`, which returns the nanoseconds of one operation.
// `once` runs in a task, on a runtime with `workers` workers.
template <class R, class F>
double measure(int workers, F once) {
  std::vector<double> all;
  R::run(workers, [&] {
    once();
    for (int i = 0; i < kRepeats; ++i) all.push_back(once());
  });
  std::sort(all.begin(), all.end());
  return all[all.size() / 2];
}

// --- cases of one operation -------------------------------------------------------------------

template <class R>
double create_join() {
  return measure<R>(1, [] {
    constexpr int kTasks = 256;
    constexpr int kRounds = R::kHeavy ? 4 : 400;
    const Clock clock;
    for (int round = 0; round < kRounds; ++round) {
      typename R::Children children;
      for (int i = 0; i < kTasks; ++i) children.fork([](void*) {}, nullptr);
      children.join();
    }
    return clock.ns() / (kRounds * kTasks);
  });
}

template <class R>
double yield() {
  constexpr int kYields = R::kHeavy ? 20'000 : 100'000;
  return measure<R>(1, [] {
    const Function body = [](void*) {
      for (int i = 0; i < kYields; ++i) R::yield();
    };
    const Clock clock;
    typename R::Children children;
    R::fork_on(children, 0, body, nullptr);
    R::fork_on(children, 0, body, nullptr);
    children.join();
    return clock.ns() / (2.0 * kYields);
  });
}

// A case in which two tasks with the same code signal each other in turn. once() returns the
// nanoseconds from a signal until the other task runs.
template <class R>
struct PingPong {
  static constexpr int kRounds = R::kHeavy ? 5'000 : 100'000;
  struct Player {
    typename R::Gate gate;
    Player* other = nullptr;
    bool begins = false;
  };

  static void play(void* self) {
    auto* player = static_cast<Player*>(self);
    if (player->begins) player->other->gate.signal();
    for (int i = 0; i < kRounds; ++i) {
      player->gate.wait();
      if (i + 1 < kRounds || !player->begins) player->other->gate.signal();
    }
  }
  static double once(int other_worker) {
    Player first, second;
    first.other = &second;
    second.other = &first;
    first.begins = true;
    const Clock clock;
    typename R::Children children;
    R::fork_on(children, other_worker, &play, &second);
    R::fork_on(children, 0, &play, &first);
    children.join();
    return clock.ns() / (2.0 * kRounds);
  }
};

template <class R>
double signal_same() {
  return measure<R>(1, [] { return PingPong<R>::once(0); });
}

template <class R>
double signal_cross() {
  return measure<R>(2, [] { return PingPong<R>::once(1); });
}

template <class R>
struct Locked {
  static constexpr int kTasks = 8;
  static constexpr int kRounds = R::kHeavy ? 2'000 : 20'000;
  typename R::Lock lock;
  volatile long value = 0;

  static void body(void* self) {
    auto* game = static_cast<Locked*>(self);
    for (int i = 0; i < kRounds; ++i) {
      game->lock.lock();
      game->value = game->value + 1;
      game->lock.unlock();
    }
  }
  static double once(int workers) {
    Locked game;
    const Clock clock;
    typename R::Children children;
    for (int i = 0; i < kTasks; ++i) R::fork_on(children, i % workers, &body, &game);
    children.join();
    return clock.ns() / (1.0 * kTasks * kRounds);
  }
};

template <class R>
double lock_one_worker() {
  return measure<R>(1, [] { return Locked<R>::once(1); });
}
template <class R>
double lock_two_workers() {
  return measure<R>(2, [] { return Locked<R>::once(2); });
}

// The case of a barrier of 16 tasks on one worker. Returns the nanoseconds of a barrier for each
// task, that is, divided by 16.
template <class R>
double barrier() {
  static constexpr int kTasks = 16;
  static constexpr int kRounds = R::kHeavy ? 200 : 2'000;
  return measure<R>(1, [] {
    typename R::Barrier all(kTasks);
    const Function body = [](void* barrier) {
      for (int i = 0; i < kRounds; ++i) static_cast<typename R::Barrier*>(barrier)->wait();
    };
    const Clock clock;
    typename R::Children children;
    for (int i = 0; i < kTasks; ++i) R::fork_on(children, 0, body, &all);
    children.join();
    return clock.ns() / (1.0 * kTasks * kRounds);
  });
}

// --- cases of whole computations: their ns, on two workers, in the case tree-1 on one ---------

template <class R>
struct Fib {
  int n;
  long result = 0;

  static void body(void* self) {
    auto* fib = static_cast<Fib*>(self);
    if (fib->n < 2) {
      fib->result = fib->n;
      return;
    }
    Fib left{fib->n - 1};
    Fib right{fib->n - 2};
    typename R::Children children;
    children.fork(&body, &left);
    body(&right);
    children.join();
    fib->result = left.result + right.result;
  }
};

template <class R>
double fib() {
  return measure<R>(2, [] {
    Fib<R> fib{25};
    const Clock clock;
    Fib<R>::body(&fib);
    return fib.result == 75025 ? clock.ns() : -1;
  });
}

template <class R>
struct Queens {
  static constexpr int kSize = 10;
  std::array<std::int8_t, kSize> columns{};
  int row = 0;
  long solutions = 0;

  [[nodiscard]] bool may_stand(int column) const {
    for (int above = 0; above < row; ++above) {
      const int distance = columns[static_cast<std::size_t>(above)] - column;
      if (distance == 0 || distance == row - above || distance == above - row) return false;
    }
    return true;
  }
  static void body(void* self) {
    auto* board = static_cast<Queens*>(self);
    if (board->row == kSize) {
      board->solutions = 1;
      return;
    }
    std::array<Queens, kSize> next;
    int count = 0;
    typename R::Children children;
    for (int column = 0; column < kSize; ++column) {
      if (!board->may_stand(column)) continue;
      Queens& child = next[static_cast<std::size_t>(count++)];
      child.columns = board->columns;
      child.columns[static_cast<std::size_t>(board->row)] = static_cast<std::int8_t>(column);
      child.row = board->row + 1;
      children.fork(&body, &child);
    }
    children.join();
    for (int i = 0; i < count; ++i) board->solutions += next[static_cast<std::size_t>(i)].solutions;
  }
};

template <class R>
double queens() {
  return measure<R>(2, [] {
    Queens<R> board;
    const Clock clock;
    Queens<R>::body(&board);
    return board.solutions == 724 ? clock.ns() : -1;
  });
}

// A node of a binomial tree as in UTS (Unbalanced Tree Search). The root has kRoots children. Each
// other node has kFan children with probability kOdds / 2^32, and otherwise none. A hash of the
// node's position in the tree decides.
template <class R>
struct Node {
  static constexpr int kRoots = 2000;
  static constexpr int kFan = 8;
  static constexpr std::uint64_t kOdds =
      535'810'000;  // probability 0.12475; the root's hash in tree() then gives 941,240 nodes
  std::uint64_t hash = 0;
  long below = 0;

  static std::uint64_t mix(std::uint64_t x) {
    for (int i = 0; i < 4; ++i) {
      x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
      x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
      x ^= x >> 31U;
    }
    return x;
  }
  template <std::size_t kChildren>
  void descend() {
    std::array<Node, kChildren> nodes;
    typename R::Children children;
    for (std::size_t i = 0; i < kChildren; ++i) {
      nodes[i].hash = mix(hash + 0x9e3779b97f4a7c15U * (i + 1));
      children.fork(&body, &nodes[i]);
    }
    children.join();
    for (const Node& node : nodes) below += node.below + 1;
  }
  static void body(void* self) {
    auto* node = static_cast<Node*>(self);
    if ((node->hash >> 32U) < kOdds) node->template descend<kFan>();
  }
};

template <class R>
double tree(int workers) {
  return measure<R>(workers, [] {
    Node<R> root{.hash = 6};
    const Clock clock;
    root.template descend<Node<R>::kRoots>();
    return root.below == 941'240 ? clock.ns() : -1;
  });
}

// --- runs the case that the command line names ------------------------------------------------

template <class R>
double run_case(const std::string& name) {
  if (name == "create-join") return create_join<R>();
  if constexpr (requires { R::yield(); }) {
    if (name == "yield") return yield<R>();
  }
  if constexpr (requires { typename R::Gate; }) {
    if (name == "signal-same") return signal_same<R>();
    if constexpr (R::kPlaces) {
      if (name == "signal-cross") return signal_cross<R>();
    }
  }
  if constexpr (requires { typename R::Lock; }) {
    if (name == "lock-1") return lock_one_worker<R>();
    if (name == "lock-2") return lock_two_workers<R>();
  }
  if constexpr (requires { typename R::Barrier; }) {
    if (name == "barrier") return barrier<R>();
  }
  if constexpr (!R::kHeavy) {
    if (name == "fib") return fib<R>();
    if (name == "queens") return queens<R>();
    if (name == "tree-1") return tree<R>(1);
    if (name == "tree-2") return tree<R>(2);
  }
  return 0;
}

template <class R>
int main(int count, char** words) {
  if (count != 2) {
    std::fprintf(stderr, "usage: %s CASE (one case, see compare.py)\n", words[0]);
    return 2;
  }
  const double ns = run_case<R>(words[1]);
  if (ns < 0) {
    std::fprintf(stderr, "%s: wrong result in %s\n", words[0], words[1]);
    return 1;
  }
  if (ns > 0) std::printf("%.2f\n", ns);
  return 0;
}

}  // namespace bench
