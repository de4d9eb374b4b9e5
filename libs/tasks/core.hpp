// SPDX-License-Identifier: BSD-3-Clause
// A task collection on one rank. CollectionCore implements manyhands/tasks/collection.hpp with the
// deque, the state machine of process.hpp, its transport and the balancers.
//
// Outside of process() the deque is held, and no rank can steal from it. Ranks that are still, or
// already, in process() therefore cannot take tasks that this rank adds before its own process().
// process() releases the deque after a barrier of all ranks. With several nodes, another barrier at
// the end ensures that no steal request is under way.
//
// While a task waits in an MPI call, other tasks may run on its stack (in_wait.cpp): only tasks of
// the rank's own deque, and one at a time.
//
// With Config::survive_loss a Survivor takes the place of the state machine and of all messages
// (survive.cpp). Tasks are added to the held deque, from which no rank steals.
//
// Threads: see the public header.
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
#include "tasks/survivor.hpp"

namespace mh::tasks::detail {

class CollectionCore {
 public:
  CollectionCore(std::unique_ptr<Network> network, const Config& config, const NodeShape& shape,
                 std::byte* memory);
  // Call before open(), if Config::survive_loss is set. `memory`: Survivor::bytes() long, shared by
  // the ranks of the node.
  Status survive(std::byte* memory);
  CollectionCore(const CollectionCore&) = delete;
  CollectionCore& operator=(const CollectionCore&) = delete;
  // Collective, because the network's destructor is. Waits until the messages of this rank have
  // been sent.
  ~CollectionCore();

  // Waits in a barrier, so that the deques of all ranks exist before a rank steals. Collective.
  Status open() { return meet(); }

  Result<std::uint32_t> define(Call call, Any function, std::size_t bytes);
  Result<void*> place(std::uint32_t function);
  void placed();
  Status process();
  Status restore();
  [[nodiscard]] const Statistics& statistics() const { return statistics_; }
  [[nodiscard]] std::uint64_t size() const;

 private:
  using Machine = Process<EndpointRef<NodeMemory>, ByteDeque&>;
  struct Registered {
    Call call;
    Any function;
  };
  enum class State : std::uint8_t { seeding, processing, processed };
  // The kind of task that the collection's thread runs at the moment; task_in_wait: a task on the
  // stack of a task that waits in an MPI call.
  enum class Inside : std::uint8_t { nothing, task, task_in_wait };

  Status meet();
  [[nodiscard]] bool has_other_nodes() const { return network_->nodes().size() > 1; }
  void begin();
  Status work();
  // The parts of process() for a collection that survives losses of ranks (survive.cpp).
  Status process_surviving();
  Status meet_survivors(Survivor::Meeting (Survivor::*meeting)());
  void work_surviving();
  void idle_surviving();
  void adopt(const std::byte* task);
  void finish_surviving();
  void run(TaskBytes task);
  bool call_function(TaskBytes task, Inside inside);
  void keep(Timed<std::uint32_t> timed);
  void count(std::uint64_t taken);
  void idle();
  void rest();
  void pause(std::uint64_t ns);
  void serve();
  bool feed();
  void leave();
  void finish(const Machine& machine);

  // The wait loop of libmanyhands.so calls these functions while the running task waits in an MPI
  // call (in_wait.cpp).
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
  NodeAnswerer answerer_;
  std::vector<Registered> functions_;
  Context context_;
  State state_ = State::seeding;
  Status failure_;  // the network's first failure; the network is unusable after it

  NodeEndpoint endpoint_;
  std::unique_ptr<Survivor> survivor_;  // nullptr: the collection survives no loss
  Arena arena_;
  // The tasks in arena_ for restore(): the seeds that ran on this rank or, with `steal`, were added
  // on it. A seed is a task that was added outside of process().
  ArenaTasks executed_;
  Arena in_wait_;                // copies of the tasks that ran in waits of the current task
  ArenaTasks in_wait_executed_;  // of these, the tasks to record for restore()
  Arena backlog_;                // restored tasks that wait for room in the deque
  std::uint32_t fed_ = 0;        // tasks of the backlog that are in the deque
  Balancer used_;
  bool measured_ = false;  // durations of an earlier iteration are known
  Chooser chooser_;
  Statistics statistics_;
  double last_restore_s_ = 0;
  double growth_s_ = 0;    // of the tasks that ran on this rank, since their last runs
  bool has_bins_ = false;  // the headers of the restored tasks have their last durations

  double ns_per_tick_;
  std::uint64_t start_ticks_ = 0;   // when process() began
  std::uint64_t last_ticks_ = 0;    // the end of the last task or idle step
  std::uint64_t task_ticks_ = 0;    // spent in tasks
  std::uint64_t wait_ticks_ = 0;    // spent in tasks that ran in waits of the current task
  std::uint64_t look_ticks_ = 0;    // the next poll for requests, between tasks
  std::uint64_t resume_ticks_ = 0;  // the end of a pause
  bool pausing_ = false;

  IdleWork idle_work_;
  Machine* machine_ = nullptr;  // valid during process()
  bool serves_ = false;         // in process(): this thread answers other nodes
  Inside inside_ = Inside::nothing;
  // True while a task is being written to its slot: between place() and placed() of any collection
  // of this thread.
  static inline constinit thread_local bool placing_ = false;
};

}  // namespace mh::tasks::detail
