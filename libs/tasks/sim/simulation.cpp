// SPDX-License-Identifier: BSD-3-Clause
#include "tasks/sim/simulation.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace mh::tasks::sim {
namespace {

constexpr std::uint64_t kParts = 200;  // of the ideal time, in SimulatedRun::utilization
constexpr std::uint64_t kFewestSlots = 64;
constexpr std::uint64_t kGrowingSlots = 16'384;  // Config::max_tasks, where tasks add tasks
constexpr std::uint64_t kLookNs = 5'000;         // as in core.cpp

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

// Returns the sum of the durations of all tasks, in seconds: of the seeds (the first tasks of the
// ranks), and of the tasks that other tasks add.
double work_of(const Work& work, const Seeds& seeds) {
  double sum = 0;
  if (!work.children.empty()) {
    for (const float seconds : work.seconds) sum += std::abs(static_cast<double>(seconds));
  }
  for (const auto& own : work.children.empty() ? seeds : Seeds{}) {
    for (const TaskId task : own) sum += std::abs(static_cast<double>(work.seconds[task]));
  }
  return sum;
}

// Returns the speed of all ranks together, as a number of ranks of the common speed. The ranks of
// the first node may be slower (MachineModel::slow_node).
double speed_of(const MachineModel& machine, const Places& places) {
  const double slow = std::min(places.per_node, places.ranks);
  return places.ranks - slow + slow / machine.slow_node;
}

}  // namespace

// --- the simulated memory of a node and the simulated network -------------------------------

bool SimMemory::claim(std::uint32_t thief, std::uint32_t number) {
  std::uint32_t& answered = simulation_->answered_[thief];
  if (number <= answered) return false;
  answered = number;
  return true;
}

std::uint32_t SimNetwork::ranks() const { return simulation_->rules_.places.ranks; }
std::span<const std::uint32_t> SimNetwork::nodes() const { return simulation_->nodes_; }

// Sends a message in simulated time. The sender's core is busy for the overhead. The ticket of a
// message sent with `matched` ends when the message is taken, the ticket of an answer when its
// bytes have left.
Result<Network::Ticket> SimNetwork::send(std::uint32_t to, Tag tag, std::span<const std::byte> data,
                                         bool matched) {
  Simulation& s = *simulation_;
  const MachineModel& machine = s.machine_;
  std::uint64_t& clock = s.ranks_[rank_].clock;
  clock += machine.overhead_ns;
  const bool answers = tag == Tag::answer && !data.empty();  // no tasks lie in slots otherwise
  const std::uint64_t bytes =
      answers ? data.size() / sizeof(TaskId) * machine.task_bytes : data.size();
  const std::uint64_t left = clock + machine.transfer_ns(bytes);
  const bool near = s.node_of(rank_) == s.node_of(to);
  const Ticket ticket = matched || answers ? s.mail_.new_ticket() : Mailroom::kDone;
  const std::uint32_t mail = s.mail_.put(rank_, tag, data, matched ? ticket : Mailroom::kDone);
  const std::uint64_t latency = near ? machine.local_latency_ns : machine.latency_ns;
  s.queue_.push({left + latency, to, mail, Simulation::What::arrived});
  if (answers) {
    s.queue_.push({left, rank_, static_cast<std::uint32_t>(ticket), Simulation::What::sent});
  }
  return ticket;
}
Result<bool> SimNetwork::done(Ticket ticket) { return simulation_->mail_.done(ticket); }
Result<std::optional<Network::Envelope>> SimNetwork::probe(std::uint32_t /*from*/, Tag tag) {
  return simulation_->mail_.first(rank_, tag);
}
Status SimNetwork::take(const Envelope& envelope, std::span<std::byte> data) {
  simulation_->ranks_[rank_].clock += simulation_->machine_.overhead_ns;
  simulation_->mail_.take(rank_, envelope.tag, data);
  return {};
}

// --- the simulated ranks: events, tasks, answers --------------------------------------------

Simulation::Rank::Rank(Simulation& simulation, const NodeShape& shape)
    : memory(simulation, shape),
      network(simulation, shape.rank),
      endpoint(network, memory, simulation.rules_.most_per_steal),
      answerer(network, memory, simulation.rules_.most_per_steal),
      machine({&endpoint}, simulation.deques_[shape.rank], shape.rank, simulation.rules_) {}

Simulation::Simulation(const MachineModel& machine, const Rules& rules, const Work& work,
                       const Seeds& seeds)
    : machine_(machine),
      rules_(rules),
      work_(work),
      mail_(static_cast<std::uint32_t>(seeds.size())),
      answered_(seeds.size()),
      executed_(seeds.size()),
      measured_(work.seconds.size()),
      first_child_(work.children.empty() ? static_cast<TaskId>(work.seconds.size())
                                         : work.children.front()) {
  std::uint64_t most = work.children.empty() ? kFewestSlots : kGrowingSlots;
  for (const auto& own : seeds) most = std::max<std::uint64_t>(most, own.size());
  ideal_s_ = work_of(work, seeds) / speed_of(machine, rules.places);
  part_ns_ = std::max<std::uint64_t>(1, to_ns(ideal_s_) / kParts);
  make_ranks(seeds, std::bit_ceil(most));
}

