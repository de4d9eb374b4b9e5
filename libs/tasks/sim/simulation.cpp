// SPDX-License-Identifier: BSD-3-Clause
#include "tasks/sim/simulation.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace mh::tasks::sim {
namespace {

constexpr std::uint64_t kParts = 200;  // of the ideal time, in Outcome::utilization
constexpr std::uint64_t kFewestSlots = 64;

std::uint64_t to_ns(double seconds) { return static_cast<std::uint64_t>(seconds * 1e9); }

template <class Value>
Spread spread(std::size_t count, Value value) {
  double sum = 0;
  double squares = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const auto x = static_cast<double>(value(i));
    sum += x;
    squares += x * x;
  }
  const double mean = sum / static_cast<double>(count);
  return {mean, std::sqrt(std::max(0.0, squares / static_cast<double>(count) - mean * mean))};
}

}  // namespace

void SimulatedEndpoint::send(std::uint32_t to, Message message) {
  Simulation& s = *simulation;
  const std::uint64_t at = s.now_ + s.machine_.overhead_ns + s.latency(rank, to);
  s.queue_.push(
      {at, to, rank, message.count, 0, Simulation::What::message, message.kind, message.dirty});
}

void SimulatedEndpoint::send_tasks(std::uint32_t to, Reservation tasks) {
  Simulation& s = *simulation;
  const std::uint32_t index = s.new_parcel();
  Simulation::Parcel& parcel = s.parcels_[index];
  SimDeque& deque = s.ranks_[rank].tasks();
  parcel.reservation = tasks;
  parcel.uses = 2;
  parcel.tasks.resize(tasks.count);
  for (std::uint32_t i = 0; i < tasks.count; ++i) {
    deque.slots().load(deque.slot(tasks.first + i), parcel.tasks[i]);
  }
  const std::uint64_t sent =
      s.now_ + s.machine_.overhead_ns +
      s.machine_.transfer_ns(std::uint64_t{tasks.count} * s.machine_.task_bytes);
  s.queue_.push(
      {sent, rank, rank, tasks.count, index, Simulation::What::copied, MessageKind::work, false});
  s.queue_.push({sent + s.latency(rank, to), to, rank, tasks.count, index,
                 Simulation::What::message, MessageKind::work, false});
}

Simulation::Simulation(const MachineModel& machine, const Rules& rules,
                       std::span<const float> durations, const Seeds& seeds)
    : machine_(machine),
      rules_(rules),
      durations_(durations),
      running_(seeds.size()),
      executed_(seeds.size()) {
  std::uint64_t most = kFewestSlots;
  double work = 0;
  for (const auto& own : seeds) {
    most = std::max<std::uint64_t>(most, own.size());
    for (const TaskId task : own) work += durations[task];
  }
  ideal_s_ = work / static_cast<double>(seeds.size());
  part_ns_ = std::max<std::uint64_t>(1, to_ns(ideal_s_) / kParts);
  // A thief takes at most half of a deque of the same size, so the stolen tasks always fit.
  const std::uint64_t capacity = std::bit_ceil(most);
  slots_.resize(capacity * seeds.size());
  words_ = std::make_unique<DequeWords<Alone>[]>(seeds.size());
  ranks_.reserve(seeds.size());
  server_free_.resize(node_of(static_cast<std::uint32_t>(seeds.size() - 1)) + 1);
  if (!machine.server) postponed_.resize(seeds.size());
  for (std::uint32_t rank = 0; rank < seeds.size(); ++rank) {
    const SimSlots slots{&slots_[rank * capacity], capacity};
    ranks_.emplace_back(SimulatedEndpoint{this, rank}, SimDeque(words_[rank], slots), rank, rules);
    for (const TaskId task : seeds[rank]) ranks_[rank].tasks().add(task);
    executed_[rank].reserve(seeds[rank].size());
  }
}

Outcome Simulation::run() {
  for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) go_on(rank);
  while (!queue_.empty()) {
    ++events_;
    handle(queue_.pop());
  }
  return outcome();
}

void Simulation::handle(const Event& event) {
  now_ = event.time;
  switch (event.what) {
    case What::message:
      receive(event);
      break;
    case What::served:
      deliver(event);
      break;
    case What::task_done:
      finish_task(event.rank);
      break;
    case What::resume:
      ranks_[event.rank].resume();
      if (!running_[event.rank].busy) go_on(event.rank);
      break;
    case What::copied:
      ranks_[event.rank].tasks().complete(parcels_[event.parcel].reservation);
      drop_parcel(event.parcel);
      break;
  }
}

