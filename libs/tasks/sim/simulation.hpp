// SPDX-License-Identifier: BSD-3-Clause
// The processing of a task collection on a simulated machine: the protocol that the library ships,
// one instance for each rank, over a network that is a queue of events.
//
//   the library's code   deque.hpp, process.hpp (with victims.hpp, termination.hpp), endpoint.hpp
//                        (asks two ranks of a far victim's node, of which one answers, and steals
//                        directly within a node), answerer.hpp (takes tasks from another deque of
//                        the node if the victim shares none), retention.hpp, balance_pass.hpp
//   the simulator's own  the loop around them (events wake a rank, where core.cpp waits in a loop),
//                        memory and network, the clock (machine.hpp), and the barrier at the end
//
// A simulation is deterministic for a seed. Threads: one. Memory: about 700 bytes for each rank, 4
// for each slot of its deque, 12 for each task.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "tasks/answerer.hpp"
#include "tasks/endpoint.hpp"
#include "tasks/process.hpp"
#include "tasks/sim/machine.hpp"
#include "tasks/sim/mailroom.hpp"
#include "tasks/sim/queue.hpp"
#include "tasks/sim/workload.hpp"

namespace mh::tasks::sim {

// The buffer of a simulated rank's deque: an array of task numbers.
struct SimSlots {
  using Task = TaskId;
  TaskId* first = nullptr;
  std::uint64_t count = 0;  // a power of two
  [[nodiscard]] std::uint64_t capacity() const { return count; }
  [[nodiscard]] std::uint64_t mask() const { return count - 1; }
  [[nodiscard]] std::size_t stride() const { return sizeof(TaskId); }
  [[nodiscard]] std::byte* at(std::uint64_t slot) const {
    return reinterpret_cast<std::byte*>(first + slot);
  }
  void store(std::uint64_t slot, TaskId task) { first[slot] = task; }
  void load(std::uint64_t slot, TaskId& task) const { task = first[slot]; }
};
using SimDeque = Deque<Alone, SimSlots>;

class Simulation;

// Stands for the shared memory of a rank's node. All simulated nodes share one array with the
// numbers of the last answered requests of each thief. The outcome is the same as with an array for
// each node, because a thief asks again only after an answer.
class SimMemory {
 public:
  SimMemory(Simulation& simulation, const NodeShape& shape)
      : simulation_(&simulation), shape_(shape) {}
  [[nodiscard]] const NodeShape& shape() const { return shape_; }
  [[nodiscard]] bool is_near(std::uint32_t rank) const {
    return rank - shape_.first < shape_.count;
  }
  [[nodiscard]] SimDeque& deque(std::uint32_t rank);
  [[nodiscard]] SimDeque& own() { return deque(shape_.rank); }
  bool claim(std::uint32_t thief, std::uint32_t number);

 private:
  Simulation* simulation_;
  NodeShape shape_;
};

class SimNetwork final : public Network {
 public:
  SimNetwork(Simulation& simulation, std::uint32_t rank) : simulation_(&simulation), rank_(rank) {}
  [[nodiscard]] std::uint32_t rank() const override { return rank_; }
  [[nodiscard]] std::uint32_t ranks() const override;
  [[nodiscard]] std::span<const std::uint32_t> nodes() const override;
  [[nodiscard]] bool threads() const override { return false; }
  Result<Ticket> send(std::uint32_t to, Tag tag, std::span<const std::byte> data,
                      bool matched) override;
  Result<bool> done(Ticket ticket) override;
  Result<std::optional<Envelope>> probe(std::uint32_t from, Tag tag) override;
  Status take(const Envelope& envelope, std::span<std::byte> data) override;
  // The simulation covers process() only, whose protocol uses none of these functions.
  Result<std::byte*> share(std::size_t /*bytes*/) override { return Status{Code::unsupported}; }
  Result<Ticket> barrier() override { return Status{Code::unsupported}; }
  Status sum(std::span<double> /*values*/) override { return {Code::unsupported}; }
  Status maximum(std::span<double> /*values*/) override { return {Code::unsupported}; }

