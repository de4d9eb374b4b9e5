// SPDX-License-Identifier: BSD-3-Clause
#include "tasks/survivor.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace mh::tasks {

std::size_t Survivor::bytes(const NodeShape& shape) {
  return Lifelines::bytes(shape.count) + TaskStates::bytes(shape.count, shape.capacity);
}

Survivor::Survivor(std::byte* memory, NodeMemory& deques, Adopt adopt)
    : deques_(deques),
      lines_(memory, deques.shape().rank, deques.shape().count),
      states_(memory + Lifelines::bytes(deques.shape().count), deques.shape().rank,
              deques.shape().count, deques.shape().capacity),
      adopt_(std::move(adopt)) {
  own_.reserve(deques.shape().capacity);  // so that added() needs no memory
  parts_.reserve(deques.shape().count);
}

void Survivor::added() {
  own_.push_back(states_.added(lines_.own()));
  states_.add();
}

// --- meetings: all ranks that are not lost wait for each other ------------------------------

Survivor::Meeting Survivor::at_start() {
  bool all = true;
  for (std::uint32_t rank = 0; rank < lines_.ranks(); ++rank) {
    if (lines_.has_arrived(rank) || lines_.loss(rank) == Loss::saved) continue;
    if (lines_.inherit(rank)) lines_.report(rank, Loss::outside);
    if (lines_.loss(rank) == Loss::outside) return Meeting::broken;
    all = false;
  }
  return all ? Meeting::met : Meeting::waits;
}

Survivor::Meeting Survivor::at_end() {
  bool all = true;
  for (std::uint32_t rank = 0; rank < lines_.ranks(); ++rank) {
    // A rank that has arrived is skipped, even if it died after its arrival. Other ranks may have
    // left this meeting already, and have then cleared the states of their tasks, which saving
    // would need.
    if (lines_.has_arrived(rank)) continue;
    save_if_dead(rank);
    all = all && lines_.is_lost(rank);
  }
  return all ? Meeting::met : Meeting::waits;
}

// --- taking and ending tasks ----------------------------------------------------------------

void Survivor::begin(bool steal) {
  steal_ = steal;
  attempts_ = steals_ = 0;
  returned_ = states_.returned();
  parts_.clear();
  for (std::uint32_t i = 0; i < lines_.ranks(); ++i) {
    const std::uint32_t rank = (lines_.own() + i) % lines_.ranks();
    if (lines_.has_arrived(rank)) parts_.push_back({.rank = rank});
  }
}

bool Survivor::claim(Place place, TaskBytes task) {
  if (!states_.claim(place.part, place.slot)) return false;
  claimed_ = place;
  std::memcpy(task.bytes, at(place), deques_.shape().stride);
  return true;
}

bool Survivor::take(TaskBytes task) {
  if (take_own(task)) return true;
  see_returned();
  for (Part& part : parts_) {
    if (!may_take_from(part.rank)) continue;
    const bool got = take_from(part, task);
    if (part.rank == lines_.own() && got) return true;
    if (part.rank == lines_.own()) continue;
    ++attempts_;
    if (got) ++steals_;
    if (got) return true;
  }
  return false;
}

bool Survivor::take_own(TaskBytes task) {
  while (!own_.empty()) {
    const std::uint64_t slot = own_.back();
    own_.pop_back();
    if (claim({lines_.own(), slot}, task)) return true;
  }
  return false;
}

bool Survivor::take_from(Part& part, TaskBytes task) {
  const std::uint64_t added = states_.added(part.rank);
  for (; part.ready_from < added; ++part.ready_from) {
    if (claim({part.rank, part.ready_from}, task)) return true;
  }
  return false;
}

// If tasks of a dead rank have become ready again since the last call, this rank has to look at the
// parts (tasks added by each rank) from their first unfinished task on once more.
void Survivor::see_returned() {
  const std::uint64_t returned = states_.returned();
  if (returned == returned_) return;
  returned_ = returned;
  for (Part& part : parts_) part.ready_from = part.ended_to;
}

void Survivor::end() {
  states_.end(claimed_->part, claimed_->slot);
  claimed_.reset();
}

bool Survivor::all_ended() {
  for (Part& part : parts_) part.added = states_.added(part.rank);
  for (Part& part : parts_) {
    while (part.ended_to < part.added && states_.has_ended(part.rank, part.ended_to)) {
      ++part.ended_to;
    }
    if (part.ended_to < part.added) return false;
  }
  return std::ranges::all_of(
      parts_, [this](const Part& part) { return part.added == states_.added(part.rank); });
}

void Survivor::clear() {
  own_.clear();
  states_.clear();
}

// --- losses: saving the tasks of dead ranks -------------------------------------------------

void Survivor::look_for_losses() {
  for (std::uint32_t rank = 0; rank < lines_.ranks(); ++rank) {
    if (rank != lines_.own()) save_if_dead(rank);
  }
}

void Survivor::save_if_dead(std::uint32_t rank) {
  if (!lines_.inherit(rank)) return;
  if (lines_.is_lost(rank)) return;  // an earlier heir had saved all tasks
  for (const Part& part : parts_) adopt_from(part.rank, rank);
  states_.give_back(rank);
  lines_.report(rank, Loss::saved);
}

void Survivor::adopt_from(std::uint32_t part, std::uint32_t dead) {
  const std::uint64_t added = states_.added(part);
  for (std::uint64_t slot = 0; slot < added; ++slot) {
    if (states_.adopt(part, slot, dead)) adopt_(at({part, slot}));
  }
}

}  // namespace mh::tasks
