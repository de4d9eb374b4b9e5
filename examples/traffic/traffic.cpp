// SPDX-License-Identifier: BSD-3-Clause
// Data traffic, after the DT benchmark of the NAS suite: arrays flow through a graph from sources
// to sinks. Each node of the graph is a light task. The task receives arrays from its predecessors,
// adds them, and sends the sum to its successors, all by blocking calls. Each edge has a tag.
//
//   mpiexec -n 2 ./traffic black-hole|white-hole|shuffle [WIDTH [NUMBERS]]
//
// black-hole: WIDTH sources (a power of two) to a single sink, by a tree of degree four.
// white-hole: from a single source, in the other direction. shuffle: WIDTH sources to WIDTH sinks
// through log2(WIDTH) layers of a butterfly. Node i runs on rank i modulo the number of ranks. Rank
// 0 compares the sum of the sinks with a serial run and prints the result.
#include <atomic>
#include <bit>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "manyhands/lci.hpp"
#include "manyhands/ult.hpp"

namespace {

namespace lci = mh::lci;
namespace ult = mh::ult;

using Array = std::vector<std::uint64_t>;

struct Edge {
  std::size_t node;  // at the other end
  std::uint32_t tag;
};

struct Node {
  std::vector<Edge> in;
  std::vector<Edge> out;
};

// The nodes of the graph, each after its predecessors.
class Traffic {
 public:
  Traffic(const std::string& pattern, std::size_t width, std::size_t numbers) : numbers_(numbers) {
    if (pattern == "black-hole") {
      join_by_four(layer(width));
    } else if (pattern == "white-hole") {
      join_by_four(layer(width));
      turn_around();
    } else {
      shuffle(width);
    }
  }

  [[nodiscard]] const std::vector<Node>& nodes() const { return nodes_; }
  [[nodiscard]] std::size_t numbers() const { return numbers_; }

  [[nodiscard]] Array source(std::size_t node) const {
    Array data(numbers_);
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = (node + 1) * 0x9E3779B97F4A7C15U + i;
    return data;
  }
  static std::uint64_t digest(const Array& data) {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < data.size(); ++i) sum += data[i] * (2 * i + 1);
    return sum;
  }

  // The sum over all sinks.
  [[nodiscard]] std::uint64_t serial() const {
    std::vector<Array> data(nodes_.size());
    std::uint64_t sum = 0;
    for (std::size_t n = 0; n < nodes_.size(); ++n) {
      data[n] = nodes_[n].in.empty() ? source(n) : Array(numbers_, 0);
      for (const Edge& edge : nodes_[n].in) add(data[n], data[edge.node]);
      if (nodes_[n].out.empty()) sum += digest(data[n]);
    }
    return sum;
  }
  static void add(Array& to, const Array& from) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] += from[i];
  }

 private:
  std::vector<std::size_t> layer(std::size_t width) {
    std::vector<std::size_t> made;
    for (std::size_t i = 0; i < width; ++i) {
      made.push_back(nodes_.size());
      nodes_.emplace_back();
    }
    return made;
  }
  void connect(std::size_t from, std::size_t to) {
    nodes_[from].out.push_back({to, tags_});
    nodes_[to].in.push_back({from, tags_++});
  }
  void join_by_four(std::vector<std::size_t> from) {
    while (from.size() > 1) {
      const auto to = layer((from.size() + 3) / 4);
      for (std::size_t i = 0; i < from.size(); ++i) connect(from[i], to[i / 4]);
      from = to;
    }
  }
  void shuffle(std::size_t width) {
    auto from = layer(width);
    for (std::size_t bit = 1; bit < width; bit *= 2) {
      const auto to = layer(width);
      for (std::size_t i = 0; i < width; ++i) {
        connect(from[i], to[i]);
        connect(from[i], to[i ^ bit]);
      }
      from = to;
    }
  }
  void turn_around() {
    const std::size_t last = nodes_.size() - 1;
    std::vector<Node> turned(nodes_.size());
    for (std::size_t n = 0; n < nodes_.size(); ++n) {
      turned[last - n] = {std::move(nodes_[n].out), std::move(nodes_[n].in)};
    }
    nodes_ = std::move(turned);
    for (Node& node : nodes_) {
      for (auto* edges : {&node.in, &node.out}) {
        for (Edge& edge : *edges) edge.node = last - edge.node;
      }
    }
  }

  std::size_t numbers_;
  std::vector<Node> nodes_;
  std::uint32_t tags_ = 0;
};

