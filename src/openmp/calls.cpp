// SPDX-License-Identifier: BSD-3-Clause
#include "openmp/calls.hpp"

#include <algorithm>
#include <array>
#include <iterator>

#include "openmp/lists.hpp"

namespace mh::openmp {
namespace {

struct CallRow {
  std::string_view names;  // `*` stands for any characters
  Obstacle obstacle;
  Effect effect = Effect::none;
};

// For functions of the OpenMP run times: the obstacle to sharing a region that calls the function,
// and the effect of the call in a shared region. The first matching row applies; a function without
// a row is an obstacle. The names come from GCC's libgomp.map (up to GCC 15) and LLVM's dllexports
// (up to LLVM 19).
constexpr CallRow kRows[] = {
    // Regions inside the region that makes the call. The first four calls are of GCC before 4.9.
    {"GOMP_parallel_start", Obstacle::nested, Effect::begins_region},
    {"GOMP_parallel_sections_start", Obstacle::nested, Effect::begins_region},
    {"GOMP_parallel_loop_*_start", Obstacle::nested, Effect::begins_region},
    {"GOMP_parallel_end", Obstacle::nested, Effect::ends_region},
    {"GOMP_parallel", Obstacle::none},
    {"GOMP_parallel_loop_*", Obstacle::none},
    {"GOMP_parallel_sections", Obstacle::none},
    {"GOMP_parallel_reductions", Obstacle::none},
    {"__kmpc_fork_call", Obstacle::none},
    {"__kmpc_fork_call_if", Obstacle::none},
    {"__kmpc_push_num_threads", Obstacle::none},
    {"__kmpc_serialized_parallel", Obstacle::none},
    {"__kmpc_end_serialized_parallel", Obstacle::none},

    // Calls that begin, continue and end loops, both loops that helpers cannot join and loops that
    // they can.
    {"GOMP_loop_*static_start", Obstacle::no_loop, Effect::begins_loop},
    {"GOMP_loop_*static_next", Obstacle::no_loop, Effect::owners_only},
    {"GOMP_loop_*ordered_*start", Obstacle::single, Effect::begins_loop},
    {"GOMP_loop_*doacross_*start", Obstacle::single, Effect::begins_loop},
    {"GOMP_loop_start", Obstacle::tasks, Effect::begins_loop},
    {"GOMP_loop_ull_start", Obstacle::tasks, Effect::begins_loop},
    {"GOMP_loop_*ordered_*next", Obstacle::single, Effect::owners_only},
    {"GOMP_loop_*dynamic_start", Obstacle::none},
    {"GOMP_loop_*dynamic_next", Obstacle::none},
    {"GOMP_loop_*guided_start", Obstacle::none},
    {"GOMP_loop_*guided_next", Obstacle::none},
    {"GOMP_loop_*runtime_start", Obstacle::none},
    {"GOMP_loop_*runtime_next", Obstacle::none},
    {"GOMP_loop_end_nowait", Obstacle::none},
    {"__kmpc_for_static_init_*", Obstacle::no_loop},
    {"__kmpc_for_static_fini", Obstacle::none},
    {"__kmpc_dispatch_init_*", Obstacle::none},
    {"__kmpc_dispatch_next_*", Obstacle::none},
    {"__kmpc_dispatch_deinit", Obstacle::none},
    {"__kmpc_dispatch_fini_*", Obstacle::single, Effect::owners_only},

    // Barriers: all threads of a team must reach them, but a helper joins a region late and leaves
    // it early.
    {"GOMP_loop_end", Obstacle::barrier},
    {"GOMP_loop_end_cancel", Obstacle::barrier, Effect::owners_only},
    {"GOMP_barrier", Obstacle::barrier},
    {"GOMP_barrier_cancel", Obstacle::barrier, Effect::owners_only},
    {"__kmpc_barrier", Obstacle::barrier},
    {"__kmpc_barrier_*", Obstacle::barrier, Effect::owners_only},
    {"__kmpc_cancel_barrier", Obstacle::barrier, Effect::owners_only},
    {"__kmpc_reduce", Obstacle::barrier},
    {"__kmpc_end_reduce", Obstacle::barrier},

    // Work that one thread of a team does, or that the team does in order, so a helper must not do
    // it.
    {"GOMP_single_start", Obstacle::single, Effect::owners_only},
    {"GOMP_single_copy_*", Obstacle::single},
    {"GOMP_sections_end", Obstacle::single},
    {"GOMP_sections*", Obstacle::single, Effect::owners_only},
    {"GOMP_scope_*", Obstacle::single, Effect::owners_only},
    {"GOMP_ordered_*", Obstacle::single, Effect::owners_only},
    {"GOMP_doacross_*", Obstacle::single, Effect::owners_only},
    {"GOMP_cancel", Obstacle::single},
    {"GOMP_cancellation_point", Obstacle::single},
    {"__kmpc_single", Obstacle::single, Effect::owners_only},
    {"__kmpc_end_single", Obstacle::single, Effect::owners_only},
    {"__kmpc_copyprivate", Obstacle::single},
    {"__kmpc_*scope", Obstacle::single, Effect::owners_only},
    {"__kmpc_*section*", Obstacle::single, Effect::owners_only},
    {"__kmpc_ordered", Obstacle::single},
    {"__kmpc_end_ordered", Obstacle::single, Effect::owners_only},
    {"__kmpc_doacross_*", Obstacle::single, Effect::owners_only},
    {"__kmpc_cancel", Obstacle::single},
    {"__kmpc_cancellationpoint", Obstacle::single},

    // Tasks keep a region from being shared. A region that is already shared may come to create
    // tasks; those of a helper run at once, on the helper.
    {"GOMP_task*", Obstacle::tasks},
    {"GOMP_workshare_task_*", Obstacle::tasks, Effect::owners_only},
    {"__kmpc_omp_task*", Obstacle::tasks},
    {"__kmpc_task*", Obstacle::tasks},
    {"__kmpc_end_taskgroup", Obstacle::tasks},
    {"__kmpc_omp_wait_deps", Obstacle::tasks},

    // Mutual exclusion, reductions, memory: these calls do the same in every thread, a helper
    // included.
    {"GOMP_critical_*", Obstacle::none},
    {"GOMP_atomic_*", Obstacle::none},
    {"GOMP_alloc", Obstacle::none},
    {"GOMP_free", Obstacle::none},
    {"__kmpc_critical*", Obstacle::none},
    {"__kmpc_end_critical", Obstacle::none},
    {"__kmpc_atomic_*", Obstacle::none},
    {"__kmpc_*_lock", Obstacle::none},
    {"__kmpc_*_lock_with_hint", Obstacle::none},
    {"__kmpc_reduce_nowait", Obstacle::none},
    {"__kmpc_end_reduce_nowait", Obstacle::none},
    {"__kmpc_flush", Obstacle::none},
    {"__kmpc_alloc", Obstacle::none},
    {"__kmpc_aligned_alloc", Obstacle::none},
    {"__kmpc_calloc", Obstacle::none},
    {"__kmpc_realloc", Obstacle::none},
    {"__kmpc_free", Obstacle::none},
    {"__kmpc_threadprivate*", Obstacle::none},
    {"omp_*_lock", Obstacle::none},
    {"omp_*_lock_with_hint", Obstacle::none},
    {"omp_alloc", Obstacle::none},
    {"omp_aligned_alloc", Obstacle::none},
    {"omp_calloc", Obstacle::none},
    {"omp_aligned_calloc", Obstacle::none},
    {"omp_realloc", Obstacle::none},
    {"omp_free", Obstacle::none},

    // Queries of the run time: first those with the same answer in every thread, a helper included,
    // then those whose answers differ.
    {"omp_get_wtime", Obstacle::none},
    {"omp_get_wtick", Obstacle::none},
    {"omp_in_parallel", Obstacle::none},
    {"omp_is_initial_device", Obstacle::none},
    {"omp_get_num_devices", Obstacle::none},
    {"__kmpc_global_thread_num", Obstacle::none},  // code that compilers insert calls it
    {"__kmpc_*_num_threads", Obstacle::thread_number},
    {"__kmpc_bound_thread_num", Obstacle::thread_number},
    {"__kmpc_*master", Obstacle::thread_number, Effect::owners_only},
    {"__kmpc_*masked", Obstacle::thread_number, Effect::owners_only},
    {"omp_get_thread_num", Obstacle::thread_number},
    {"omp_get_ancestor_thread_num", Obstacle::thread_number},
    {"omp_get_num_threads", Obstacle::thread_number},
    {"omp_get_max_threads", Obstacle::thread_number},
    {"omp_get_team_size", Obstacle::thread_number},
    {"omp_get_num_procs", Obstacle::thread_number},
    {"omp_get_level", Obstacle::thread_number},
    {"omp_get_active_level", Obstacle::thread_number},
};

constexpr std::string_view kMeetings[] = {"GOMP_barrier",      "__kmpc_barrier",
                                          "__kmpc_reduce",     "__kmpc_reduce_nowait",
                                          "__kmpc_end_reduce", "__kmpc_end_reduce_nowait"};
constexpr std::string_view kNumbered[] = {"__kmpc_atomic_*", "__kmpc_*_lock",
                                          "__kmpc_*_lock_with_hint"};
constexpr std::string_view kVirtual[] = {
    "__kmpc_for_static_init_*",
    "__kmpc_for_static_fini",
    "__kmpc_global_thread_num",
    "GOMP_critical_*",
    "GOMP_atomic_*",
    "__kmpc_critical*",
    "__kmpc_end_critical",
    "__kmpc_atomic_*",
    "__kmpc_*_lock",
    "__kmpc_*_lock_with_hint",
    "omp_*_lock",
    "omp_*_lock_with_hint",
    "omp_get_thread_num",
    "omp_get_num_threads",
    "omp_get_max_threads",
    "omp_get_level",
    "omp_get_active_level",
    "omp_in_parallel",
    "omp_get_wtime",
    "omp_get_wtick",
    "omp_is_initial_device",
    "omp_get_num_devices",
};

// Returns the name in C of an OpenMP function that Fortran code calls by an alias with the ending
// `_` or `_8_`.
std::string_view without_fortrans_ending(std::string_view name) {
  if (!name.starts_with("omp_")) return name;
  if (name.ends_with("_8_")) name.remove_suffix(3);
  if (name.ends_with("_")) name.remove_suffix(1);
  return name;
}

template <std::size_t count>
bool is_one_of(const std::string_view (&patterns)[count], std::string_view name) {
  const std::string_view known = without_fortrans_ending(name);
  return std::any_of(std::begin(patterns), std::end(patterns),
                     [&](std::string_view pattern) { return matches_text(pattern, known); });
}

}  // namespace

bool is_run_time_name(std::string_view name) {
  constexpr std::array<std::string_view, 8> kBeginnings = {"GOMP_", "GOACC_", "omp_", "ompc_",
                                                           "ompx_", "__kmp",  "kmp_", "kmpc_"};
  return std::any_of(kBeginnings.begin(), kBeginnings.end(),
                     [&](std::string_view beginning) { return name.starts_with(beginning); });
}

bool can_be_virtual(std::string_view name) { return is_one_of(kVirtual, name); }
bool is_meeting(std::string_view name) { return is_one_of(kMeetings, name); }
bool is_numbered(std::string_view name) { return is_one_of(kNumbered, name); }

Obstacle virtual_obstacle_of(std::string_view name) {
  if (can_be_virtual(name) || is_meeting(name)) return Obstacle::none;
  if (name.starts_with("GOMP_parallel") || name.starts_with("__kmpc_fork_call"))
    return Obstacle::nested;
  if (name == "__kmpc_flush") return Obstacle::waiting;
  const Obstacle found = rule_of(name).obstacle;
  const bool says_little =
      found == Obstacle::none || found == Obstacle::no_loop || found == Obstacle::thread_number;
  return says_little ? Obstacle::other_calls : found;
}

CallRule rule_of(std::string_view name) {
  const std::string_view known = without_fortrans_ending(name);
  const auto* const row = std::find_if(std::begin(kRows), std::end(kRows), [&](const CallRow& r) {
    return matches_text(r.names, known);
  });
  if (row == std::end(kRows)) return {.obstacle = Obstacle::other_calls};
  return {.obstacle = row->obstacle, .effect = row->effect};
}

}  // namespace mh::openmp
