// SPDX-License-Identifier: BSD-3-Clause
// The entry points of GCC's OpenMP run time, libgomp, which gfortran uses too.
//
// Manyhands answers the calls that a region makes while helpers may join its loop; all other calls
// go on to the run time.
#include <iterator>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "openmp/encounter.hpp"
#include "openmp/real.hpp"
#include "openmp/schedule.hpp"
#include "openmp/virtual_threads.hpp"

namespace mh::openmp {

Real real;

namespace {

void run_by_team(Body body, void* data, unsigned threads, const void* flags) {
  real.parallel(body, data, threads, *static_cast<const unsigned*>(flags));
}

// Describes the region that libgomp's GOMP_parallel() is to run. `flags`: libgomp's argument, which
// must outlive the region.
Encounter encounter_of(Body body, void* data, unsigned threads, const unsigned& flags) {
  return {.code = reinterpret_cast<const void*>(body),
          .body = body,
          .data = data,
          .threads = threads,
          .run_by_team = run_by_team,
          .how = &flags};
}

void parallel(Body body, void* data, unsigned threads, unsigned flags) {
  const EncounterResult result = run_shared(encounter_of(body, data, threads, flags));
  if (result.done) return;
  const Nested nested(result);
  real.parallel(body, data, nested.threads(threads), flags);
}

// ---- Loops: the calls by which a thread of a region gets its chunks -----------------------------

Loop loop_of(long start, long bound, long step) {
  const auto from = static_cast<std::uint64_t>(start);
  const auto to = static_cast<std::uint64_t>(bound);
  Loop loop{.start = from, .step = static_cast<std::uint64_t>(step), .bound = to};
  if (step > 0 && start < bound) loop.count = indices_over(to - from - 1, loop.step);
  if (step < 0 && start > bound) loop.count = indices_over(from - to - 1, -loop.step);
  return loop;
}

using Ull = unsigned long;  // libgomp's unsigned long long, which has the same width

Loop loop_of(bool up, Ull start, Ull bound, Ull step) {
  Loop loop{.start = start, .step = step, .bound = bound};
  if (up && start < bound) loop.count = indices_over(bound - start - 1, step);
  if (!up && start > bound) loop.count = indices_over(start - bound - 1, -loop.step);
  return loop;
}

template <class Index>
bool store_chunk(const Loop& loop, const IterationRange& range, Index* first, Index* end) {
  if (range.empty()) return false;
  const std::uint64_t start = loop.start + range.first * loop.step;
  const std::uint64_t bound = loop.start + range.end * loop.step;
  *first = static_cast<Index>(start);
  // The last chunk ends at the loop's bound itself, because the program recognises the last
  // iteration by the bound.
  *end = static_cast<Index>(range.end == loop.count ? loop.bound : bound);
  return true;
}

// A schedule by which threads get chunks while the loop runs, as libgomp's functions name it.
struct ChunkSchedule {
  const char* name;  // part of the names of libgomp's functions
  int schedule;
  bool in_order;  // schedule(monotonic: ...), which compilers also choose themselves
};
constexpr ChunkSchedule kChunkSchedules[] = {
    {"dynamic", kDynamic, true},
    {"guided", kGuided, true},
    {"nonmonotonic_dynamic", kDynamic, false},
    {"nonmonotonic_guided", kGuided, false},
    {"runtime", kRunTime, true},
    {"nonmonotonic_runtime", kRunTime, false},
    {"maybe_nonmonotonic_runtime", kRunTime, false},
};

LoopChunkRule chunk_rule_of(const ChunkSchedule& kind, long chunk = 0) {
  return openmp::chunk_rule_of(kind.schedule, chunk);
}

template <class... Chunk>
bool begin_loop(const ChunkSchedule& kind, const Loop& loop, Chunk... chunk) {
  return current != nullptr &&
         begin_shared_loop(loop, chunk_rule_of(kind, chunk...), kind.in_order);
}

template <class Index>
bool next_chunk(Index* first, Index* end) {
  SharedRegion& region = *shared_region();
  const IterationRange range = region.next(*current);
  return store_chunk(region.loop(), range, first, end);
}

// Manyhands' functions for loops of one schedule, and pointers to the functions of libgomp that
// they replace. `Chunk`: the type of the chunk size, long, or empty for schedule(runtime).
template <std::size_t number, class... Chunk>
struct LoopCalls {
  static constexpr const ChunkSchedule& kind = kChunkSchedules[number];

  static inline bool (*real_start)(long, long, long, Chunk..., long*, long*);
  static bool start(long from, long bound, long step, Chunk... chunk, long* first, long* end) {
    if (begin_loop(kind, loop_of(from, bound, step), chunk...)) return next_chunk(first, end);
    return !is_helper() && real_start(from, bound, step, chunk..., first, end);
  }

