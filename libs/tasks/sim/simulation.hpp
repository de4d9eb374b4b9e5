// SPDX-License-Identifier: BSD-3-Clause
// The processing of a task collection on a simulated machine: the state machines of process.hpp,
// one for each rank, over a transport that is a queue of events.
//
// The simulator runs the library's code and models the time of tasks, messages and servers
// (machine.hpp). A simulation is deterministic for a seed. Threads: one. Memory: about 400 bytes
// for each rank, 4 for each slot of its deque, 12 for each task.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tasks/process.hpp"
#include "tasks/sim/machine.hpp"
#include "tasks/sim/queue.hpp"
#include "tasks/sim/workload.hpp"

namespace mh::tasks::sim {

// The buffer of a rank's deque.
struct SimSlots {
  using Task = TaskId;
  TaskId* first = nullptr;
  std::uint64_t count = 0;
  [[nodiscard]] std::uint64_t capacity() const { return count; }
  void store(std::uint64_t slot, TaskId task) { first[slot] = task; }
  void load(std::uint64_t slot, TaskId& task) const { task = first[slot]; }
};
using SimDeque = Deque<Alone, SimSlots>;

class Simulation;

// The transport of one rank.
struct SimulatedEndpoint {
  Simulation* simulation;
  std::uint32_t rank;
  void send(std::uint32_t to, Message message);
  void send_tasks(std::uint32_t to, Reservation tasks);
};

struct Spread {
  double mean = 0;
  double deviation = 0;
};

struct Outcome {
  double ideal_s = 0;                                // work over ranks
  double last_task_s = 0;                            // when the last task ended
  double end_s = 0;                                  // when the last rank knew the end
  Spread attempts = {}, successes = {}, tasks = {};  // of each rank
  std::uint64_t run = 0;                             // tasks that ran
  std::uint32_t rounds = 0;
  std::uint64_t events = 0;
  std::vector<float> utilization = {};  // of equal parts of the time, in [0, 1]
  [[nodiscard]] double efficiency() const { return end_s == 0 ? 0 : ideal_s / end_s; }
};

class Simulation {
 public:
  // All arguments but `seeds` outlive the simulation. `durations`: seconds, by task. `seeds`: by
  // rank.
  Simulation(const MachineModel& machine, const Rules& rules, std::span<const float> durations,
             const Seeds& seeds);

  Outcome run();
  // Call after run(). Returns the tasks that each rank ran, in the order of execution.
  Seeds take_executed();

 private:
  friend struct SimulatedEndpoint;
  using Rank = Process<SimulatedEndpoint, SimDeque>;

  enum class What : std::uint8_t { message, served, task_done, resume, copied };
  struct Event {
    std::uint64_t time;
    std::uint32_t rank;
    std::uint32_t from;
    std::uint32_t count;
    std::uint32_t parcel;  // with `work` and `copied`
    What what;
    MessageKind kind;
    bool dirty;
  };
  struct Running {
    TaskId task = 0;
    std::uint64_t ns = 0;
    bool busy = false;
    bool ended = false;
  };
  // Stolen tasks under way, and their reservation.
  struct Parcel {
    std::vector<TaskId> tasks;
    Reservation reservation;
    int uses = 0;
  };

  void handle(const Event& event);
  void receive(const Event& event);
  void deliver(const Event& event);
  void go_on(std::uint32_t rank);
  void begin(std::uint32_t rank, TaskId task);
  void finish_task(std::uint32_t rank);
  void land(std::uint32_t rank, std::uint32_t parcel);
  std::uint32_t new_parcel();
  void drop_parcel(std::uint32_t parcel);
  void count_busy(std::uint64_t time, int change);
  [[nodiscard]] std::uint32_t node_of(std::uint32_t rank) const {
    return rank / rules_.places.per_node;
  }
  [[nodiscard]] std::uint64_t latency(std::uint32_t from, std::uint32_t to) const;
  [[nodiscard]] Outcome outcome();

  const MachineModel& machine_;
  const Rules& rules_;
  std::span<const float> durations_;
  double ideal_s_ = 0;
  EventQueue<Event> queue_;
  std::vector<TaskId> slots_;
  std::unique_ptr<DequeWords<Alone>[]> words_;
  std::vector<Rank> ranks_;
  std::vector<Running> running_;
  Seeds executed_;                             // by rank
  std::vector<std::uint64_t> server_free_;     // by node
  std::vector<std::vector<Event>> postponed_;  // by rank, where there is no server
  std::vector<Parcel> parcels_;
  std::vector<std::uint32_t> free_parcels_;
  std::vector<std::int32_t> busy_changes_;  // by part of the time
  std::uint64_t part_ns_ = 1;
  std::uint64_t now_ = 0;
  std::uint64_t last_task_ = 0;
  std::uint64_t end_ = 0;
  std::uint64_t events_ = 0;
};

}  // namespace mh::tasks::sim
