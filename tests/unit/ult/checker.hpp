// SPDX-License-Identifier: BSD-3-Clause
// A model checker for protocols that are templates over atomics (src/base/atomics.hpp). The checker
// runs a few threads through all interleavings of their atomic operations. Each thread has a store
// buffer as on x86 (TSO), which delays its stores. The checker finds interleavings that no stress
// test reaches.
//
//   struct Scenario {                       // the checker makes a new Scenario for each execution
//     Model::Atomic<std::uint32_t> x{0};
//     std::vector<std::function<void()>> threads();
//     void at_end();                        // calls require() for the conditions at the end
//   };
//   Verdict verdict = explore<Scenario>({.preemptions = 2});
//
// Threads are coroutines. Before each atomic operation the explorer chooses an action: a thread
// runs on, or a thread's oldest buffered store reaches memory. The explorer tries all choices,
// depth first: each execution repeats a prefix of the last list of choices and changes the next
// choice. If no thread can run and some thread has not ended, the execution is a deadlock. A lost
// wake-up shows as a deadlock.
//
// Limits:
//   * An execution preempts threads at most Bounds::preemptions times. Stores may reach memory at
//     any time.
//   * The only reordering is a store that takes effect after later loads.
//   * Every loop must end, or wait in await().
#pragma once

#include <boost/context/detail/fcontext.hpp>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ult/sanitizer_fibre.hpp"

namespace mh::ult::check {

struct Bounds {
  int preemptions = 2;
  std::uint64_t executions = 3'000'000;  // the limit; the verdict is then not complete
  int steps = 400;                       // the limit for one execution, against endless loops
};

struct Verdict {
  std::string failure;  // empty: the explorer found no failure
  std::string trace;    // steps of the failing execution; 1: thread 1 ran, F1: its store landed
  std::uint64_t executions = 0;
  bool complete = false;  // the explorer ran all executions within the bounds
};

class Explorer {
 public:
  static Explorer& now() {
    static Explorer explorer;
    return explorer;
  }

  template <class Scenario>
  Verdict explore(const Bounds& bounds);

  // --- called by the policy; outside of the scenario's threads, accesses go straight to memory ---
  void step();
  void buffer(std::uint64_t* cell, std::uint64_t value);
  [[nodiscard]] std::uint64_t read(const std::uint64_t* cell) const;
  void drain();      // writes the buffered stores of this thread to memory
  void drain_all();  // writes the buffered stores of all threads to memory
  void sleep_on(const void* word);
  void wake_one(const void* word);
  void await(std::function<bool()> condition);
  void fail(const char* what);

 private:
  struct Store {
    std::uint64_t* cell;
    std::uint64_t value;
  };
  struct Thread {
    std::function<void()> body;
    std::unique_ptr<std::byte[]> stack;
    SanitizerFibre fibre;
    boost::context::detail::fcontext_t context = nullptr;
    std::deque<Store> stores;
    const void* asleep_on = nullptr;
    std::function<bool()> condition;
    bool first = true;
    bool ended = false;
  };
  struct Choice {
    std::size_t taken;
    std::size_t of;
  };
  struct Action {
    bool flush;
    std::size_t thread;
  };
  static constexpr std::size_t kStack = std::size_t{128} * 1024;

  void prepare(std::vector<std::function<void()>> bodies);
  void execute(const Bounds& bounds);
  const std::vector<Action>& actions(const Bounds& bounds);
  [[nodiscard]] std::string trace() const;
  std::size_t choose(std::size_t of);
  void resume(std::size_t thread);
  void suspend(bool last);
  static void enter(boost::context::detail::transfer_t from);
  static void flush_oldest(Thread& thread);
  [[nodiscard]] bool can_run(const Thread& thread) const;
  bool next_path();

  std::vector<Thread> threads_;
  Thread* running_ = nullptr;
  boost::context::detail::fcontext_t back_ = nullptr;
  SanitizerFibre fibre_;
  std::size_t last_ = 0;
  int preemptions_ = 0;
  std::vector<Choice> path_;
  std::size_t depth_ = 0;
  std::string failure_;
  // The actions that are possible, and those taken, in one execution. Millions of executions reuse
  // the memory of these vectors.
  std::vector<Action> possible_;
  std::vector<Action> taken_;
};

inline void require(bool condition, const char* what) {
  if (!condition) Explorer::now().fail(what);
}

// The policy with which protocols run on the checker. It replaces RealAtomics of
// src/base/atomics.hpp.
struct Model {
  template <class T>
  class Atomic {
   public:
    Atomic() = default;
    Atomic(T value) : cell_(to(value)) {}  // NOLINT(google-explicit-constructor)
    Atomic(const Atomic&) = delete;
    Atomic& operator=(const Atomic&) = delete;

