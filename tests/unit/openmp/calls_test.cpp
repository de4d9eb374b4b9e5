// SPDX-License-Identifier: BSD-3-Clause
#include "openmp/calls.hpp"

#include <gtest/gtest.h>

namespace mh::openmp {
namespace {

TEST(Calls, what_is_not_known_is_not_permitted) {
  for (const char* name : {"GOMP_of_the_future", "__kmpc_of_the_future", "omp_set_schedule",
                           "omp_get_partition_num_places", "GOMP_loop_of_the_future_start"}) {
    EXPECT_EQ(rule_of(name).obstacle, Obstacle::other_calls) << name;
    EXPECT_TRUE(is_run_time_name(name)) << name;
  }
}

TEST(Calls, what_shared_loops_consist_of_is_permitted) {
  for (const char* name :
       {"GOMP_parallel", "GOMP_parallel_loop_nonmonotonic_dynamic", "GOMP_loop_dynamic_start",
        "GOMP_loop_ull_nonmonotonic_guided_next", "GOMP_loop_maybe_nonmonotonic_runtime_start",
        "GOMP_loop_end_nowait", "GOMP_critical_name_start", "GOMP_atomic_end", "__kmpc_fork_call",
        "__kmpc_global_thread_num", "__kmpc_dispatch_init_8u", "__kmpc_dispatch_next_4",
        "__kmpc_reduce_nowait", "__kmpc_critical_with_hint", "__kmpc_atomic_float8_add",
        "omp_get_wtime_", "omp_set_nest_lock", "omp_unset_lock_"}) {
    EXPECT_EQ(rule_of(name).obstacle, Obstacle::none) << name;
    EXPECT_EQ(rule_of(name).effect, Effect::none) << name;
  }
}

// Functions of the OpenMP run time that begin loops of kinds that cannot be shared. The chunks of
// such a loop must not count as chunks of a shared loop.
TEST(Calls, other_loops_begin_loops) {
  for (const char* name :
       {"GOMP_loop_doacross_dynamic_start", "GOMP_loop_ull_doacross_guided_start",
        "GOMP_loop_doacross_start", "GOMP_loop_ordered_dynamic_start", "GOMP_loop_ordered_start",
        "GOMP_loop_ull_ordered_static_start", "GOMP_loop_static_start", "GOMP_loop_start"}) {
    EXPECT_NE(rule_of(name).obstacle, Obstacle::none) << name;
    EXPECT_EQ(rule_of(name).effect, Effect::begins_loop) << name;
  }
  EXPECT_EQ(rule_of("GOMP_loop_ull_ordered_runtime_next").effect, Effect::owners_only);
  EXPECT_EQ(rule_of("GOMP_loop_static_next").effect, Effect::owners_only);
}

TEST(Calls, obstacles_are_told_apart) {
  EXPECT_EQ(rule_of("omp_get_thread_num").obstacle, Obstacle::thread_number);
  EXPECT_EQ(rule_of("omp_get_ancestor_thread_num_8_").obstacle, Obstacle::thread_number);
  EXPECT_EQ(rule_of("GOMP_loop_end").obstacle, Obstacle::barrier);
  EXPECT_EQ(rule_of("__kmpc_cancel_barrier").obstacle, Obstacle::barrier);
  EXPECT_EQ(rule_of("GOMP_sections2_start").obstacle, Obstacle::single);
  EXPECT_EQ(rule_of("__kmpc_doacross_wait").obstacle, Obstacle::single);
  EXPECT_EQ(rule_of("GOMP_taskloop_ull").obstacle, Obstacle::tasks);
  EXPECT_EQ(rule_of("__kmpc_omp_task_with_deps").obstacle, Obstacle::tasks);
  EXPECT_EQ(rule_of("__kmpc_for_static_init_8u").obstacle, Obstacle::no_loop);
  EXPECT_EQ(rule_of("GOMP_parallel_loop_guided_start").effect, Effect::begins_region);
  EXPECT_EQ(rule_of("GOMP_parallel_end").effect, Effect::ends_region);
}

TEST(Calls, names_of_programs_are_their_own) {
  for (const char* name : {"solver_omp_step", "gomp_parallel", "MPI_Send", "open", ""}) {
    EXPECT_FALSE(is_run_time_name(name)) << name;
  }
}

TEST(Calls, virtual_threads_make_calls_that_are_known_to_need_no_team) {
  for (const char* name : {"omp_get_thread_num", "omp_get_num_threads_", "GOMP_critical_start",
                           "__kmpc_for_static_init_8u", "omp_set_lock"})
    EXPECT_EQ(virtual_obstacle_of(name), Obstacle::none) << name;
  for (const char* name : {"GOMP_barrier", "__kmpc_barrier", "__kmpc_reduce_nowait"}) {
    EXPECT_EQ(virtual_obstacle_of(name), Obstacle::none) << name;
    EXPECT_TRUE(is_meeting(name)) << name;
  }
  EXPECT_EQ(virtual_obstacle_of("GOMP_barrier_cancel"), Obstacle::barrier);
  EXPECT_FALSE(is_meeting("omp_get_thread_num"));
  EXPECT_TRUE(is_numbered("__kmpc_atomic_float10_add"));
  EXPECT_EQ(virtual_obstacle_of("GOMP_parallel"), Obstacle::nested);
  EXPECT_EQ(virtual_obstacle_of("GOMP_loop_dynamic_start"), Obstacle::other_calls);
  EXPECT_EQ(virtual_obstacle_of("omp_get_num_procs"), Obstacle::other_calls);
  EXPECT_EQ(virtual_obstacle_of("GOMP_of_the_future"), Obstacle::other_calls);
}

}  // namespace
}  // namespace mh::openmp