 private:
  Simulation* simulation_;
  std::uint32_t rank_;
};

struct Spread {
  double mean = 0;
  double deviation = 0;
};

struct SimulatedRun {
  double ideal_s = 0;                                // work over ranks
  double last_task_s = 0;                            // when the last task ended
  double end_s = 0;                                  // when the last rank left process()
  double in_tasks_s = 0;                             // in tasks, as measured, summed over ranks
  Spread attempts = {}, successes = {}, tasks = {};  // of each rank
  std::uint64_t run = 0;                             // tasks that ran
  std::uint32_t rounds = 0;
  std::uint64_t events = 0;
  std::vector<float> utilization = {};  // busy ranks over ranks, for equal parts of the time
  [[nodiscard]] double efficiency() const { return end_s == 0 ? 0 : ideal_s / end_s; }
};

// The tasks of an iteration. A task whose seconds are negative lasts as long as their absolute
// value, and prunes itself: the next iteration leaves it out.
struct Work {
  std::span<const float> seconds;  // by task
  // For each task, the number of the first task that it adds (its children); one more entry ends
  // the children of the last task. Empty: no task adds tasks.
  std::span<const TaskId> children = {};
};

class Simulation {
 public:
  // `machine`, `rules`, and the arrays to which `work` refers must outlive the simulation. `seeds`:
  // the first tasks of each rank.
  Simulation(const MachineModel& machine, const Rules& rules, const Work& work, const Seeds& seeds);
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;

  SimulatedRun run();
  // Call after run(). Returns, for each rank, the seeds that it ran, in the order of execution;
  // restore() would bring them back.
  Seeds take_executed();
  // Returns the seconds that a task took in simulated time, as measured by the rank that ran it.
  [[nodiscard]] float measured(TaskId task) const { return measured_[task]; }

 private:
  friend class SimMemory;
  friend class SimNetwork;
  using Endpoint = TaskEndpoint<SimMemory>;
  using Machine = Process<EndpointRef<SimMemory>, SimDeque&>;

  enum class What : std::uint8_t { arrived, sent, task_done, resume, awake, poll };
  struct Event {
    std::uint64_t time;
    std::uint32_t rank;
    std::uint32_t number;  // of the mail or the ticket
    What what;
  };
  struct Rank {
    Rank(Simulation& simulation, const NodeShape& shape);
    SimMemory memory;
    SimNetwork network;
    Endpoint endpoint;
    Answerer<SimMemory> answerer;
    Machine machine;
    std::uint64_t clock = 0;       // the rank's core is free from then on
    std::uint64_t look = 0;        // the next poll for requests between tasks
    std::uint64_t task_start = 0;  // of the running task
    std::uint64_t stolen_ns = 0;   // by the server, from the running task
    TaskId task = 0;
    std::uint32_t ran = 0;             // tasks
    std::vector<TaskId> backlog = {};  // children that found the deque full
    bool busy = false;                 // runs a task
    bool waking = false;               // an event `awake` is under way
    bool polling = false;              // an event `poll` is under way
    bool ended = false;
  };

  void make_ranks(const Seeds& seeds, std::uint64_t capacity);
  void handle(const Event& event);
  void arrive(const Event& event);
  void need(Rank& rank, std::uint32_t number);
  void wake(std::uint32_t number);
  void poll(std::uint32_t number);
  void resume(std::uint32_t number);
  void advance(std::uint32_t number);
  bool receive(Rank& rank);
  void serve(Rank& rank);
  void begin(std::uint32_t number);
  void finish_task(std::uint32_t number);
  void add_children(Rank& rank);
  void end(Rank& rank);
  void count_busy(std::uint64_t time, int change);
  [[nodiscard]] bool prunes_itself(TaskId task) const { return work_.seconds[task] < 0; }
  [[nodiscard]] std::uint64_t time_of(std::uint32_t number) const;
  [[nodiscard]] std::uint32_t node_of(std::uint32_t rank) const {
    return rank / rules_.places.per_node;
  }
  [[nodiscard]] std::uint64_t barrier_ns() const;
  [[nodiscard]] SimulatedRun outcome();

  const MachineModel& machine_;
  const Rules& rules_;
  Work work_;
  double ideal_s_ = 0;
  EventQueue<Event> queue_;
  Mailroom mail_;
  std::vector<std::uint32_t> nodes_;  // the first rank of each
  std::vector<std::uint32_t> answered_;
  std::vector<TaskId> slots_;
  std::unique_ptr<DequeWords<Alone>[]> words_;
  std::vector<SimDeque> deques_;
  std::deque<Rank> ranks_;  // elements keep their addresses
  Seeds executed_;          // by rank
  std::vector<float> measured_;
  TaskId first_child_;                      // tasks below are seeds
  std::vector<std::int32_t> busy_changes_;  // by part of the time
  std::uint64_t part_ns_ = 1;
  std::uint64_t now_ = 0;
  std::uint64_t last_task_ = 0;
  std::uint64_t in_tasks_ = 0;
  std::uint64_t end_ = 0;
  std::uint64_t events_ = 0;
};

inline SimDeque& SimMemory::deque(std::uint32_t rank) { return simulation_->deques_[rank]; }

}  // namespace mh::tasks::sim