  static inline bool (*real_start_ull)(bool, Ull, Ull, Ull, std::make_unsigned_t<Chunk>..., Ull*,
                                       Ull*);
  static bool start_ull(bool up, Ull from, Ull bound, Ull step,
                        std::make_unsigned_t<Chunk>... chunk, Ull* first, Ull* end) {
    if (begin_loop(kind, loop_of(up, from, bound, step), static_cast<long>(chunk)...)) {
      return next_chunk(first, end);
    }
    return !is_helper() && real_start_ull(up, from, bound, step, chunk..., first, end);
  }

  static inline bool (*real_next)(long*, long*);
  static inline bool (*real_next_ull)(Ull*, Ull*);
  template <auto& real_call, class Index>
  static bool next(Index* first, Index* end) {
    if (in_shared_loop()) return next_chunk(first, end);
    return !is_helper() && real_call(first, end);
  }

  // Replaces GOMP_parallel_loop_*(), the call for a region that is one loop and nothing else.
  // Helpers may join such a region from its first execution on.
  static inline void (*real_parallel)(Body, void*, unsigned, long, long, long, Chunk..., unsigned);
  static void parallel(Body body, void* data, unsigned threads, long from, long bound, long step,
                       Chunk... chunk, unsigned flags) {
    const EncounterResult result =
        run_shared(encounter_of(body, data, threads, flags), loop_of(from, bound, step),
                   chunk_rule_of(kind, chunk...), kind.in_order);
    if (result.done) return;
    const Nested nested(result);
    real_parallel(body, data, nested.threads(threads), from, bound, step, chunk..., flags);
  }

  static void add_to(std::vector<Binding>& table) {
    const std::string name = kind.name;
    add_binding(table, "GOMP_loop_" + name + "_start", start, real_start);
    add_binding(table, "GOMP_loop_ull_" + name + "_start", start_ull, real_start_ull);
    add_binding(table, "GOMP_loop_" + name + "_next", next<real_next>, real_next);
    add_binding(table, "GOMP_loop_ull_" + name + "_next", next<real_next_ull>, real_next_ull);
    add_binding(table, "GOMP_parallel_loop_" + name, parallel, real_parallel);
  }
};

template <std::size_t number>
using LoopCallsOf = std::conditional_t<kChunkSchedules[number].schedule == kRunTime,
                                       LoopCalls<number>, LoopCalls<number, long>>;

void loop_end_nowait() {
  if (!in_shared_loop() && !is_helper()) real.loop_end_nowait();
}

// ---- Other calls of a region --------------------------------------------------------------------
//
// Each call below keeps a region from being shared with helpers. Barriers alone do not keep it from
// running by virtual threads, which meet at them (virtual_threads.hpp). calls.hpp handles the calls
// that have no function in this file. If the region is already shared, a helper gets no work from a
// call below, and waits with the team where the call waits.

void barrier() {
  if (VirtualTeam* const team = team_that_meets()) return team->meet(current->virtual_number);
  report_meeting(Obstacle::barrier);
  meet_team(real.barrier);
}

void loop_end() {
  if (in_shared_loop() || is_helper()) return barrier();
  report_obstacle(Obstacle::barrier);
  meet_team(real.loop_end);
}

void sections_end() {
  report_obstacle(Obstacle::single);
  meet_team(real.sections_end);
}

void* single_copy_start() {
  report_obstacle(Obstacle::single);
  return is_helper() ? shared_region()->await_copy() : real.single_copy_start();
}

void single_copy_end(void* data) {
  if (in_region()) shared_region()->give_copy(data);
  real.single_copy_end(data);
}

// Runs, by the run time's own call, a region that helpers can never join.
template <auto call, class... Others>
auto run_nested(Body body, void* data, unsigned threads, Others... others) {
  const Nested nested({.done = false});
  return (real.*call)(body, data, nested.threads(threads), others...);
}

}  // namespace

void add_gomp(std::vector<Binding>& table) {
  add_binding(table, "GOMP_parallel", parallel, real.parallel);
  [&]<std::size_t... number>(std::index_sequence<number...>) {
    (LoopCallsOf<number>::add_to(table), ...);
  }
  (std::make_index_sequence<std::size(kChunkSchedules)>());
  add_binding(table, "GOMP_loop_end", loop_end, real.loop_end);
  add_binding(table, "GOMP_loop_end_nowait", loop_end_nowait, real.loop_end_nowait);
  add_binding(table, "GOMP_barrier", barrier, real.barrier);
  add_binding(table, "GOMP_sections_end", sections_end, real.sections_end);
  add_binding(table, "GOMP_single_copy_start", single_copy_start, real.single_copy_start);
  add_binding(table, "GOMP_single_copy_end", single_copy_end, real.single_copy_end);
  add_binding(table, "GOMP_parallel_loop_static", run_nested<&Real::parallel_loop_static>,
              real.parallel_loop_static);
  add_binding(table, "GOMP_parallel_sections", run_nested<&Real::parallel_sections>,
              real.parallel_sections);
  add_binding(table, "GOMP_parallel_reductions", run_nested<&Real::parallel_reductions>,
              real.parallel_reductions);
}

}  // namespace mh::openmp
