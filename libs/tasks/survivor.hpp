// SPDX-License-Identifier: BSD-3-Clause
// A rank of a collection that survives the loss of ranks (Config::survive_loss), on one node. A
// *part* is the tasks that one rank has added.
//
// No message is sent and no lock is held, so the survivors need nothing of a dead rank. Tasks stay
// in their slots (task_states.hpp). A rank takes the newest task of its own part, and without own
// tasks the oldest ready task of another part. A rank may take tasks of a lost rank's part even
// where the balancer lets nobody steal.
//
// End: all tasks of all parts have ended, and no number of added tasks has changed while the rank
// looked at the tasks. Only a running task can add tasks, so nothing can change after that.
//
// Loss: the heir of a dead rank (lifelines.hpp) takes over the records of the tasks that ended on
// the dead rank, makes the rank's running task ready, and reports the loss. Each step can be
// repeated. If the heir dies in between, the next heir therefore repeats all steps.
//
// Threads: the collection's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "tasks/lifelines.hpp"
#include "tasks/node_memory.hpp"
#include "tasks/task_states.hpp"

namespace mh::tasks {

class Survivor {
 public:
  // A function that takes a task that ended on a dead rank, to record the task for restore().
  using Adopt = std::function<void(const std::byte* task)>;
  enum class Meeting : std::uint8_t { waits, met, broken };

  static std::size_t bytes(const NodeShape& shape);
  // `memory`: bytes() long, shared by the ranks of the collection, which are all on one node;
  // aligned to a cache line. `adopt`: see Adopt.
  Survivor(std::byte* memory, NodeMemory& deques, Adopt adopt);
  // Takes the mutex whose release by the kernel tells others of this rank's death (lifelines.hpp).
  // Call before the barrier of all ranks that opens the collection.
  Status open() { return lines_.hold(); }

  // Call when a task has been added to this rank's own part, in the next slot of its deque.
  void added();

  // Meetings of the ranks that are not lost, at the start and the end of process(): arrive(), then
  // calls of at_start() or at_end() until the result is not `waits`. At the start a dead rank that
  // has not arrived breaks the meeting, because it may not have added all of its tasks.
  void arrive() { lines_.arrive(); }
  Meeting at_start();
  Meeting at_end();

  // Call once at_start() has returned `met`, before take(). `steal`: a rank may take tasks that any
  // rank has added; otherwise only tasks that it or a lost rank has added.
  void begin(bool steal);
  // Claims a task for this rank and copies it to `task`. False: no task that this rank may take is
  // ready.
  bool take(TaskBytes task);
  // Call when the function of the claimed task has returned: marks the task as ended on this rank.
  void end();
  // True: all tasks that any rank has added have ended.
  bool all_ended();
  // Saves the tasks of ranks that have died since the last call, unless another rank is their heir.
  void look_for_losses();
  // Call after the meeting at the end of process(). Calls `take(task)` for each task of a lost
  // rank's part that ended on this rank, or on a dead rank whose tasks this rank has adopted.
  template <class Take>
  void each_left(Take take);
  // Call after the meeting at the end of process(): forgets the tasks of this rank's own part.
  void clear();

  [[nodiscard]] std::uint32_t lost() const { return lines_.lost(); }
  [[nodiscard]] std::uint32_t attempts() const { return attempts_; }
  [[nodiscard]] std::uint32_t steals() const { return steals_; }

 private:
  struct Part {
    std::uint32_t rank;
    std::uint64_t ready_from = 0;  // no task below was ready when this rank looked
    std::uint64_t ended_to = 0;    // all tasks below have ended
    std::uint64_t added = 0;       // as read by all_ended()
  };
  struct Place {
    std::uint32_t part;
    std::uint64_t slot;
  };

  [[nodiscard]] bool may_take_from(std::uint32_t rank) const {
    return steal_ || rank == lines_.own() || lines_.is_lost(rank);
  }
  bool claim(Place place, TaskBytes task);
  bool take_own(TaskBytes task);
  bool take_from(Part& part, TaskBytes task);
  void see_returned();
  void save_if_dead(std::uint32_t rank);
  void adopt_from(std::uint32_t part, std::uint32_t dead);
  [[nodiscard]] std::byte* at(Place place) {
    return deques_.deque(place.part).slots().at(place.slot);
  }

  NodeMemory& deques_;
  Lifelines lines_;
  TaskStates states_;
  Adopt adopt_;
  std::vector<Part> parts_;  // of the ranks that were not lost at the start, from the own one on
  std::vector<std::uint64_t> own_;  // slots of the own part that this rank has not claimed
  std::optional<Place> claimed_;
  std::uint64_t returned_ = 0;  // TaskStates::returned() when ready_from was valid
  std::uint32_t attempts_ = 0;  // into parts of other ranks
  std::uint32_t steals_ = 0;    // from parts of other ranks
  bool steal_ = true;
};

template <class Take>
void Survivor::each_left(Take take) {
  for (const Part& part : parts_) {
    if (!lines_.is_lost(part.rank)) continue;
    const std::uint64_t added = states_.added(part.rank);
    for (std::uint64_t slot = 0; slot < added; ++slot) {
      if (states_.ended_on_own_rank(part.rank, slot)) take(at({part.rank, slot}));
    }
  }
}

}  // namespace mh::tasks
