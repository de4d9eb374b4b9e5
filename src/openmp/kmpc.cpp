// SPDX-License-Identifier: BSD-3-Clause
// The entry points of LLVM's OpenMP run time, libomp, which clang's and flang's code calls.
//
// A region is an outlined function (a microtask) and pointers to what it shares; a loop asks for
// chunks with an inclusive upper bound. Signatures: LLVM OpenMP run time, kmp.h; its ABI is stable.
#include <algorithm>
#include <cstdarg>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "openmp/encounter.hpp"
#include "openmp/schedule.hpp"

namespace mh::openmp {
namespace {

// ident_t: where in the source; handed on.
struct Location {
  std::int32_t of_the_run_time[4];
  const char* source;
};
using Microtask = void (*)(std::int32_t* thread, std::int32_t* bound, ...);
using Lock = void;

template <class Index>
struct Dispatch {
  void (*init)(Location*, std::int32_t, std::int32_t, Index, Index, std::make_signed_t<Index>,
               std::make_signed_t<Index>);
  int (*next)(Location*, std::int32_t, std::int32_t*, Index*, Index*, std::make_signed_t<Index>*);
  void (*fixed)(Location*, std::int32_t, std::int32_t, std::int32_t*, Index*, Index*,
                std::make_signed_t<Index>*, std::make_signed_t<Index>, std::make_signed_t<Index>);
};

// What the process's libomp has under these names.
struct RealKmpc {
  void (*fork_call)(Location*, std::int32_t, Microtask, void*, void*, void*, ...);
  void (*push_num_threads)(Location*, std::int32_t, std::int32_t);
  void (*fork_call_if)(Location*, std::int32_t, Microtask, std::int32_t, void*);
  void (*serialized_parallel)(Location*, std::int32_t);
  void (*end_serialized_parallel)(Location*, std::int32_t);
  std::int32_t (*global_thread_num)(Location*);
  int (*invoke_microtask)(Microtask, int, int, int, void**, void**);
  std::int32_t (*reduce_nowait)(Location*, std::int32_t, std::int32_t, std::size_t, void*,
                                void (*)(void*, void*), Lock*);
  void (*end_reduce_nowait)(Location*, std::int32_t, Lock*);
  std::int32_t (*reduce)(Location*, std::int32_t, std::int32_t, std::size_t, void*,
                         void (*)(void*, void*), Lock*);
  void (*end_reduce)(Location*, std::int32_t, Lock*);
  void (*barrier)(Location*, std::int32_t);
  void (*copyprivate)(Location*, std::int32_t, std::size_t, void*, void (*)(void*, void*),
                      std::int32_t);
};
RealKmpc real_kmpc;

template <class Index>
Dispatch<Index> real_dispatch;

// ---- Regions ------------------------------------------------------------------------------------

constexpr std::int32_t kUnasked = -1;

// A num_threads clause, until the region that it belongs to, and what the run time calls the
// thread.
struct Clause {
  std::int32_t threads = 0;  // 0: there was none
  std::int32_t thread = kUnasked;
};
constinit thread_local Clause t_clause;

// What the run time calls this thread: it takes 7 ns to say so, a seventh of all that a shared loop
// costs, and says what it said the first time.
constinit thread_local std::int32_t t_number = kUnasked;

// In place of the run time's own: compilers ask before clauses, too.
std::int32_t global_thread_num(Location* location) {
  if (t_number == kUnasked) [[unlikely]]
    t_number = real_kmpc.global_thread_num(location);
  return t_number;
}

// As many of a task's pointers travel in registers, behind its own two: what it does not take, it
// does not look at.
constexpr int kInRegisters = 4;

struct Fork {
  Location* location;
  Microtask task;
  int count;
  void** arguments;     // kInRegisters of them are there, whatever `count` is
  std::int32_t thread;  // that met it, as the run time calls it, if it had a clause
};

// The run time's own way takes any number, and 4 ns.
void call(const Fork& fork, std::int32_t thread, std::int32_t number) {
  void** const with = fork.arguments;
  if (fork.count <= kInRegisters) {
    fork.task(&thread, &number, with[0], with[1], with[2], with[3]);
  } else {
    void* frame = nullptr;  // for tools
    real_kmpc.invoke_microtask(fork.task, thread, number, fork.count, with, &frame);
  }
}

// A region's body on this thread.
void run_task(void* data) {
  const Fork& fork = *static_cast<const Fork*>(data);
  const bool shared = in_region();
  const int number = shared ? static_cast<int>(current->number) : real.thread_num();
  const bool known = shared && number == 0 && fork.thread != kUnasked;
  call(fork, known ? fork.thread : global_thread_num(fork.location), number);
}

struct Job {
  Body body;
  void* data;
};

void run_job(std::int32_t* /*thread*/, std::int32_t* /*bound*/, Job* job) { job->body(job->data); }

void run_by_team(Body body, void* data, unsigned threads, const void* location) {
  auto* where = static_cast<Location*>(const_cast<void*>(location));
  if (threads != 0) {
    real_kmpc.push_num_threads(where, global_thread_num(where), static_cast<std::int32_t>(threads));
  }
  Job job{.body = body, .data = data};
  real_kmpc.fork_call(where, 1, reinterpret_cast<Microtask>(run_job), &job, nullptr, nullptr);
}

// Apart, so that what is shared does not pay for it.
[[gnu::noinline]] void run_without_us(Fork& fork, unsigned threads, const Outcome& outcome) {
  const Nested nested(outcome);
  run_by_team(run_task, &fork, nested.threads(threads), fork.location);
}

[[gnu::always_inline]] inline void run_fork(Location* location, Microtask task, std::int32_t count,
                                            void** arguments) {
  const Clause clause = std::exchange(t_clause, {});
  const auto threads = static_cast<unsigned>(clause.threads);
  Fork fork{.location = location,
            .task = task,
            .count = count,
            .arguments = arguments,
            .thread = clause.thread};
  const Encounter met{.code = reinterpret_cast<const void*>(task),
                      .body = run_task,
                      .data = &fork,
                      .threads = threads,
                      .run_by_team = run_by_team,
                      .how = location,
                      .source = location != nullptr ? location->source : nullptr};
  const Outcome outcome = run_shared(met);
  if (!outcome.done) run_without_us(fork, threads, outcome);
}

// Apart from those whose pointers all come in registers.
constexpr int kPassed = 3;
[[gnu::noinline]] void run_fork_of_many(Location* location, Microtask task, std::int32_t count,
                                        void* const (&passed)[kPassed], va_list others) {
  constexpr std::int32_t kFew = 64;
  void* few[kFew];
  std::vector<void*> many(count <= kFew ? 0 : static_cast<std::size_t>(count));
  void** const arguments = many.empty() ? few : many.data();
  std::copy_n(passed, kPassed, arguments);
  for (std::int32_t i = kPassed; i < count; ++i) arguments[i] = va_arg(others, void*);
  run_fork(location, task, count, arguments);
}

// The first pointers come in registers, whether the region has so many or not, and are handed on as
// they are.
// NOLINTNEXTLINE(cert-dcl50-cpp): the run time's own signature
void fork_call(Location* location, std::int32_t count, Microtask task, void* first, void* second,
               void* third, ...) {
  if (count <= kPassed) [[likely]] {
    void* arguments[kInRegisters] = {first, second, third};
    return run_fork(location, task, count, arguments);
  }
  va_list others;
  va_start(others, third);
  run_fork_of_many(location, task, count, {first, second, third}, others);
  va_end(others);
}

// A region whose if clause is false is run by the thread that meets it, as code of nobody's region.
void begin_alone() {
  t_clause = {};
  begin_set_aside();
}

// The body is called in between.
void serialized_parallel(Location* location, std::int32_t thread) {
  begin_alone();
  real_kmpc.serialized_parallel(location, thread);
}
void end_serialized_parallel(Location* location, std::int32_t thread) {
  real_kmpc.end_serialized_parallel(location, thread);
  end_set_aside();
}

// Both ways in one call, with at most one argument.
void fork_call_if(Location* location, std::int32_t count, Microtask task, std::int32_t condition,
                  void* argument) {
  if (condition == 0) {
    begin_alone();
    real_kmpc.fork_call_if(location, count, task, condition, argument);
    end_set_aside();
  } else {
    void* one[kInRegisters] = {argument};
    run_fork(location, task, argument != nullptr ? count : 0, one);
  }
}

void push_num_threads(Location* /*location*/, std::int32_t thread, std::int32_t threads) {
  t_clause = {.threads = threads, .thread = thread};
}

// ---- Loops --------------------------------------------------------------------------------------

// In enum sched_type of kmp.h dynamic, guided and runtime are numbered on from 35; modifiers are
// bits.
constexpr std::int32_t kBeforeOurs = 35 - kDynamic;
constexpr std::int32_t kMonotonic = 1 << 29;
constexpr std::int32_t kModifiers = 3 << 29;

template <class Index>
Loop loop_of(Index low, Index high, std::make_signed_t<Index> step) {
  const auto from = static_cast<std::uint64_t>(low);
  const auto to = static_cast<std::uint64_t>(high);
  Loop loop{.start = from, .step = static_cast<std::uint64_t>(static_cast<std::int64_t>(step))};
  if (step > 0 && low <= high) loop.count = indices_over(to - from, loop.step);
  if (step < 0 && low >= high) loop.count = indices_over(from - to, -loop.step);
  return loop;
}

template <class Index>
void dispatch_init(Location* location, std::int32_t thread, std::int32_t schedule, Index low,
                   Index high, std::make_signed_t<Index> step, std::make_signed_t<Index> chunk) {
  const bool shared =
      current != nullptr &&
      begin_shared(loop_of(low, high, step), cut_of((schedule & ~kModifiers) - kBeforeOurs, chunk),
                   (schedule & kMonotonic) != 0);
  if (shared || is_helper()) return;
  real_dispatch<Index>.init(location, thread, schedule, low, high, step, chunk);
}

template <class Index>
int give(const Loop& loop, const Range& range, std::int32_t* last, Index* low, Index* high,
         std::make_signed_t<Index>* step) {
  if (range.empty()) return 0;
  *low = static_cast<Index>(loop.start + range.first * loop.step);
  *high = static_cast<Index>(loop.start + (range.end - 1) * loop.step);
  if (step != nullptr) *step = static_cast<std::make_signed_t<Index>>(loop.step);
  if (last != nullptr) *last = range.end == loop.count ? 1 : 0;
  return 1;
}

// Apart, so that an owner that goes on does not pay for it.
template <class Index>
[[gnu::noinline]] int next_of_any(Location* location, std::int32_t thread, std::int32_t* last,
                                  Index* low, Index* high, std::make_signed_t<Index>* step) {
  if (in_shared_loop()) {
    Region& region = *shared_region();
    const Range range = region.next(*current);
    return give(region.loop(), range, last, low, high, step);
  }
  return is_helper() ? 0 : real_dispatch<Index>.next(location, thread, last, low, high, step);
}

template <class Index>
int dispatch_next(Location* location, std::int32_t thread, std::int32_t* last, Index* low,
                  Index* high, std::make_signed_t<Index>* step) {
  Participant* const me = current;
  if (me == nullptr || !me->goes_on()) {
    return next_of_any(location, thread, last, low, high, step);
  }
  Region& region = *shared_region();
  const Range range = region.next_at_once(*me);
  return give(region.loop(), range, last, low, high, step);
}

// A fixed share of a loop for each thread of the team: a helper has none.
template <class Index>
void static_init(Location* location, std::int32_t thread, std::int32_t schedule, std::int32_t* last,
                 Index* low, Index* high, std::make_signed_t<Index>* stride,
                 std::make_signed_t<Index> step, std::make_signed_t<Index> chunk) {
  note(Obstacle::no_loop);
  real_dispatch<Index>.fixed(location, thread, schedule, last, low, high, stride, step, chunk);
  if (!is_helper()) return;
  *low = 1;
  *high = 0;
  if (last != nullptr) *last = 0;
}

// ---- What else a region may do ------------------------------------------------------------------
//
// Reductions are permitted, the others keep a region from being shared. For those that have no
// function here, see calls.hpp.

// The run time takes its team for the only one to reduce, so in shared regions they are reduced
// under a lock of ours: 1 says "combine, then tell me".
std::mutex g_reducing;

template <bool kWaits>  // with a barrier
std::int32_t reduce(Location* location, std::int32_t thread, std::int32_t count, std::size_t bytes,
                    void* data, void (*combine)(void*, void*), Lock* lock) {
  if (kWaits) note(Obstacle::barrier);
  if (!in_region()) {
    const auto real_reduce = kWaits ? real_kmpc.reduce : real_kmpc.reduce_nowait;
    return real_reduce(location, thread, count, bytes, data, combine, lock);
  }
  g_reducing.lock();
  return 1;
}

template <bool kWaits>
void end_reduce(Location* location, std::int32_t thread, Lock* lock) {
  if (!in_region()) {
    const auto real_end = kWaits ? real_kmpc.end_reduce : real_kmpc.end_reduce_nowait;
    return real_end(location, thread, lock);
  }
  g_reducing.unlock();
  if (kWaits) meet_team([&] { real_kmpc.barrier(location, thread); });
}

void barrier(Location* location, std::int32_t thread) {
  note(Obstacle::barrier);
  meet_team([&] { real_kmpc.barrier(location, thread); });
}

// The end of a `single` whose thread gives its values to the others, with a barrier.
void copyprivate(Location* location, std::int32_t thread, std::size_t bytes, void* data,
                 void (*copy)(void*, void*), std::int32_t is_chosen) {
  note(Obstacle::single);
  if (is_helper()) {
    if (void* const from = shared_region()->await_copy()) copy(data, from);
  } else if (in_region() && is_chosen != 0) {
    shared_region()->give_copy(data);
  }
  meet_team([&] { real_kmpc.copyprivate(location, thread, bytes, data, copy, is_chosen); });
}

template <class Index>
void add_dispatch(std::vector<Binding>& table, const std::string& width) {
  Dispatch<Index>& calls = real_dispatch<Index>;
  add(table, "__kmpc_dispatch_init_" + width, dispatch_init<Index>, calls.init);
  add(table, "__kmpc_dispatch_next_" + width, dispatch_next<Index>, calls.next);
  add(table, "__kmpc_for_static_init_" + width, static_init<Index>, calls.fixed);
}

}  // namespace

void forget_number() { t_number = kUnasked; }

void add_kmpc(std::vector<Binding>& table) {
  add(table, "__kmpc_fork_call", fork_call, real_kmpc.fork_call);
  add(table, "__kmpc_fork_call_if", fork_call_if, real_kmpc.fork_call_if);
  add(table, "__kmpc_push_num_threads", push_num_threads, real_kmpc.push_num_threads);
  add(table, "__kmpc_serialized_parallel", serialized_parallel, real_kmpc.serialized_parallel);
  add(table, "__kmpc_end_serialized_parallel", end_serialized_parallel,
      real_kmpc.end_serialized_parallel);
  add(table, "__kmpc_global_thread_num", global_thread_num, real_kmpc.global_thread_num);
  ask(table, "__kmp_invoke_microtask", real_kmpc.invoke_microtask);
  add_dispatch<std::int32_t>(table, "4");
  add_dispatch<std::uint32_t>(table, "4u");
  add_dispatch<std::int64_t>(table, "8");
  add_dispatch<std::uint64_t>(table, "8u");
  add(table, "__kmpc_reduce_nowait", reduce<false>, real_kmpc.reduce_nowait);
  add(table, "__kmpc_end_reduce_nowait", end_reduce<false>, real_kmpc.end_reduce_nowait);
  add(table, "__kmpc_reduce", reduce<true>, real_kmpc.reduce);
  add(table, "__kmpc_end_reduce", end_reduce<true>, real_kmpc.end_reduce);
  add(table, "__kmpc_barrier", barrier, real_kmpc.barrier);
  add(table, "__kmpc_copyprivate", copyprivate, real_kmpc.copyprivate);
}

}  // namespace mh::openmp
