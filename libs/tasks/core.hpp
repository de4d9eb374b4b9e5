// SPDX-License-Identifier: BSD-3-Clause
// A task collection on one rank: what manyhands/tasks/collection.hpp promises, made of the deque,
// the state machine of process.hpp, its transport and the balancers.
//
// Outside of process() the deque is held: what is added then cannot be stolen by ranks that are
// still, or already, in process(). It is released after a barrier that says that all have come.
// Where there are other nodes, another barrier at the end says that no request is under way.
//
// A task that waits in an MPI call may have others run on its stack meanwhile (in_wait.cpp): only
// tasks of the rank's own deque, and one at a time.
//
// Threads: as the public header says.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "manyhands/tasks/collection.hpp"
#include "tasks/chooser.hpp"
#include "tasks/endpoint.hpp"
#include "tasks/idle_work.hpp"
#include "tasks/process.hpp"
#include "tasks/rebalance.hpp"

namespace mh::tasks::detail {

class CollectionCore {
 public:
  CollectionCore(std::unique_ptr<Network> network, const Config& config, const NodeShape& shape,
                 std::byte* memory);
  CollectionCore(const CollectionCore&) = delete;
  CollectionCore& operator=(const CollectionCore&) = delete;
  // Collective.
  ~CollectionCore();

  // Waits until all ranks of the node have made their deques.
  Status open() { return meet(); }

  Result<std::uint32_t> define(Call call, Any function, std::size_t bytes);
  Result<void*> place(std::uint32_t function);
  void placed();
  Status process();
  Status restore();
  [[nodiscard]] const Statistics& statistics() const { return statistics_; }
  [[nodiscard]] std::uint64_t size() const;

 private:
  using Machine = Process<EndpointRef, ByteDeque&>;
  struct Registered {
    Call call;
    Any function;
  };
  enum class State : std::uint8_t { seeding, processing, processed };
  // What the thread of the collection is in.
  enum class Inside : std::uint8_t { nothing, task, task_in_wait };

  Status meet();
  [[nodiscard]] bool has_other_nodes() const { return network_->nodes().size() > 1; }
  void begin();
  Status work();
  void run(TaskBytes task);
  bool call_function(TaskBytes task, Inside inside);
  void count(std::uint64_t taken);
  void idle();
  void rest();
  void pause(std::uint64_t ns);
  void serve();
  bool feed();
  void leave();
  void finish(const Machine& machine);

  // The task that runs now waits in an MPI call.
  bool has_for_wait();
  void run_in_wait();
  bool make_room_in_wait();
  void keep_those_of_wait();

  Status choose();
  Status balance(Scheme scheme);
  void add_executed();
  [[nodiscard]] double seconds(std::uint64_t ticks) const {
    return static_cast<double>(ticks) * ns_per_tick_ * 1e-9;
  }

  std::unique_ptr<Network> network_;
  Config config_;
  NodeMemory memory_;
  ByteDeque& deque_;
  Rules rules_;
  Balance balance_rules_;
  Answerer answerer_;
  std::vector<Registered> functions_;
  Context context_;
  State state_ = State::seeding;
  Status failure_;  // of the network, which is of no use after it

  TaskEndpoint endpoint_;
  Arena arena_;
  ArenaTasks executed_;  // in arena_: the seeds that were run here; for `steal`, that were added
  Arena in_wait_;        // tasks that ran in waits of the one that runs, ...
  ArenaTasks in_wait_executed_;  // ... and those that restore() wants back
  Arena backlog_;                // restored, and waiting for room in the deque
  std::uint32_t fed_ = 0;        // of the backlog
  Balancer used_;
  bool measured_ = false;  // there are durations
  Chooser chooser_;
  Statistics statistics_;
  double last_restore_s_ = 0;

  double ns_per_tick_;
  std::uint64_t start_ticks_ = 0;   // of process()
  std::uint64_t last_ticks_ = 0;    // when the last task ended, or the worker was idle
  std::uint64_t task_ticks_ = 0;    // in tasks
  std::uint64_t wait_ticks_ = 0;    // in tasks that ran in waits of the one that runs
  std::uint64_t look_ticks_ = 0;    // the next look for requests, between tasks
  std::uint64_t resume_ticks_ = 0;  // the end of a pause
  bool pausing_ = false;

  IdleWork idle_work_;
  Machine* machine_ = nullptr;  // of process()
  bool serves_ = false;         // in process(): this thread answers other nodes
  Inside inside_ = Inside::nothing;
  // Of this thread, between place() and placed() of any collection.
  static inline constinit thread_local bool placing_ = false;
};

}  // namespace mh::tasks::detail