void Simulation::make_ranks(const Seeds& seeds, std::uint64_t capacity) {
  const auto count = static_cast<std::uint32_t>(seeds.size());
  const std::uint32_t per_node = rules_.places.per_node;
  for (std::uint32_t first = 0; first < count; first += per_node) nodes_.push_back(first);
  slots_.resize(capacity * seeds.size());
  words_ = std::make_unique<DequeWords<Alone>[]>(seeds.size());
  deques_.reserve(count);
  for (std::uint32_t rank = 0; rank < count; ++rank) {
    deques_.emplace_back(words_[rank], SimSlots{&slots_[rank * capacity], capacity});
    SimDeque& deque = deques_.back();
    deque.keep(1);  // until durations are known
    deque.hold();
    for (const TaskId task : seeds[rank]) deque.add(task);
    executed_[rank].reserve(seeds[rank].size());
    const std::uint32_t first = rank / per_node * per_node;
    ranks_.emplace_back(*this, NodeShape{.rank = rank,
                                         .ranks = count,
                                         .first = first,
                                         .count = std::min(per_node, count - first),
                                         .capacity = capacity,
                                         .stride = sizeof(TaskId)});
  }
}

SimulatedRun Simulation::run() {
  for (SimDeque& deque : deques_) deque.release();
  for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) advance(rank);
  while (!queue_.empty()) {
    ++events_;
    handle(queue_.pop());
  }
  return outcome();
}

void Simulation::handle(const Event& event) {
  now_ = event.time;
  switch (event.what) {
    case What::arrived:
      arrive(event);
      break;
    case What::sent:
      mail_.end(static_cast<Network::Ticket>(event.number));
      need(ranks_[event.rank], event.rank);
      break;
    case What::task_done:
      finish_task(event.rank);
      break;
    case What::resume:
      resume(event.rank);
      break;
    case What::awake:
      ranks_[event.rank].waking = false;
      wake(event.rank);
      break;
    case What::poll:
      poll(event.rank);
      break;
  }
}

void Simulation::arrive(const Event& event) {
  Rank& rank = ranks_[event.rank];
  mail_.arrive(event.rank, event.number);
  if (mail_.tag_of(event.number) == Tag::request) return need(rank, event.rank);
  if (!rank.busy) wake(event.rank);
}

// Called when the answerer of a rank has something to do: a steal request or the end of a send. A
// worker answers between its tasks or when idle, a server thread at its next poll.
void Simulation::need(Rank& rank, std::uint32_t number) {
  if (!machine_.server) {
    if (!rank.busy) wake(number);
    return;
  }
  if (rank.polling) return;
  rank.polling = true;
  // The server threads of the ranks poll at different times: the rank's number gives the phase of
  // its polls.
  const std::uint64_t every = machine_.poll_every_ns;
  const std::uint64_t phase = number * 0x9E3779B97F4A7C15U % every;
  queue_.push({(now_ + phase) / every * every + every - phase, number, 0, What::poll});
}

// Makes a simulated rank without a task look for messages, once its core is free.
void Simulation::wake(std::uint32_t number) {
  Rank& rank = ranks_[number];
  if (rank.busy) return;
  if (rank.clock <= now_) return advance(number);
  if (rank.waking) return;
  rank.waking = true;
  queue_.push({rank.clock, number, 0, What::awake});
}

void Simulation::poll(std::uint32_t number) {
  Rank& rank = ranks_[number];
  rank.polling = false;
  const std::uint64_t before = rank.clock = std::max(rank.clock, now_);
  serve(rank);
  if (rank.busy) rank.stolen_ns += rank.clock - before;
}

void Simulation::resume(std::uint32_t number) {
  ranks_[number].machine.resume();
  wake(number);
}

// Does for a rank that runs no task what the loop of CollectionCore::work() (core.cpp) does, until
// the rank begins a task or has no further message. A later event then calls this function again.
void Simulation::advance(std::uint32_t number) {
  Rank& rank = ranks_[number];
  rank.clock = std::max(rank.clock, now_);
  for (;;) {
    switch (rank.machine.next(rank.task)) {
      case NextStep::run:
        return begin(number);
      case NextStep::pause:
        queue_.push({rank.clock + rank.machine.pause_ns(), number, 0, What::resume});
        break;
      case NextStep::ended:
        end(rank);
        break;
      case NextStep::wait:
        break;
    }
    if (receive(rank)) continue;
    if (!machine_.server) serve(rank);
    return;
  }
}

