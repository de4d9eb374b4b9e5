// SPDX-License-Identifier: BSD-3-Clause
// The overhead of task collections. Rank 0 prints a line for each figure:
//
//   overhead task     one rank: add, get and run an empty task
//   overhead steal    one rank, two threads: steal a task, and 64 KB of tasks, from a neighbour
//   overhead message  two ranks: a message of the collections' protocol one way, and its send alone
//   overhead end      all ranks: from the end of the last task until all ranks have left process()
//
// Each figure is the median of several rounds. compare.py runs this program beside onetbb.cpp.
#include <mpi.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <string_view>
#include <thread>
#include <vector>

#include "manyhands/tasks.hpp"
#include "tasks/node_memory.hpp"

namespace {

namespace tasks = mh::tasks;
using Clock = std::chrono::steady_clock;

double ns_since(Clock::time_point start) {
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
}
double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<long>(values.size() / 2));
  return values[values.size() / 2];
}

struct Empty {
  std::uint64_t number;
};

int task_cost() {
  constexpr std::uint64_t kTasks = 16'384;
  auto made = tasks::create(MPI_COMM_SELF, {.max_tasks = kTasks});
  if (!made) return 1;
  const auto function = *made->define<Empty>([](tasks::Context&, const Empty&) noexcept {});
  std::vector<double> rounds;
  for (int round = 0; round < 50; ++round) {
    const auto start = Clock::now();
    for (std::uint64_t i = 0; i < kTasks; ++i) {
      if (!made->add(function, {i})) return 1;
    }
    if (!made->process()) return 1;
    rounds.push_back(ns_since(start) / kTasks);
  }
  return std::printf("task %.1f ns\n", median(rounds));
}

// The memory of a node of two ranks, with the deque of tasks from which a thief steals. The thread
// that makes the object is the deque's worker, which adds tasks.
class Node {
 public:
  static constexpr std::size_t kStride = 64;
  explicit Node(std::uint64_t tasks) : memory_(allocate(tasks), shape(tasks)) {
    std::array<std::byte, kStride> task{};
    tasks::ByteDeque& deque = memory_.own();
    deque.keep(1);
    for (std::uint64_t i = 0; i < tasks; ++i) static_cast<void>(deque.add({task.data()}));
  }
  tasks::ByteDeque& deque() { return memory_.own(); }

 private:
  struct Free {
    void operator()(void* memory) const { ::operator delete (memory, std::align_val_t{64}); }
  };
  static tasks::NodeShape shape(std::uint64_t tasks) {
    return {.ranks = 2, .count = 2, .capacity = tasks, .stride = kStride};
  }
  std::byte* allocate(std::uint64_t tasks) {
    const std::size_t bytes = tasks::NodeMemory::bytes(shape(tasks));
    raw_.reset(::operator new (bytes, std::align_val_t{64}));
    std::memset(raw_.get(), 0, bytes);
    return static_cast<std::byte*>(raw_.get());
  }
  std::unique_ptr<void, Free> raw_;
  tasks::NodeMemory memory_;
};

double steal_ns(std::uint32_t count) {
  constexpr int kSteals = 8;
  std::vector<double> rounds;
  std::vector<std::byte> own(count * Node::kStride);
  for (int round = 0; round < 50; ++round) {
    Node node(32'768);
    std::thread thief([&] {
      const auto start = Clock::now();
      for (int i = 0; i < kSteals; ++i) {
        const auto taken = node.deque().reserve(count);
        const auto from = tasks::bytes_of(node.deque(), taken.first, taken.count);
        std::memcpy(own.data(), from.data(), from.size());
        node.deque().complete(taken);
      }
      rounds.push_back(ns_since(start) / kSteals);
    });
    thief.join();
  }
  return median(rounds);
}
int steal_cost() {
  constexpr std::uint32_t kChunk = 65'536 / Node::kStride;
  const double one = steal_ns(1);
  return std::printf("steal %.0f ns\nsteal-64KB %.0f ns\n", one, steal_ns(kChunk));
}

int end_cost(int rank) {
  double last = 0;
  auto made = tasks::create(MPI_COMM_WORLD, {.local = &last});
  if (!made) return 1;
  const auto function = *made->define<Empty>([](tasks::Context& context, const Empty&) noexcept {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    context.local<double>() = MPI_Wtime();
  });
  std::vector<double> rounds;
  for (int round = 0; round < 15; ++round) {
    last = 0;
    if (rank == 0 && !made->add(function, {0})) return 1;
    if (!made->process()) return 1;
    std::array<double, 2> times{last, MPI_Wtime()};
    // The other ranks may still be in process(). A rank that has left must not spin in MPI on a
    // core that they need.
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    MPI_Allreduce(MPI_IN_PLACE, times.data(), 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    rounds.push_back(times[1] - times[0]);
  }
  return rank == 0 ? std::printf("end %.3f ms\n", 1e3 * median(rounds)) : 1;
}

using tasks::Network;
using tasks::Tag;

// Receives a message of the task collections' protocol. Returns false on an error. A Network (the
// connection of a task collection) never waits, so receive() and send() poll it.
bool receive(Network& network) {
  std::array<std::byte, 12> bytes{};
  for (;;) {
    const auto envelope = network.probe(Network::kAnyone, Tag::control);
    if (!envelope) return false;
    if (envelope->has_value()) return network.take(**envelope, bytes).ok();
  }
}
bool send(Network& network) {
  const std::array<std::byte, 12> bytes{};
  const auto ticket = network.send(1 - network.rank(), Tag::control, bytes, false);
  bool done = false;
  while (ticket && !done) {
    const auto found = network.done(*ticket);
    if (!found) return false;
    done = *found;
  }
  return done;
}

int message_cost(int rank) {
  auto network = tasks::MpiNetwork::over(MPI_COMM_WORLD);
  if (!network || (*network)->ranks() != 2) return 0;
  constexpr int kTimes = 2'000;
  std::vector<double> ways;
  std::vector<double> sends;
  for (int round = 0; round < 51; ++round) {
    double in_send = 0;
    const auto start = Clock::now();
    for (int i = 0; i < kTimes; ++i) {
      if (rank == 1 && !receive(**network)) return 0;
      const auto before = Clock::now();
      if (!send(**network)) return 0;
      in_send += ns_since(before);
      if (rank == 0 && !receive(**network)) return 0;
    }
    ways.push_back(ns_since(start) / (2 * kTimes));
    sends.push_back(in_send / kTimes);
  }
  if (rank != 0) return 1;
  return std::printf("message %.0f ns\nsend %.0f ns\n", median(ways), median(sends));
}

}  // namespace

int main(int count, char** words) {
  MPI_Init(&count, &words);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const std::string_view what = count > 1 ? words[1] : "";
  int said = 0;
  if (what == "task") said = task_cost();
  if (what == "steal") said = steal_cost();
  if (what == "message") said = message_cost(rank);
  if (what == "end") said = end_cost(rank);
  MPI_Finalize();
  return said > 0 ? 0 : 2;
}
