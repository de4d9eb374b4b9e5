// SPDX-License-Identifier: BSD-3-Clause
#include <sched.h>

#include <atomic>

#include "base/clock.hpp"
#include "base/say.hpp"
#include "base/tuning.hpp"
#include "mpi/calls/in_loop.hpp"
#include "mpi/internode/internode.hpp"
#include "mpi/job/config.hpp"
#include "mpi/job/services.hpp"
#include "mpi/lifecycle/parts.hpp"
#include "mpi/rma/serving.hpp"
#include "mpi/rma/windows.hpp"
#include "mpi/rndv/buffered_sends.hpp"
#include "mpi/rndv/completion.hpp"
#include "mpi/rndv/persistent_sends.hpp"
#include "mpi/rndv/receive_requests.hpp"
#include "mpi/rndv/send.hpp"
#include "observe/trace.hpp"
#include "openmp/sharing.hpp"

namespace mh::mpi {
namespace {

class NodeWork final : public wait::WaitActions {
 public:
  void progress() override {
    rndv::serve_resends();
    rndv::fetch_landed_messages();
    rndv::complete_orphans();
    rndv::progress_persistent_sends();
    internode::progress();
    rma::serve_own_node();
    rma::serve_other_nodes();
    rndv::buffer_overdue_sends();
  }

  bool copy_own_chunk() override {
    return receive_chunk() || rndv::move_own_sends() ||
           (services.pipeline_engine && services.pipeline_engine->move_one());
  }

  bool lend_to_partner() override {
    if (!services.pipeline_engine || !services.lender) return false;
    const auto late = services.pipeline_engine->who_is_late();
    return late && lend([&] { return services.lender->lend_to(*late); });
  }

  bool copy_own_chunk_nested() override {
    rndv::serve_resends();
    return (services.pipeline_engine && services.pipeline_engine->move_one()) || lend_to_partner();
  }

  bool help() override {
    std::atomic<std::uint32_t>& idle = services.node->mine().idle;
    // This rank is not idle while it helps. relaxed: a hint for ranks that count idle or active
    // ranks.
    idle.store(0, std::memory_order_relaxed);
    const bool worked = thief().help() || rma::help_operation() || lend_core();
    idle.store(1, std::memory_order_relaxed);
    return worked;
  }

  void set_idle(bool now) override {
    services.node->mine().idle.store(now ? 1 : 0, std::memory_order_relaxed);
    if (now) services.node->follow_core();
    if (now && config.sharing_loops) look_for_objects();
    if (!now && services.workers) services.workers->stop();
  }

  void set_waiting(std::uint64_t since) override {
    services.node->mine().waiting_since.store(since, std::memory_order_relaxed);
  }

  void end() override {
    if (services.lender) services.lender->take_back();
  }

  void count_wait(std::uint64_t waited) override {
    services.counters().wait_ticks.add(waited);
    services.counters().waits.add(1);
  }

  void between_polls() override {
    in_loop::pass_turn();
    if (services.helpers != nullptr && services.helpers->has_waiting_helpers()) ::sched_yield();
  }
  bool is_guest() override { return lend::guest() != lend::Guest::no; }
  bool is_overdue() override { return lend::guest() == lend::Guest::overdue; }
  void return_core() override { lend::give_core_back(); }

 private:
  // Copies a chunk of a message that this rank receives. False if no job of this rank has a chunk
  // left.
  static bool receive_chunk() {
    steal::JobSlots& mine = services.own_area().jobs;
    // relaxed: only threads of this rank write `open` (a bit for each job that may have chunks
    // left), and a missed job is found at the next step.
    for (std::uint32_t open = mine.open.load(std::memory_order_relaxed); open != 0;
         open &= open - 1) {
      if (thief().run_one_chunk(mine.jobs[__builtin_ctz(open)], config.me)) return true;
    }
    return false;
  }

  // Lends this rank's core, for one unit, to a rank that has work which only threads of its own
  // process can do: iterations of a loop, or an end of a pipeline.
  static bool lend_core() {
    if (!services.lender) return false;
    return lend([] {
      return services.lender->lend([] {
        if (services.workers && openmp::team_is_idle()) services.workers->start();
      });
    });
  }

  // Lends this rank's core by calling way(), and counts and traces the time for which the core is
  // away. Returns true if the core was lent.
  template <class Way>
  static bool lend(Way&& way) {
    const std::uint64_t begin = ticks();
    const lend::LendResult result = way();
    if (result == lend::LendResult::nothing) return false;
    if (result == lend::LendResult::refused) {
      say_once_not_here();
      return false;
    }
    const std::uint64_t away = ticks() - begin;
    const bool is_new_unit = result == lend::LendResult::lent;
    services.counters().lent_ticks.add(away);
    services.counters().lent_units.add(is_new_unit ? 1 : 0);
    if (observe::trace() != nullptr) {
      observe::add_to_trace(
          {.begin = begin,
           .extent = away,
           .peer = services.node->record(services.lender->last_owner()).world_rank,
           .count = is_new_unit ? 1U : 0U,
           .kind = observe::EventKind::lent});
    }
    return true;
  }

  // Looks for OpenMP loops to share in libraries that the process has loaded since the last look,
  // such as Python's extension modules.
  static void look_for_objects() {
    static std::uint64_t next_look = 0;  // used by the one thread that helps in the wait loop
    const std::uint64_t now = ticks();
    if (now < next_look) return;
    next_look = now + ticks_from_ns(tuning::kLookForObjectsNs);
    openmp::look_for_new_objects();
  }

  static void say_once_not_here() {
    static bool said = false;
    if (!said && openmp::shared_region() != nullptr) {
      print_message(
          "loops are not shared: a rank may not run on the cores of another (cpusets); start the "
          "job with one set of cores for all ranks of a node");
    }
    said = true;
  }
};

}  // namespace

wait::WaitActions& node_work() {
  static NodeWork work;
  return work;
}

}  // namespace mh::mpi
