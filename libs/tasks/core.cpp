// SPDX-License-Identifier: BSD-3-Clause
#include "tasks/core.hpp"

#include <sched.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/clock.hpp"
#include "tasks/retention.hpp"
#include "tasks/server.hpp"

namespace mh::tasks::detail {
namespace {

// The time between two polls for other nodes' steal requests. At this interval the polls take at
// most 1 % of the worker's time.
constexpr double kLookNs = 5'000;

Places places_of(const Network& network, const Config& config) {
  const auto nodes = network.nodes();
  Places places{.ranks = network.ranks(), .per_node = network.ranks()};
  if (nodes.size() > 1) places.per_node = nodes[1];
  places.per_numa = config.ranks_per_numa != 0 ? config.ranks_per_numa : places.per_node;
  return places;
}

std::uint32_t most_per_steal(const Config& config, std::size_t stride) {
  return static_cast<std::uint32_t>(std::max<std::size_t>(config.steal_bytes / stride, 1));
}

// Starts the thread that answers the steal requests of other nodes. Returns nullptr if the system
// starts no more threads; the worker then answers requests between its tasks.
std::unique_ptr<AnswerServer> start_server(NodeAnswerer& answerer) {
  try {
    return std::make_unique<AnswerServer>(answerer);
  } catch (const std::system_error&) {
    return nullptr;
  }
}

}  // namespace

CollectionCore::CollectionCore(std::unique_ptr<Network> network, const Config& config,
                               const NodeShape& shape, std::byte* memory)
    : network_(std::move(network)),
      config_(config),
      memory_(memory, shape),
      deque_(memory_.own()),
      rules_{.places = places_of(*network_, config),
             .choice = config.victims,
             .arity = config.termination_arity,
             .most_per_steal = most_per_steal(config, shape.stride),
             .patience = {},
             .seed = config.seed},
      answerer_(*network_, memory_, rules_.most_per_steal),
      endpoint_(*network_, memory_, rules_.most_per_steal),
      arena_(shape.stride),
      in_wait_(shape.stride),
      backlog_(shape.stride),
      used_(first_balancer(config.balancer)),
      ns_per_tick_(1 / ticks_per_ns()) {
  balance_rules_.branching = config.balance_branching;
  context_.local_ = config.local;
  context_.rank_ = shape.rank;
  deque_.keep(1);  // until Process::ran() knows a duration
  deque_.hold();
}

CollectionCore::~CollectionCore() {
  while (!endpoint_.at_rest()) sched_yield();
}

// A barrier of all ranks. A rank that waits in it answers steal requests and helps other ranks
// meanwhile (rest()).
Status CollectionCore::meet() {
  const auto barrier = network_->barrier();
  if (!barrier) return failure_ = barrier.status();
  while (failure_.ok()) {
    const auto done = network_->done(*barrier);
    if (!done) return failure_ = done.status();
    if (*done) break;
    rest();
  }
  idle_work_.end_help();
  return failure_;
}

Result<std::uint32_t> CollectionCore::define(Call call, Any function, std::size_t bytes) {
  if (bytes > config_.task_bytes || function == nullptr) return Status{Code::misuse};
  functions_.push_back({call, function});
  return static_cast<std::uint32_t>(functions_.size() - 1);
}

Result<void*> CollectionCore::place(std::uint32_t function) {
  if (function >= functions_.size()) return Status{Code::misuse};
  if (!deque_.has_room()) {
    const bool full = deque_.size() == deque_.slots().capacity();
    return Status{full ? Code::full : Code::retry};
  }
  std::byte* at = deque_.slots().at(deque_.slot(deque_.landing()));
  const auto seed = static_cast<std::uint16_t>(state_ == State::processing ? 0 : 1);
  const TaskHeader header{function, seed};
  std::memcpy(at, &header, sizeof(header));
  placing_ = true;
  return static_cast<void*>(at + sizeof(header));
}

void CollectionCore::placed() {
  deque_.landed(1);
  if (survivor_ != nullptr) survivor_->added();
  placing_ = false;
  if (state_ == State::processed) state_ = State::seeding;
}

std::uint64_t CollectionCore::size() const { return deque_.size() + backlog_.count() - fed_; }

// --- process(): runs the tasks of all ranks -------------------------------------------------

Status CollectionCore::process() {
  if (state_ == State::processing) return {Code::misuse};
  if (!failure_.ok()) return failure_;
  if (survivor_ != nullptr) return process_surviving();
  if (const Status met = meet(); !met) return met;
  begin();
  Machine machine({&endpoint_}, deque_, memory_.shape().rank, rules_);
  std::unique_ptr<AnswerServer> server;
  if (config_.server && has_other_nodes()) server = start_server(answerer_);
  serves_ = has_other_nodes() && server == nullptr;
  machine_ = &machine;
  idle_work_.offer<&CollectionCore::has_for_wait, &CollectionCore::run_in_wait>(*this);
  const Status worked = work();
  idle_work_.withdraw();
  if (failure_.ok()) failure_ = worked;
  if (has_other_nodes()) leave();
  idle_work_.end_help();
  serves_ = false;
  if (server != nullptr) {
    const Status served = server->end();
    if (failure_.ok()) failure_ = served;
  }
  finish(machine);
  return failure_;
}

void CollectionCore::begin() {
  rules_.steal = may_steal(used_, measured_);
  statistics_ = {.given = deque_.steals(), .used = used_};
  statistics_.far_steals = endpoint_.far_steals();
  statistics_.arrived = endpoint_.arrived();
  arena_.clear();
  executed_.clear();
  if (used_ == Balancer::steal) {
    const std::uint64_t end = deque_.landing();
    for (std::uint64_t at = end - deque_.size(); at != end; ++at) {
      executed_.push_back({arena_.add(deque_.slots().at(deque_.slot(at))), Bin()});
    }
    for (std::uint32_t i = 0; i < backlog_.count(); ++i) {
      executed_.push_back({arena_.add(backlog_.at(i).bytes), Bin()});
    }
  }
  state_ = State::processing;
  pausing_ = false;
  task_ticks_ = 0;
  growth_s_ = 0;
  start_ticks_ = last_ticks_ = ticks();
  deque_.release();
}

// Runs this rank's tasks, and steals tasks of other ranks, until all tasks of all ranks have ended
// or the network fails.
Status CollectionCore::work() {
  while (endpoint_.status().ok() && failure_.ok()) {
    if (!feed()) {
      idle();
      continue;
    }
    TaskBytes task = arena_.spare();
    switch (machine_->next(task)) {
      case NextStep::run:
        idle_work_.end_help();
        run(task);
        if (serves_ && last_ticks_ >= look_ticks_) serve();
        break;
      case NextStep::pause:
        pause(machine_->pause_ns());
        break;
      case NextStep::wait:
        idle();
        break;
      case NextStep::ended:
        return {};
    }
  }
  return endpoint_.status().ok() ? failure_ : endpoint_.status();
}

// Runs the function of a task. Returns true if the caller must record the task for restore().
bool CollectionCore::call_function(TaskBytes task, Inside inside) {
  TaskHeader header;
  std::memcpy(&header, task.bytes, sizeof(header));
  const Registered& registered = functions_[header.function];
  Context context = context_;
  const Inside before = std::exchange(inside_, inside);
  registered.call(context, task.bytes + sizeof(header), registered.function);
  inside_ = before;
  return header.seed != 0 && used_ != Balancer::steal && !context.pruned_;
}

// Records an executed task for restore(), and the change of its duration since it last ran.
void CollectionCore::keep(Timed<std::uint32_t> timed) {
  TaskHeader header;
  std::memcpy(&header, arena_.at(timed.task).bytes, sizeof(header));
  if (header.bin != 0) growth_s_ += timed.bin.seconds() - Bin::of_key(header.bin).seconds();
  executed_.push_back(timed);
}

void CollectionCore::count(std::uint64_t taken) {
  task_ticks_ += taken;
  ++statistics_.tasks;
  machine_->ran(static_cast<std::uint64_t>(static_cast<double>(taken) * ns_per_tick_));
}

void CollectionCore::run(TaskBytes task) {
  wait_ticks_ = 0;
  const bool is_kept = call_function(task, Inside::task);
  const std::uint64_t now = ticks();
  const std::uint64_t taken = now - last_ticks_ - wait_ticks_;
  last_ticks_ = now;
  if (is_kept) keep({arena_.commit(), Bin(seconds(taken))});
  if (in_wait_.count() != 0) keep_those_of_wait();
  count(taken);
}

// A step of a rank that has no task to run: takes a message for the state machine, or rests. Ends a
// pause between steal attempts when its time is over.
void CollectionCore::idle() {
  TaskMessage message;
  if (endpoint_.receive(message)) {
    machine_->receive(message);
  } else {
    rest();
  }
  last_ticks_ = ticks();
  if (pausing_ && last_ticks_ >= resume_ticks_) {
    pausing_ = false;
    machine_->resume();
  }
}

// A step of a rank that waits: answers steal requests of other nodes, and helps other ranks through
// libmanyhands.so or yields the core.
void CollectionCore::rest() {
  if (serves_) serve();
  if (!idle_work_.help()) sched_yield();
}

void CollectionCore::pause(std::uint64_t ns) {
  pausing_ = true;
  resume_ticks_ = ticks() + ticks_from_ns(static_cast<double>(ns));
}

void CollectionCore::serve() {
  const Status status = answerer_.turn();
  if (!status && failure_.ok()) failure_ = status;
  look_ticks_ = ticks() + ticks_from_ns(kLookNs);
}

// Moves restored tasks from the backlog (tasks that found no room in the deque) to the deque.
// Returns false if tasks remain in the backlog and the deque has no task but those that thieves are
// copying. The rank is not idle then.
bool CollectionCore::feed() {
  if (fed_ == backlog_.count()) return true;
  while (fed_ != backlog_.count() && deque_.add(backlog_.at(fed_))) ++fed_;
  if (fed_ != backlog_.count()) return deque_.size() != 0;
  fed_ = 0;
  backlog_.clear();
  return true;
}

// Ends process() on several nodes. A thief may have sent a steal request just before the end. All
// ranks therefore answer until no steal request is under way, read or unread.
void CollectionCore::leave() {
  while (failure_.ok() && !endpoint_.at_rest()) rest();
  if (!failure_.ok() || !meet()) return;
  while (serves_ && failure_.ok() && !answerer_.at_rest()) serve();
}

void CollectionCore::finish(const Machine& machine) {
  deque_.hold();
  statistics_.attempts = machine.attempts();
  statistics_.steals = machine.successes();
  statistics_.far_steals = endpoint_.far_steals() - statistics_.far_steals;
  statistics_.arrived = endpoint_.arrived() - statistics_.arrived;
  statistics_.given = deque_.steals() - statistics_.given;
  statistics_.rounds = machine.rounds();
  statistics_.task_s = seconds(task_ticks_);
  statistics_.process_s = seconds(ticks() - start_ticks_);
  state_ = State::processed;
}

}  // namespace mh::tasks::detail
