// SPDX-License-Identifier: BSD-3-Clause
// process() of a collection with Config::survive_loss.
//
// An idle rank calls the network now and then, because an MPI library may need calls of this rank
// to serve MPI calls in the tasks of other ranks. The result of that call is ignored: the network
// may have failed with the lost rank.
#include "base/clock.hpp"
#include "tasks/core.hpp"

namespace mh::tasks::detail {
namespace {

constexpr double kLookForLossesNs = 1'000'000;  // a look reads a cache line of each rank

}  // namespace

Status CollectionCore::survive(std::byte* memory) {
  survivor_ =
      std::make_unique<Survivor>(memory, memory_, [this](const std::byte* task) { adopt(task); });
  return survivor_->open();
}

Status CollectionCore::process_surviving() {
  failure_ = meet_survivors(&Survivor::at_start);
  if (!failure_.ok()) return failure_;
  begin();
  Machine machine({&endpoint_}, deque_, memory_.shape().rank, rules_);
  machine_ = &machine;  // count() reports durations to the machine, which sends nothing
  survivor_->begin(rules_.steal);
  work_surviving();
  failure_ = meet_survivors(&Survivor::at_end);
  idle_work_.end_help();
  finish(machine);
  finish_surviving();
  return failure_;
}

Status CollectionCore::meet_survivors(Survivor::Meeting (Survivor::*meeting)()) {
  survivor_->arrive();
  for (;;) {
    switch ((*survivor_.*meeting)()) {
      case Survivor::Meeting::met:
        return {};
      case Survivor::Meeting::broken:
        network_->abandon();
        return {Code::gone};
      case Survivor::Meeting::waits:
        rest();
    }
  }
}

void CollectionCore::work_surviving() {
  for (;;) {
    TaskBytes task = arena_.spare();
    if (survivor_->take(task)) {
      idle_work_.end_help();
      run(task);
      survivor_->end();
    } else if (survivor_->all_ended()) {
      return;
    } else {
      idle_surviving();
    }
  }
}

void CollectionCore::idle_surviving() {
  if (last_ticks_ >= look_ticks_) {
    survivor_->look_for_losses();
    (void)network_->probe(Network::kAnyone, Tag::control);
    look_ticks_ = last_ticks_ + ticks_from_ns(kLookForLossesNs);
  }
  rest();
  last_ticks_ = ticks();
}

// Records for restore() a task that ended on a rank which has died afterwards. With
// Balancer::steal, finish_surviving() records such tasks instead.
void CollectionCore::adopt(const std::byte* task) {
  TaskHeader header;
  std::memcpy(&header, task, sizeof(header));
  if (header.seed != 0 && used_ != Balancer::steal) {
    executed_.push_back({arena_.add(task), Bin::of_key(header.bin)});
  }
}

void CollectionCore::finish_surviving() {
  statistics_.attempts = survivor_->attempts();
  statistics_.steals = survivor_->steals();
  statistics_.arrived = survivor_->steals();
  statistics_.lost = survivor_->lost();
  if (used_ == Balancer::steal) {
    survivor_->each_left([this](const std::byte* task) {
      TaskHeader header;
      std::memcpy(&header, task, sizeof(header));
      if (header.seed != 0) executed_.push_back({arena_.add(task), Bin()});
    });
  }
  deque_.clear();
  survivor_->clear();
  if (statistics_.lost != 0) network_->abandon();
}

}  // namespace mh::tasks::detail