    T load(std::memory_order = std::memory_order_seq_cst) const {
      explorer().step();
      return from(explorer().read(&cell_));
    }
    void store(T value, std::memory_order order = std::memory_order_seq_cst) {
      explorer().step();
      explorer().buffer(&cell_, to(value));
      if (order == std::memory_order_seq_cst) explorer().drain();
    }
    T exchange(T value, std::memory_order = std::memory_order_seq_cst) {
      return change([&](std::uint64_t) { return to(value); });
    }
    T fetch_or(T mask, std::memory_order = std::memory_order_seq_cst) {
      return change([&](std::uint64_t was) { return was | to(mask); });
    }
    T fetch_and(T mask, std::memory_order = std::memory_order_seq_cst) {
      return change([&](std::uint64_t was) { return was & to(mask); });
    }
    T fetch_add(T more, std::memory_order = std::memory_order_seq_cst) {
      return change([&](std::uint64_t was) { return was + to(more); });
    }
    T fetch_sub(T less, std::memory_order = std::memory_order_seq_cst) {
      return change([&](std::uint64_t was) { return was - to(less); });
    }
    bool compare_exchange_strong(T& expected, T value,
                                 std::memory_order = std::memory_order_seq_cst,
                                 std::memory_order = std::memory_order_seq_cst) {
      const T wanted = expected;
      expected = change([&](std::uint64_t was) { return was == to(wanted) ? to(value) : was; });
      return expected == wanted;
    }

   private:
    static Explorer& explorer() { return Explorer::now(); }
    static std::uint64_t to(T value) { return static_cast<std::uint64_t>(value); }
    static T from(std::uint64_t value) { return static_cast<T>(value); }
    template <class Change>
    T change(Change change) {
      explorer().step();
      explorer().drain();
      const std::uint64_t was = cell_;
      cell_ = change(was);
      return from(was);
    }
    std::uint64_t cell_ = 0;
  };