// A message has arrived at the node of its rank.
void Simulation::receive(const Event& event) {
  if (!machine_.server) {
    if (running_[event.rank].busy) return postponed_[event.rank].push_back(event);
    return deliver(event);
  }
  if (node_of(event.rank) == node_of(event.from)) return deliver(event);
  std::uint64_t& free = server_free_[node_of(event.rank)];
  free = std::max(free, now_) + machine_.overhead_ns;
  Event served = event;
  served.what = What::served;
  served.time = free;
  queue_.push(served);
}

void Simulation::deliver(const Event& event) {
  Rank& rank = ranks_[event.rank];
  const Message message{event.kind, event.dirty, event.from, event.count};
  if (message.kind == MessageKind::steal) return rank.serve(message);
  if (message.kind == MessageKind::work) land(event.rank, event.parcel);
  rank.receive(message);
  if (!running_[event.rank].busy) go_on(event.rank);
}

void Simulation::land(std::uint32_t rank, std::uint32_t index) {
  SimDeque& deque = ranks_[rank].tasks();
  std::uint64_t at = deque.landing();
  for (const TaskId task : parcels_[index].tasks) deque.slots().store(deque.slot(at++), task);
  drop_parcel(index);
}

// Advances a rank that runs no task.
void Simulation::go_on(std::uint32_t rank) {
  if (running_[rank].ended) return;
  TaskId task = 0;
  switch (ranks_[rank].next(task)) {
    case NextStep::run:
      begin(rank, task);
      break;
    case NextStep::wait:
      break;
    case NextStep::pause:
      queue_.push({now_ + ranks_[rank].pause_ns(), rank, rank, 0, 0, What::resume, {}, false});
      break;
    case NextStep::ended:
      running_[rank].ended = true;
      end_ = std::max(end_, now_);
      break;
  }
}

void Simulation::begin(std::uint32_t rank, TaskId task) {
  const std::uint64_t start = now_ + machine_.take_ns;
  const std::uint64_t end = start + to_ns(durations_[task]);
  running_[rank].task = task;
  running_[rank].busy = true;
  running_[rank].ns = end - start;
  count_busy(start, 1);
  count_busy(end, -1);
  queue_.push({end, rank, rank, 0, 0, What::task_done, {}, false});
}

void Simulation::finish_task(std::uint32_t rank) {
  last_task_ = std::max(last_task_, now_);
  running_[rank].busy = false;
  executed_[rank].push_back(running_[rank].task);
  ranks_[rank].ran(running_[rank].ns);
  if (!machine_.server) {
    std::vector<Event> waiting;
    waiting.swap(postponed_[rank]);
    for (const Event& event : waiting) deliver(event);
    if (running_[rank].busy) return;
  }
  go_on(rank);
}

std::uint32_t Simulation::new_parcel() {
  if (free_parcels_.empty()) {
    parcels_.emplace_back();
    return static_cast<std::uint32_t>(parcels_.size() - 1);
  }
  const std::uint32_t index = free_parcels_.back();
  free_parcels_.pop_back();
  return index;
}

void Simulation::drop_parcel(std::uint32_t index) {
  if (--parcels_[index].uses == 0) free_parcels_.push_back(index);
}

void Simulation::count_busy(std::uint64_t time, int change) {
  const std::size_t part = time / part_ns_ + 1;
  if (part >= busy_changes_.size()) busy_changes_.resize(part + 1);
  busy_changes_[part] += change;
}

std::uint64_t Simulation::latency(std::uint32_t from, std::uint32_t to) const {
  return node_of(from) == node_of(to) ? machine_.local_latency_ns : machine_.latency_ns;
}

Outcome Simulation::outcome() {
  Outcome outcome{.ideal_s = ideal_s_,
                  .last_task_s = static_cast<double>(last_task_) * 1e-9,
                  .end_s = static_cast<double>(end_) * 1e-9};
  const std::size_t count = ranks_.size();
  outcome.attempts = spread(count, [&](std::size_t i) { return ranks_[i].attempts(); });
  outcome.successes = spread(count, [&](std::size_t i) { return ranks_[i].successes(); });
  outcome.tasks = spread(count, [&](std::size_t i) { return executed_[i].size(); });
  for (const auto& own : executed_) outcome.run += own.size();
  outcome.rounds = ranks_.front().rounds();
  outcome.events = events_;
  std::int64_t busy = 0;
  for (const std::int32_t change : busy_changes_) {
    busy += change;
    outcome.utilization.push_back(static_cast<float>(busy) / static_cast<float>(count));
  }
  return outcome;
}

Seeds Simulation::take_executed() { return std::move(executed_); }

}  // namespace mh::tasks::sim