bool Simulation::receive(Rank& rank) {
  if (rank.endpoint.has_near_answer()) rank.clock += machine_.look_ns;
  const bool near = rank.endpoint.has_near_answer();
  TaskMessage message;
  if (!rank.endpoint.receive(message)) return false;
  if (near) {
    const double bytes = static_cast<double>(message.count) * machine_.task_bytes;
    rank.clock += static_cast<std::uint64_t>(bytes / machine_.local_bytes_per_ns);
  }
  rank.machine.receive(message);
  return true;
}

void Simulation::serve(Rank& rank) {
  const std::uint64_t before = rank.answerer.looked();
  static_cast<void>(rank.answerer.turn());  // this network has no failures
  rank.clock += (rank.answerer.looked() - before) * machine_.look_ns;
}

void Simulation::end(Rank& rank) {
  if (rank.ended) return;
  rank.ended = true;
  end_ = std::max(end_, rank.clock);
}

std::uint64_t Simulation::time_of(std::uint32_t number) const {
  double seconds = std::abs(static_cast<double>(work_.seconds[ranks_[number].task]));
  if (node_of(number) == 0) seconds *= machine_.slow_node;
  if (machine_.server) {
    seconds *=
        1 + static_cast<double>(machine_.poll_ns) / static_cast<double>(machine_.poll_every_ns);
  }
  return to_ns(seconds);
}

void Simulation::begin(std::uint32_t number) {
  Rank& rank = ranks_[number];
  rank.busy = true;
  rank.stolen_ns = 0;
  rank.task_start = rank.clock;
  const std::uint64_t start = rank.clock + machine_.take_ns;
  count_busy(start, 1);
  queue_.push({start + time_of(number), number, 0, What::task_done});
}

void Simulation::finish_task(std::uint32_t number) {
  Rank& rank = ranks_[number];
  if (rank.stolen_ns != 0) {
    queue_.push({now_ + rank.stolen_ns, number, 0, What::task_done});
    rank.stolen_ns = 0;
    return;
  }
  last_task_ = std::max(last_task_, now_);
  count_busy(now_, -1);
  rank.busy = false;
  rank.clock = std::max(rank.clock, now_);
  const std::uint64_t taken = now_ - rank.task_start;
  in_tasks_ += taken;
  measured_[rank.task] = static_cast<float>(static_cast<double>(taken) * 1e-9);
  ++rank.ran;
  if (rank.task < first_child_ && !prunes_itself(rank.task)) executed_[number].push_back(rank.task);
  add_children(rank);
  rank.machine.ran(taken);
  if (!machine_.server && now_ >= rank.look) {
    serve(rank);
    rank.look = rank.clock + kLookNs;
  }
  advance(number);
}

// Adds the tasks that the rank's ended task adds, its children. A child that finds the deque full
// waits until the rank has run its next task.
void Simulation::add_children(Rank& rank) {
  if (work_.children.empty()) return;
  SimDeque& deque = rank.memory.own();
  const TaskId end = work_.children[rank.task + 1];
  for (TaskId child = work_.children[rank.task]; child < end; ++child) {
    if (!deque.add(child)) rank.backlog.push_back(child);
  }
  while (!rank.backlog.empty() && deque.add(rank.backlog.back())) rank.backlog.pop_back();
}

void Simulation::count_busy(std::uint64_t time, int change) {
  const std::size_t part = time / part_ns_ + 1;
  if (part >= busy_changes_.size()) busy_changes_.resize(part + 1);
  busy_changes_[part] += change;
}

// Returns the simulated time of the barrier at the end of process(). With several nodes all ranks
// meet before they leave: a round of messages for each doubling of the ranks.
std::uint64_t Simulation::barrier_ns() const {
  if (nodes_.size() < 2) return 0;
  const auto rounds = static_cast<std::uint64_t>(std::bit_width(ranks_.size() - 1));
  return rounds * (machine_.latency_ns + 2 * machine_.overhead_ns);
}

SimulatedRun Simulation::outcome() {
  SimulatedRun outcome{.ideal_s = ideal_s_,
                       .last_task_s = static_cast<double>(last_task_) * 1e-9,
                       .end_s = static_cast<double>(end_ + barrier_ns()) * 1e-9,
                       .in_tasks_s = static_cast<double>(in_tasks_) * 1e-9};
  const std::size_t count = ranks_.size();
  outcome.attempts = spread(count, [&](std::size_t i) { return ranks_[i].machine.attempts(); });
  outcome.successes = spread(count, [&](std::size_t i) { return ranks_[i].machine.successes(); });
  outcome.tasks = spread(count, [&](std::size_t i) { return ranks_[i].ran; });
  for (const Rank& rank : ranks_) outcome.run += rank.ran;
  outcome.rounds = ranks_.front().machine.rounds();
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