int owner(std::size_t node, int ranks) {
  return static_cast<int>(node % static_cast<unsigned>(ranks));
}

// Runs a node. False: a rank has died.
bool live(const Traffic& traffic, std::size_t number, lci::Communicator& all,
          std::atomic<std::uint64_t>& sum) {
  const Node& node = traffic.nodes()[number];
  Array data = node.in.empty() ? traffic.source(number) : Array(traffic.numbers(), 0);
  Array came(traffic.numbers());
  for (const Edge& edge : node.in) {
    const auto bytes = std::as_writable_bytes(std::span(came));
    if (!all.receive(owner(edge.node, all.size()), edge.tag, bytes)) return false;
    Traffic::add(data, came);
  }
  for (const Edge& edge : node.out) {
    const auto bytes = std::as_bytes(std::span(data));
    if (!all.send(owner(edge.node, all.size()), edge.tag, bytes)) return false;
  }
  // relaxed: the sum is read after all tasks have been joined.
  if (node.out.empty()) sum.fetch_add(Traffic::digest(data), std::memory_order_relaxed);
  return true;
}

bool flow(const Traffic& traffic, lci::Communicator& all, std::uint64_t& mine) {
  auto scheduler = ult::Scheduler::start({.workers = 1});
  if (!scheduler) return false;
  std::atomic<bool> stop{false};
  auto server = scheduler->spawn([&] { lci::serve(all.device(), stop); });
  std::atomic<std::uint64_t> sum{0};
  std::atomic<bool> well{true};
  const auto ran = scheduler->run([&] {
    ult::Group nodes;
    for (std::size_t n = 0; n < traffic.nodes().size(); ++n) {
      if (owner(n, all.size()) != all.rank()) continue;
      nodes.spawn([&, n] {
        if (!live(traffic, n, all, sum)) well = false;
      });
    }
    (void)nodes.wait();
  });
  stop = true;
  (void)server->join();
  mine = sum;
  return ran.ok() && well;
}

int fail(const char* what) {
  std::fprintf(stderr, "traffic: %s\n", what);
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string pattern = argc > 1 ? argv[1] : "";
  const auto width = argc > 2 ? static_cast<std::size_t>(std::atoll(argv[2])) : 16;
  const auto numbers = argc > 3 ? static_cast<std::size_t>(std::atoll(argv[3])) : 4096;
  const bool known = pattern == "black-hole" || pattern == "white-hole" || pattern == "shuffle";
  if (!known || argc > 4 || !std::has_single_bit(width) || numbers == 0) {
    std::fprintf(stderr, "usage: traffic black-hole|white-hole|shuffle [WIDTH [NUMBERS]]\n");
    return 2;
  }
  const Traffic traffic(pattern, width, numbers);
  auto job = lci::Job::join();
  if (!job) return fail("no job");
  auto device = lci::Device::open(*job);
  if (!device) return fail("no network");
  auto all = lci::Communicator::open(*device);
  if (!all || !all->barrier()) return fail("no communicator");
  std::uint64_t sum = 0;
  const auto start = std::chrono::steady_clock::now();
  if (!flow(traffic, *all, sum)) return fail("a rank has died");
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  if (!all->all_reduce(std::span(&sum, 1), std::plus<std::uint64_t>{})) return fail("a rank died");
  const bool right = sum == traffic.serial();
  if (all->rank() == 0) {
    std::printf("%s %zu wide, %zu nodes, %zu numbers, %d ranks: %s, %.3f ms\n", pattern.c_str(),
                width, traffic.nodes().size(), numbers, all->size(), right ? "right" : "WRONG",
                1e3 * spent.count());
  }
  return right ? 0 : 1;
}
