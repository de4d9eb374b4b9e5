// SPDX-License-Identifier: BSD-3-Clause
// The settings and the statistics of task collections.
//
// Balancers, which decide which rank runs a task, are those of Lifflander, Krishnamoorthy, Kale:
// Work Stealing and Persistence-based Load Balancers for Iterative Overdecomposed Applications,
// HPDC 2012: `steal` and `retain` of section 6, `plb_central` and `plb_tree` of section 5.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "manyhands/result.hpp"

#define MH_TASKS_API __attribute__((visibility("default")))

namespace mh::tasks {

// The way in which tasks are spread over the ranks.
enum class Balancer : std::uint8_t {
  none,         // each rank runs the tasks that were added on it
  steal,        // ranks without tasks steal; restore() gives the tasks back
  retain,       // as steal, but restore() leaves each task with the rank that ran it
  plb_central,  // restore() moves tasks by their measured durations; one rank decides
  plb_tree,     // as plb_central, but the ranks of a tree decide
  automatic,    // retain, plb_tree or plb_central, by the costs that the ranks have measured
};
// Returns the name that programs use for a balancer in options: "none", "steal", "retain",
// "plb-central", "plb-tree" or "auto". A constant string; any thread may call this.
[[nodiscard]] MH_TASKS_API const char* name_of(Balancer balancer) noexcept;
// Returns the balancer that has this name in options (name_of()); `misuse`: there is none. Any
// thread may call this.
MH_TASKS_API Result<Balancer> balancer_of(std::string_view name) noexcept;

// The order in which a rank without tasks tries other ranks (victims) to steal from.
enum class VictimChoice : std::uint8_t {
  random,        // any other rank, uniformly
  hierarchical,  // in turn: two ranks of its NUMA node, two of its node, four of all
  nearest,       // by distance of rank numbers: the next, the previous, then two away, and so on
};

// The settings of a collection. All ranks pass the same values, except for `local`. Values out of
// range make create() fail with `misuse`.
struct Config {
  std::size_t task_bytes = 56;  // the size of the largest task; 1 to 2^20
  // The most tasks that one rank has at a time, up to 2^30; rounded up to a power of two.
  std::uint64_t max_tasks = 16384;
  Balancer balancer = Balancer::steal;
  VictimChoice victims = VictimChoice::hierarchical;
  // An object that all tasks of this rank reach through Context::local(). The collection does not
  // own it.
  void* local = nullptr;
  // Starts a thread in each rank that answers steal requests of other nodes while a task runs.
  // Without the thread a rank answers between its tasks, so a thief may wait for as long as a task
  // lasts. The network needs threads (MPI_THREAD_MULTIPLE).
  bool server = false;
  std::size_t steal_bytes = std::size_t{64} * 1024;  // the most bytes of one steal
  std::uint32_t ranks_per_numa = 0;                  // ranks of a NUMA node; 0: of the whole node
  std::uint32_t termination_arity = 2;  // of the tree of termination detection; 1 or more
  std::uint32_t balance_branching = 3;  // of the tree of plb_tree; 2 or more
  std::uint64_t seed = 1;               // of the choice of victims
  // True: the other ranks finish the tasks of a rank that dies in process(). A task that was
  // running on the dead rank runs again, so tasks must be idempotent. Allowed on one node, with the
  // balancers `none`, `steal` and `retain`, and without `server`. max_tasks then limits all tasks
  // that a rank adds until process() ends, ended ones included (docs/tasks.md).
  bool survive_loss = false;
};

// The statistics of this rank, for the last process() and the restore() after it.
struct Statistics {
  std::uint64_t tasks = 0;         // tasks that ran on this rank
  std::uint64_t in_waits = 0;      // of `tasks`: ran while another task waited in MPI
  std::uint64_t arrived = 0;       // tasks that this rank has stolen
  std::uint32_t attempts = 0;      // attempts to steal
  std::uint32_t steals = 0;        // of `attempts`: got tasks
  std::uint32_t far_steals = 0;    // of `steals`: from another node
  std::uint64_t given = 0;         // steals by other ranks from this rank
  std::uint32_t rounds = 0;        // rounds of termination detection
  double task_s = 0;               // seconds in tasks
  double process_s = 0;            // seconds in process(), from the arrival of all ranks on
  double restore_s = 0;            // seconds in restore()
  std::uint64_t moved = 0;         // tasks that this rank gave away in restore(), in all passes
  Balancer used = Balancer::none;  // the balancer of the last process(); never `automatic`
  std::uint32_t lost = 0;          // ranks that have died; with Config::survive_loss only
};

}  // namespace mh::tasks
