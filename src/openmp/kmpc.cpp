// SPDX-License-Identifier: BSD-3-Clause
// The entry points of LLVM's OpenMP run time, libomp, which clang's and flang's code calls.
//
// A region is an outlined function (a microtask) with pointers to its shared variables; a loop asks
// for chunks with an inclusive upper bound. Signatures: LLVM OpenMP run time, kmp.h; its ABI is
// stable.
#include <algorithm>
#include <cstdarg>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "openmp/encounter.hpp"
#include "openmp/schedule.hpp"
#include "openmp/static_share.hpp"
#include "openmp/virtual_threads.hpp"

namespace mh::openmp {
namespace {

// libomp's ident_t, which describes a place in the source. Manyhands' functions pass it on
// unchanged.
struct SourceLocation {
  std::int32_t of_the_run_time[4];
  const char* source;
};
using Microtask = void (*)(std::int32_t* thread, std::int32_t* bound, ...);
using ReductionLock = void;

template <class Index>
struct Dispatch {
  void (*init)(SourceLocation*, std::int32_t, std::int32_t, Index, Index, std::make_signed_t<Index>,
               std::make_signed_t<Index>);
  int (*next)(SourceLocation*, std::int32_t, std::int32_t*, Index*, Index*,
              std::make_signed_t<Index>*);
  void (*static_init)(SourceLocation*, std::int32_t, std::int32_t, std::int32_t*, Index*, Index*,
                      std::make_signed_t<Index>*, std::make_signed_t<Index>,
                      std::make_signed_t<Index>);
};

// The functions of the process's libomp that Manyhands replaces or calls.
struct RealKmpc {
  void (*fork_call)(SourceLocation*, std::int32_t, Microtask, void*, void*, void*, ...);
  void (*push_num_threads)(SourceLocation*, std::int32_t, std::int32_t);
  void (*fork_call_if)(SourceLocation*, std::int32_t, Microtask, std::int32_t, void*);
  void (*serialized_parallel)(SourceLocation*, std::int32_t);
  void (*end_serialized_parallel)(SourceLocation*, std::int32_t);
  std::int32_t (*global_thread_num)(SourceLocation*);
  int (*invoke_microtask)(Microtask, int, int, int, void**, void**);
  std::int32_t (*reduce_nowait)(SourceLocation*, std::int32_t, std::int32_t, std::size_t, void*,
                                void (*)(void*, void*), ReductionLock*);
  void (*end_reduce_nowait)(SourceLocation*, std::int32_t, ReductionLock*);
  std::int32_t (*reduce)(SourceLocation*, std::int32_t, std::int32_t, std::size_t, void*,
                         void (*)(void*, void*), ReductionLock*);
  void (*end_reduce)(SourceLocation*, std::int32_t, ReductionLock*);
  void (*barrier)(SourceLocation*, std::int32_t);
  void (*critical)(SourceLocation*, std::int32_t, void*);
  void (*critical_with_hint)(SourceLocation*, std::int32_t, void*, std::uint32_t);
  void (*end_critical)(SourceLocation*, std::int32_t, void*);
  void (*copyprivate)(SourceLocation*, std::int32_t, std::size_t, void*, void (*)(void*, void*),
                      std::int32_t);
};
RealKmpc real_kmpc;

template <class Index>
Dispatch<Index> real_dispatch;

// ---- Regions: the calls by which compiled code starts them --------------------------------------

constexpr std::int32_t kUnasked = -1;

// A num_threads clause that applies to the next region of this thread, and libomp's number of the
// thread, which is an argument of the call for the clause.
struct NumThreadsClause {
  std::int32_t threads = 0;  // 0: no clause
  std::int32_t thread = kUnasked;
};
constinit thread_local NumThreadsClause t_clause;

// libomp's number of this thread, cached. Asking libomp takes 7 ns, a seventh of the whole cost of
// a shared loop, and the number never changes.
constinit thread_local std::int32_t t_number = kUnasked;

// Replaces __kmpc_global_thread_num(), which compiled code calls often, for example before a call
// for a num_threads clause, and answers from the cache.
std::int32_t global_thread_num(SourceLocation* location) {
  if (t_number == kUnasked) [[unlikely]]
    t_number = real_kmpc.global_thread_num(location);
  return t_number;
}

// The number of pointers that are passed in registers behind the first two arguments of a
// microtask, the function of a region. A microtask ignores the registers for which it has no
// parameter.
constexpr int kInRegisters = 4;

struct ForkedRegion {
  SourceLocation* location;
  Microtask task;
  int count;
  void** arguments;     // at least kInRegisters elements, whatever `count` is
  std::int32_t thread;  // libomp's number of the encountering thread, or kUnasked
};

// Calls a microtask, the function of a region. It has any number of pointers as arguments: few are
// passed by an ordinary call, many by a function of libomp, which costs 4 ns.
void call_task(const ForkedRegion& fork, std::int32_t thread, std::int32_t number) {
  void** const with = fork.arguments;
  if (fork.count <= kInRegisters) {
    fork.task(&thread, &number, with[0], with[1], with[2], with[3]);
  } else {
    void* frame = nullptr;  // of the run time's function, for tools
    real_kmpc.invoke_microtask(fork.task, thread, number, fork.count, with, &frame);
  }
}

// Calls the microtask of a region on this thread, which is a member of a shared region (perhaps as
// a helper) or of the run time's team.
void run_task(void* data) {
  const ForkedRegion& fork = *static_cast<const ForkedRegion*>(data);
  const bool shared = in_region();
  const int number = shared ? static_cast<int>(thread_number(*current)) : real.thread_num();
  const bool known = shared && current->number == 0 && fork.thread != kUnasked;
  call_task(fork, known ? fork.thread : global_thread_num(fork.location), number);
}

struct BodyCall {
  Body body;
  void* data;
};

void run_body_call(std::int32_t* /*thread*/, std::int32_t* /*bound*/, BodyCall* call) {
  call->body(call->data);
}

void run_by_team(Body body, void* data, unsigned threads, const void* location) {
  auto* where = static_cast<SourceLocation*>(const_cast<void*>(location));
  if (threads != 0) {
    real_kmpc.push_num_threads(where, global_thread_num(where), static_cast<std::int32_t>(threads));
  }
  BodyCall call{.body = body, .data = data};
  real_kmpc.fork_call(where, 1, reinterpret_cast<Microtask>(run_body_call), &call, nullptr,
                      nullptr);
}

// Lets libomp execute a region that helpers cannot join. Not inlined, to keep the path of shared
// regions short.
[[gnu::noinline]] void run_without_us(ForkedRegion& fork, unsigned threads,
                                      const EncounterResult& result) {
  const Nested nested(result);
  run_by_team(run_task, &fork, nested.threads(threads), fork.location);
}

[[gnu::always_inline]] inline void run_fork(SourceLocation* location, Microtask task,
                                            std::int32_t count, void** arguments) {
  const NumThreadsClause clause = std::exchange(t_clause, {});
  const auto threads = static_cast<unsigned>(clause.threads);
  ForkedRegion fork{.location = location,
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
  const EncounterResult result = run_shared(met);
  if (!result.done) run_without_us(fork, threads, result);
}

// Runs a region with more than kPassed shared variables. fork_call() gets pointers to the first
// kPassed of them in registers, and pointers to the rest in `others`.
constexpr int kPassed = 3;
[[gnu::noinline]] void run_fork_of_many(SourceLocation* location, Microtask task,
                                        std::int32_t count, void* const (&passed)[kPassed],
                                        va_list others) {
  constexpr std::int32_t kFew = 64;
  void* few[kFew];
  std::vector<void*> many(count <= kFew ? 0 : static_cast<std::size_t>(count));
  void** const arguments = many.empty() ? few : many.data();
  std::copy_n(passed, kPassed, arguments);
  for (std::int32_t i = kPassed; i < count; ++i) arguments[i] = va_arg(others, void*);
  run_fork(location, task, count, arguments);
}

// Replaces __kmpc_fork_call(), by which compiled code starts a region. Pointers to the first three
// shared variables come in registers, even if the region has fewer, and are passed on unchanged.
// NOLINTNEXTLINE(cert-dcl50-cpp): the run time's own signature
void fork_call(SourceLocation* location, std::int32_t count, Microtask task, void* first,
               void* second, void* third, ...) {
  if (count <= kPassed) [[likely]] {
    void* arguments[kInRegisters] = {first, second, third};
    return run_fork(location, task, count, arguments);
  }
  va_list others;
  va_start(others, third);
  run_fork_of_many(location, task, count, {first, second, third}, others);
  va_end(others);
}

// Begins a region whose if clause is false. The encountering thread runs it alone, as code that
// does not belong to the shared region in which the thread may be.
void begin_alone() {
  t_clause = {};
  begin_set_aside();
}

// Replace the calls before and after a region with a false if clause. Between the two, the program
// itself calls the region's body.
void serialized_parallel(SourceLocation* location, std::int32_t thread) {
  begin_alone();
  real_kmpc.serialized_parallel(location, thread);
}
void end_serialized_parallel(SourceLocation* location, std::int32_t thread) {
  real_kmpc.end_serialized_parallel(location, thread);
  end_set_aside();
}

// Replaces __kmpc_fork_call_if(), the single call for a region with an if clause and at most one
// argument.
void fork_call_if(SourceLocation* location, std::int32_t count, Microtask task,
                  std::int32_t condition, void* argument) {
  if (condition == 0) {
    begin_alone();
    real_kmpc.fork_call_if(location, count, task, condition, argument);
    end_set_aside();
  } else {
    void* one[kInRegisters] = {argument};
    run_fork(location, task, argument != nullptr ? count : 0, one);
  }
}

void push_num_threads(SourceLocation* /*location*/, std::int32_t thread, std::int32_t threads) {
  t_clause = {.threads = threads, .thread = thread};
}

// ---- Loops: the calls by which a thread gets its chunks or its static share ---------------------

// The difference between a schedule's number in libomp and in omp_sched_t: enum sched_type of kmp.h
// numbers dynamic, guided and runtime from 35 on. Modifiers of the schedule (kModifiers) are high
// bits of libomp's number.
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
void dispatch_init(SourceLocation* location, std::int32_t thread, std::int32_t schedule, Index low,
                   Index high, std::make_signed_t<Index> step, std::make_signed_t<Index> chunk) {
  const bool shared =
      current != nullptr &&
      begin_shared_loop(loop_of(low, high, step),
                        chunk_rule_of((schedule & ~kModifiers) - kBeforeOurs, chunk),
                        (schedule & kMonotonic) != 0);
  if (shared || is_helper()) return;
  real_dispatch<Index>.init(location, thread, schedule, low, high, step, chunk);
}

template <class Index>
int store_chunk(const Loop& loop, const IterationRange& range, std::int32_t* last, Index* low,
                Index* high, std::make_signed_t<Index>* step) {
  if (range.empty()) return 0;
  *low = static_cast<Index>(loop.start + range.first * loop.step);
  *high = static_cast<Index>(loop.start + (range.end - 1) * loop.step);
  if (step != nullptr) *step = static_cast<std::make_signed_t<Index>>(loop.step);
  if (last != nullptr) *last = range.end == loop.count ? 1 : 0;
  return 1;
}

// Gives the calling thread the next chunk of its loop, for any thread (helpers too) and any loop
// (shared or not). Not inlined, to keep the path of an owner's next chunk short (dispatch_next()).
template <class Index>
[[gnu::noinline]] int next_of_any(SourceLocation* location, std::int32_t thread, std::int32_t* last,
                                  Index* low, Index* high, std::make_signed_t<Index>* step) {
  if (in_shared_loop()) {
    SharedRegion& region = *shared_region();
    const IterationRange range = region.next(*current);
    return store_chunk(region.loop(), range, last, low, high, step);
  }
  return is_helper() ? 0 : real_dispatch<Index>.next(location, thread, last, low, high, step);
}

template <class Index>
int dispatch_next(SourceLocation* location, std::int32_t thread, std::int32_t* last, Index* low,
                  Index* high, std::make_signed_t<Index>* step) {
  Participant* const me = current;
  if (me == nullptr || !me->goes_on()) {
    return next_of_any(location, thread, last, low, high, step);
  }
  SharedRegion& region = *shared_region();
  const IterationRange range = region.next_at_once(*me);
  return store_chunk(region.loop(), range, last, low, high, step);
}

// Replaces __kmpc_for_static_init_4 and its variants: computes the calling thread's share of a
// static loop. A virtual thread gets the share of its number (virtual_threads.hpp). A helper's
// share is empty.
template <class Index>
void static_init(SourceLocation* location, std::int32_t thread, std::int32_t schedule,
                 std::int32_t* last, Index* low, Index* high, std::make_signed_t<Index>* stride,
                 std::make_signed_t<Index> step, std::make_signed_t<Index> chunk) {
  if (const VirtualTeam* const team = virtual_team()) {
    const StaticLoop<Index> loop{.low = *low, .high = *high, .step = step, .chunk = chunk};
    const StaticShare<Index> share =
        static_share(schedule, loop, current->virtual_number, team->size());
    *low = share.low;
    *high = share.high;
    *stride = share.stride;
    if (last != nullptr) *last = share.last ? 1 : 0;
    return;
  }
  if (is_static_schedule(schedule)) {
    report_division(Obstacle::no_loop);
  } else {
    report_obstacle(Obstacle::no_loop);
  }
  real_dispatch<Index>.static_init(location, thread, schedule, last, low, high, stride, step,
                                   chunk);
  if (!is_helper()) return;
  *low = 1;
  *high = 0;
  if (last != nullptr) *last = 0;
}

// ---- Other calls of a region --------------------------------------------------------------------
//
// Reductions without a barrier and critical sections are permitted in a shared region. The other
// calls below keep a region from being shared with helpers. Barriers alone do not keep it from
// running by virtual threads, which meet at them (virtual_threads.hpp). calls.hpp handles the calls
// that have no function in this file.

// Held while a thread of a shared region combines its values in a reduction. A reduction of libomp
// knows its own team only, not the helpers. In a shared region the call that begins a reduction
// therefore returns 1 in every thread, which tells the thread to combine and then to call the end
// function.
std::mutex g_reducing;

// Combines the values of all virtual threads into those of thread 0, at a barrier. Returns 1 in
// thread 0, which uses the result and then calls the end function of the reduction, else 0. If the
// reduction has a barrier itself (`kWaits`), the other threads wait until thread 0 has used the
// result.
template <bool kWaits>
std::int32_t reduce_virtually(VirtualTeam& team, std::uint32_t number, void* data,
                              VirtualTeam::Combine combine) {
  team.meet_and_combine(number, data, combine);
  if (number == 0) return 1;
  if (kWaits) team.meet(number);
  return 0;
}

template <bool kWaits>  // with a barrier
std::int32_t begin_reduction(SourceLocation* location, std::int32_t thread, std::int32_t count,
                             std::size_t bytes, void* data, void (*combine)(void*, void*),
                             ReductionLock* lock) {
  if (VirtualTeam* const team = team_that_meets())
    return reduce_virtually<kWaits>(*team, current->virtual_number, data, combine);
  if (kWaits) {
    report_meeting(Obstacle::barrier);
  } else if (current != nullptr) {
    current->meets_barrier = true;
  }
  if (!in_region()) {
    const auto real_reduce = kWaits ? real_kmpc.reduce : real_kmpc.reduce_nowait;
    return real_reduce(location, thread, count, bytes, data, combine, lock);
  }
  g_reducing.lock();
  return 1;
}

template <bool kWaits>
void end_reduction(SourceLocation* location, std::int32_t thread, ReductionLock* lock) {
  if (VirtualTeam* const team = team_that_meets()) {
    if (kWaits) team->meet(0);
    return;
  }
  if (!in_region()) {
    const auto real_end = kWaits ? real_kmpc.end_reduce : real_kmpc.end_reduce_nowait;
    return real_end(location, thread, lock);
  }
  g_reducing.unlock();
  if (kWaits) meet_team([&] { real_kmpc.barrier(location, thread); });
}

void barrier(SourceLocation* location, std::int32_t thread) {
  if (VirtualTeam* const team = team_that_meets()) return team->meet(current->virtual_number);
  report_meeting(Obstacle::barrier);
  meet_team([&] { real_kmpc.barrier(location, thread); });
}

// Returns the number by which libomp's locks identify the calling thread. `thread`: the number in
// the compiled code. It is stale if the code is that of a virtual thread, which may run on another
// thread after a barrier.
std::int32_t number_here(SourceLocation* location, std::int32_t thread) {
  return virtual_team() != nullptr ? global_thread_num(location) : thread;
}
void critical(SourceLocation* location, std::int32_t thread, void* lock) {
  real_kmpc.critical(location, number_here(location, thread), lock);
}
void critical_with_hint(SourceLocation* location, std::int32_t thread, void* lock,
                        std::uint32_t hint) {
  real_kmpc.critical_with_hint(location, number_here(location, thread), lock, hint);
}
void end_critical(SourceLocation* location, std::int32_t thread, void* lock) {
  real_kmpc.end_critical(location, number_here(location, thread), lock);
}

// Replaces the end of a `single` construct with copyprivate: the thread that executed the construct
// gives its values to the other threads, with a barrier.
void copyprivate(SourceLocation* location, std::int32_t thread, std::size_t bytes, void* data,
                 void (*copy)(void*, void*), std::int32_t is_chosen) {
  report_obstacle(Obstacle::single);
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
  add_binding(table, "__kmpc_dispatch_init_" + width, dispatch_init<Index>, calls.init);
  add_binding(table, "__kmpc_dispatch_next_" + width, dispatch_next<Index>, calls.next);
  add_binding(table, "__kmpc_for_static_init_" + width, static_init<Index>, calls.static_init);
}

}  // namespace

void forget_number() { t_number = kUnasked; }

void add_kmpc(std::vector<Binding>& table) {
  add_binding(table, "__kmpc_fork_call", fork_call, real_kmpc.fork_call);
  add_binding(table, "__kmpc_fork_call_if", fork_call_if, real_kmpc.fork_call_if);
  add_binding(table, "__kmpc_push_num_threads", push_num_threads, real_kmpc.push_num_threads);
  add_binding(table, "__kmpc_serialized_parallel", serialized_parallel,
              real_kmpc.serialized_parallel);
  add_binding(table, "__kmpc_end_serialized_parallel", end_serialized_parallel,
              real_kmpc.end_serialized_parallel);
  add_binding(table, "__kmpc_global_thread_num", global_thread_num, real_kmpc.global_thread_num);
  add_query(table, "__kmp_invoke_microtask", real_kmpc.invoke_microtask);
  add_dispatch<std::int32_t>(table, "4");
  add_dispatch<std::uint32_t>(table, "4u");
  add_dispatch<std::int64_t>(table, "8");
  add_dispatch<std::uint64_t>(table, "8u");
  add_binding(table, "__kmpc_reduce_nowait", begin_reduction<false>, real_kmpc.reduce_nowait);
  add_binding(table, "__kmpc_end_reduce_nowait", end_reduction<false>, real_kmpc.end_reduce_nowait);
  add_binding(table, "__kmpc_reduce", begin_reduction<true>, real_kmpc.reduce);
  add_binding(table, "__kmpc_end_reduce", end_reduction<true>, real_kmpc.end_reduce);
  add_binding(table, "__kmpc_barrier", barrier, real_kmpc.barrier);
  add_binding(table, "__kmpc_critical", critical, real_kmpc.critical);
  add_binding(table, "__kmpc_critical_with_hint", critical_with_hint, real_kmpc.critical_with_hint);
  add_binding(table, "__kmpc_end_critical", end_critical, real_kmpc.end_critical);
  add_binding(table, "__kmpc_copyprivate", copyprivate, real_kmpc.copyprivate);
}

}  // namespace mh::openmp
