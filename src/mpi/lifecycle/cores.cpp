// SPDX-License-Identifier: BSD-3-Clause
#include <sched.h>

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/say.hpp"
#include "base/settings.hpp"
#include "mpi/calls/in_loop.hpp"
#include "mpi/job/config.hpp"
#include "mpi/job/services.hpp"
#include "mpi/job/switches.hpp"
#include "mpi/lifecycle/node_setup.hpp"
#include "mpi/lifecycle/parts.hpp"
#include "openmp/sharing.hpp"
#include "openmp/stack.hpp"

namespace mh::mpi::cores {
namespace {

// Returns the CPUs of this rank's workers, which lend its spare cores: the CPUs that belong to this
// rank alone. With MH_CORES (for tests) all workers share this rank's CPU, and there is one for
// each core of the rank's equal share but the first.
std::vector<std::int32_t> worker_cpus() {
  const std::int32_t here = services.node->mine().cpu;
  if (settings().cores == 0) return lend::cpus_for_workers(services.node->own_cpus(), here);
  const std::size_t share = node_setup::usable_cores() / config.ranks - 1;
  return std::vector<std::int32_t>(std::min(share, lend::Workers::kMost), here);
}

// Returns the number of cores in this rank's equal share of those that the ranks of the node may
// use, at most the number of CPUs on which this process may run.
std::uint32_t own_cores() {
  std::uint32_t part = std::max(node_setup::usable_cores() / config.ranks, 1U);
  cpu_set_t mine;
  CPU_ZERO(&mine);
  if (settings().cores == 0 && ::sched_getaffinity(0, sizeof mine, &mine) == 0) {
    part = std::min(part, static_cast<std::uint32_t>(std::max(CPU_COUNT(&mine), 1)));
  }
  return part;
}

// Lets helpers join the loops of this rank's OpenMP regions.
void share_loops() {
  const bool all = settings().openmp != OpenMpLoops::none;
  const auto which_loops = all ? openmp::SharedLoops::all : openmp::SharedLoops::marked;
  if (settings().openmp == OpenMpLoops::with_static) openmp::share_static_loops(own_cores());
  openmp::lists.set(settings().openmp_exclude, settings().openmp_only);
  const Status shared = openmp::start_sharing(
      *services.helpers, services.workers ? &*services.workers : nullptr, which_loops);
  if (shared) {
    switches.threads = switches.threads || openmp::has_marked_loops();
    in_loop::start();
  } else if (config.me == 0) {
    print_message("loops are not shared: the program has {}", shared.code == Code::unsupported
                                                                  ? "no OpenMP run time, or several"
                                                                  : "no usable OpenMP run time");
  }
}

// Prints, once per node, why the node's ranks do not share their loops.
void say_no_loops(std::string_view reason) {
  if (config.me == 0) print_message("loops are not shared: {}", reason);
}

}  // namespace

void share_cores() {
  bool loops = settings().openmp != OpenMpLoops::none || openmp::has_marked_loops();
  if (node_setup::oversubscribed() || !(loops || config.helps_messages)) return;
  if (!services.node->has_one_pid_namespace()) {
    if (loops) say_no_loops("ranks run in different pid namespaces");
    return;
  }
  const auto policy = settings().victim;
  // Decides to which rank, and for which work, a waiting rank lends its core. A rank with a message
  // of its own on a pipeline lends the core for pipelines only to the rank at the other end, by
  // lend_to_partner() (progress.cpp).
  const auto admitted = [](std::uint32_t rank, lend::WorkKind kind) {
    const bool own = kind == lend::WorkKind::pipelines && services.pipeline_engine &&
                     services.pipeline_engine->has_messages();
    return !own && thief().may_help(rank);
  };
  services.helpers =
      new lend::Pool(*services.node, services.own_area().lendings, node_setup::usable_cores() - 1,
                     loops ? openmp::stack_for_loops() : 0);
  if (loops && !services.helpers->has_stack_space()) {
    say_no_loops("too little address space for stacks of the program's size; raise 'ulimit -v'");
    loops = false;
  }
  services.lender.emplace(*services.node, offsetof(RankArea, lendings), policy, admitted);
  if (const auto cpus = worker_cpus(); loops && !cpus.empty()) {
    services.workers.emplace(*services.node, offsetof(RankArea, lendings), policy, admitted, cpus);
  }
  if (config.pipelines) {
    constexpr std::size_t kSendTable = offsetof(RankArea, send_table);
    constexpr std::size_t kPipelines = offsetof(RankArea, pipelines);
    services.pipeline_engine.emplace(
        *services.node,
        p2p::PipelineEngine::Offsets{
            .send_table = kSendTable, .pipelines = kPipelines, .cells = node_setup::cells_offset()},
        services.counters(), *services.helpers, *services.memory);
  }
  detail::config.sharing_loops = loops;
  if (loops) share_loops();
}

void take_back_cores() {
  services.workers.reset();
  services.lender.reset();
  services.pipeline_engine.reset();
  delete std::exchange(services.helpers, nullptr);
}

wait::WaitRules rules() {
  wait::WaitRules rules;
  rules.cores = config.multiple && settings().wait_together ? own_cores() : 0;
  rules.oversubscribed = node_setup::oversubscribed();
  rules.yields = config.ranks * settings().fake_nodes > services.node->usable_cpus();
  rules.least_spin = ticks_from_ns(settings().spin_us * 1e3);
  rules.most_spin = rules.least_spin * 16;
  return rules;
}

}  // namespace mh::mpi::cores