  static void light_fence() {}
  static bool heavy_fence() {
    Explorer::now().step();
    Explorer::now().drain_all();
    return true;
  }
  static void sleep(Atomic<std::uint32_t>& word, std::uint32_t value, std::int64_t limit_ns) {
    Explorer::now().drain();
    if (word.load() == value && limit_ns == 0) Explorer::now().sleep_on(&word);
  }
  static void wake(const Atomic<std::uint32_t>* word) {
    Explorer::now().step();
    Explorer::now().drain();
    Explorer::now().wake_one(word);
  }
};

// --- the explorer -----------------------------------------------------------------------------

template <class Scenario>
Verdict Explorer::explore(const Bounds& bounds) {
  fibre_.adopt(nullptr, 0);
  Verdict verdict;
  path_.clear();
  failure_.clear();
  do {
    auto scenario = std::make_unique<Scenario>();
    prepare(scenario->threads());
    execute(bounds);
    if (failure_.empty()) scenario->at_end();
    ++verdict.executions;
    verdict.complete = failure_.empty() && !next_path();
  } while (failure_.empty() && !verdict.complete && verdict.executions < bounds.executions);
  for (Thread& thread : threads_) thread.fibre.destroy();
  threads_.clear();
  verdict.failure = failure_;
  verdict.trace = failure_.empty() ? "" : trace();
  return verdict;
}

inline void Explorer::prepare(std::vector<std::function<void()>> bodies) {
  while (threads_.size() < bodies.size()) {
    Thread& thread = threads_.emplace_back();
    thread.stack = std::make_unique<std::byte[]>(kStack);
    thread.fibre.create(thread.stack.get(), kStack);
  }
  for (std::size_t i = 0; i < bodies.size(); ++i) {
    Thread& thread = threads_[i];
    thread.body = std::move(bodies[i]);
    thread.context = boost::context::detail::make_fcontext(thread.stack.get() + kStack, kStack,
                                                           &Explorer::enter);
    thread.stores.clear();
    thread.asleep_on = nullptr;
    thread.condition = nullptr;
    thread.first = true;
    thread.ended = false;
  }
  depth_ = 0;
  last_ = 0;
  preemptions_ = 0;
  taken_.clear();
}

inline void Explorer::execute(const Bounds& bounds) {
  for (int steps = 0; failure_.empty(); ++steps) {
    const std::vector<Action>& possible = actions(bounds);
    if (possible.empty()) {
      for (const Thread& thread : threads_) {
        if (!thread.ended) return fail("nobody can go on");
      }
      return;
    }
    if (steps > bounds.steps) return fail("an endless loop");
    const Action action = possible[choose(possible.size())];
    taken_.push_back(action);
    if (action.flush) {
      flush_oldest(threads_[action.thread]);
    } else {
      const bool away = action.thread != last_ && can_run(threads_[last_]);
      preemptions_ += away ? 1 : 0;
      last_ = action.thread;
      resume(action.thread);
    }
  }
}

// Returns the actions that are possible next. If the thread that ran last can run on, this action
// is the first.
inline const std::vector<Explorer::Action>& Explorer::actions(const Bounds& bounds) {
  possible_.clear();
  const bool goes_on = can_run(threads_[last_]);
  if (goes_on) possible_.push_back({false, last_});
  for (std::size_t i = 0; i < threads_.size(); ++i) {
    const bool allowed = !goes_on || preemptions_ < bounds.preemptions;
    if (i != last_ && allowed && can_run(threads_[i])) possible_.push_back({false, i});
    if (!threads_[i].stores.empty()) possible_.push_back({true, i});
  }
  return possible_;
}

inline std::string Explorer::trace() const {
  std::string words;
  for (const Action& action : taken_) {
    words += (action.flush ? " F" : " ") + std::to_string(action.thread);
  }
  return words;
}

inline std::size_t Explorer::choose(std::size_t of) {
  if (depth_ == path_.size()) path_.push_back({0, of});
  return path_[depth_++].taken;
}

inline bool Explorer::next_path() {
  path_.resize(depth_);
  while (!path_.empty() && path_.back().taken + 1 == path_.back().of) path_.pop_back();
  if (path_.empty()) return false;
  ++path_.back().taken;
  return true;
}

inline bool Explorer::can_run(const Thread& thread) const {
  if (thread.ended || thread.asleep_on != nullptr) return false;
  return !thread.condition || thread.condition();
}

inline void Explorer::enter(boost::context::detail::transfer_t from) {
  Explorer& explorer = now();
  explorer.back_ = from.fctx;
  explorer.running_->fibre.arrive(true);
  explorer.running_->body();
  explorer.running_->ended = true;
  explorer.suspend(true);
}

inline void Explorer::resume(std::size_t index) {
  running_ = &threads_[index];
  running_->condition = nullptr;
  fibre_.depart(running_->fibre, false);
  const auto from = boost::context::detail::jump_fcontext(running_->context, nullptr);
  fibre_.arrive(false);
  running_->context = from.fctx;
  running_ = nullptr;
}

inline void Explorer::suspend(bool last) {
  Thread& thread = *running_;
  thread.fibre.depart(fibre_, last);
  back_ = boost::context::detail::jump_fcontext(back_, nullptr).fctx;
  thread.fibre.arrive(false);
}

inline void Explorer::step() {
  if (running_ != nullptr) suspend(false);
}

inline void Explorer::buffer(std::uint64_t* cell, std::uint64_t value) {
  if (running_ == nullptr) {
    *cell = value;
  } else {
    running_->stores.push_back({cell, value});
  }
}

inline std::uint64_t Explorer::read(const std::uint64_t* cell) const {
  if (running_ != nullptr) {
    const auto& stores = running_->stores;
    for (auto store = stores.rbegin(); store != stores.rend(); ++store) {
      if (store->cell == cell) return store->value;
    }
  }
  return *cell;
}

inline void Explorer::flush_oldest(Thread& thread) {
  *thread.stores.front().cell = thread.stores.front().value;
  thread.stores.pop_front();
}

inline void Explorer::drain() {
  while (running_ != nullptr && !running_->stores.empty()) flush_oldest(*running_);
}

inline void Explorer::drain_all() {
  for (Thread& thread : threads_) {
    while (!thread.stores.empty()) flush_oldest(thread);
  }
}

inline void Explorer::sleep_on(const void* word) {
  running_->asleep_on = word;
  suspend(false);
}

inline void Explorer::wake_one(const void* word) {
  for (Thread& thread : threads_) {
    if (thread.asleep_on != word) continue;
    thread.asleep_on = nullptr;
    return;
  }
}

inline void Explorer::await(std::function<bool()> condition) {
  running_->condition = std::move(condition);
  suspend(false);
}

inline void Explorer::fail(const char* what) {
  if (failure_.empty()) failure_ = what;
}

template <class Scenario>
Verdict explore(const Bounds& bounds = {}) {
  return Explorer::now().explore<Scenario>(bounds);
}

}  // namespace mh::ult::check
