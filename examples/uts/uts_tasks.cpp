// SPDX-License-Identifier: BSD-3-Clause
// Unbalanced Tree Search by blocking messages, after section 5.4.3 of the dissertation on LCI.
// Several tasks of a rank explore the tree, each with nodes of its own, and share nodes through a
// pool. When the pool is empty, one task asks another rank for nodes. Further tasks wait for the
// requests of the other ranks, one for each rank, and one waits for the token that detects
// termination. ../blocking.hpp has the three ways to run the tasks.
//
//   uts-tasks lci|mpi-tasks|mpi-threads WORKERS TREE
//
// Each rank has WORKERS exploring tasks on as many workers, or as many threads. Prints nodes,
// leaves and depth, compared with the published numbers, the number of transfers of nodes between
// ranks, and the seconds of the search.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "../blocking.hpp"
#include "tree.hpp"

namespace {

namespace ult = mh::ult;
using Nodes = std::vector<uts::Node>;
using Stack = std::deque<uts::Node>;  // nodes of one task; the newest is at the end

enum Tag : std::uint32_t { request, work, token };
enum Request : std::uint8_t { more, no_more };

constexpr std::size_t kMostGiven = 128;  // most nodes that one task or rank gives at a time
constexpr int kBetweenLooks = 32;        // nodes between two looks at the pool

// The token of Safra's termination detection, as in uts_messages.cpp. `ended` is 1 in its last
// round.
struct Token {
  std::int64_t messages;
  std::uint32_t black;
  std::uint32_t ended;
};

struct alignas(64) Counts {
  std::int64_t nodes = 0;
  std::int64_t leaves = 0;
  std::uint32_t depth = 0;
};

// The nodes of a rank that any of its tasks may take, and what Safra's algorithm counts. A task
// that has to wait for a change sleeps on one of the semaphores.
class Pool {
 public:
  explicit Pool(unsigned explorers) : explorers_(explorers) {}

  [[nodiscard]] bool is_empty() const { return size_.load(std::memory_order_relaxed) == 0; }

  // Adds nodes that a task of this rank gives away.
  void share(std::span<const uts::Node> nodes) {
    const std::lock_guard guard(lock_);
    add(nodes);
  }
  // Adds nodes that another rank has sent.
  void add_received(std::span<const uts::Node> nodes) {
    const std::lock_guard guard(lock_);
    --messages_;
    black_ = true;
    add(nodes);
  }
  // Takes nodes for another rank; none if the pool is empty.
  Nodes take_for_rank() {
    const std::lock_guard guard(lock_);
    Nodes taken;
    take(taken);
    if (!taken.empty()) ++messages_;
    return taken;
  }
  // Takes nodes for an exploring task, and waits while there are none. False: the search has ended.
  bool obtain(Stack& own) {
    for (;; explorer_sleep_.acquire()) {
      const std::lock_guard guard(lock_);
      if (take(own)) return true;
      if (ended_) return false;
      ++waiting_;
      wake(asker_waits_, asker_sleep_);
      if (waiting_ == explorers_) wake(token_waits_, token_sleep_);
    }
  }
  // Waits until an exploring task waits for nodes. False: the search has ended.
  bool wait_for_need() {
    for (;; asker_sleep_.acquire()) {
      const std::lock_guard guard(lock_);
      if (ended_) return false;
      if (waiting_ != 0 && nodes_.empty()) return true;
      asker_waits_ = true;
    }
  }
  // Waits until this rank has no node left. Then adds the rank's part to the token. Returns whether
  // the whole round, with this rank as its first and last, has found no work anywhere.
  bool add_to(Token& token) {
    for (;; token_sleep_.acquire()) {
      const std::lock_guard guard(lock_);
      token_waits_ = waiting_ != explorers_ || !nodes_.empty();
      if (token_waits_) continue;
      token.messages += messages_;
      token.black |= black_ ? 1U : 0U;
      black_ = false;
      return token.black == 0 && token.messages == 0;
    }
  }
  void end() {
    const std::lock_guard guard(lock_);
    ended_ = true;
    explorer_sleep_.release(std::exchange(waiting_, 0));
    wake(asker_waits_, asker_sleep_);
  }

 private:
  static void wake(bool& waits, ult::Semaphore& sleep) {
    if (std::exchange(waits, false)) sleep.release();
  }
  void add(std::span<const uts::Node> nodes) {
    nodes_.insert(nodes_.end(), nodes.begin(), nodes.end());
    resized();
  }
  template <class Container>
  bool take(Container& to) {
    const std::size_t count = std::min((nodes_.size() + 1) / 2, kMostGiven);
    const auto last = nodes_.begin() + static_cast<std::ptrdiff_t>(count);
    to.insert(to.end(), nodes_.begin(), last);
    nodes_.erase(nodes_.begin(), last);
    resized();
    return count != 0;
  }
  void resized() {
    size_.store(nodes_.size(), std::memory_order_relaxed);
    if (waiting_ == 0) return;
    if (nodes_.empty()) return wake(asker_waits_, asker_sleep_);
    --waiting_;
    explorer_sleep_.release();
  }

  const unsigned explorers_;
  std::atomic<std::size_t> size_{0};  // of nodes_; relaxed: is_empty() is a guess
  ult::Mutex lock_;                   // guards all below
  Nodes nodes_;
  unsigned waiting_ = 0;  // exploring tasks that wait and have not been woken
  bool asker_waits_ = false;
  bool token_waits_ = false;
  bool black_ = false;         // received work since the token's previous visit
  bool ended_ = false;         // no rank has a node left
  std::int64_t messages_ = 0;  // messages with work: sent less received
  ult::Semaphore explorer_sleep_{0};
  ult::Semaphore asker_sleep_{0};
  ult::Semaphore token_sleep_{0};
};

class Search {
 public:
  Search(const uts::Tree& tree, blocking::Way& way, unsigned explorers)
      : tree_(tree), way_(way), pool_(explorers), counts_(explorers) {}

  void run() {
    if (way_.rank() == 0) pool_.share(std::array{uts::root_of(tree_)});
    blocking::Jobs jobs;
    for (Counts& counts : counts_) jobs.emplace_back([&] { explore(counts); });
    jobs.emplace_back([this] { pass_token(); });
    if (way_.size() > 1) jobs.emplace_back([this] { ask(); });
    for (int rank = 0; rank < way_.size(); ++rank) {
      if (rank != way_.rank()) jobs.emplace_back([this, rank] { answer(rank); });
    }
    way_.run(jobs);
  }

  // Collective. Returns the nodes and leaves of all ranks together; the depth is this rank's only.
  Counts total() {
    Counts all;
    for (const Counts& counts : counts_) {
      all.nodes += counts.nodes;
      all.leaves += counts.leaves;
      all.depth = std::max(all.depth, counts.depth);
    }
    all.nodes = way_.sum(all.nodes);
    all.leaves = way_.sum(all.leaves);
    return all;
  }
  [[nodiscard]] std::int64_t given() const { return given_; }

 private:
  void explore(Counts& counts) {
    Stack own;
    while (pool_.obtain(own)) {
      for (int until_look = kBetweenLooks; !own.empty();) {
        visit(own, counts);
        if (--until_look > 0) continue;
        until_look = kBetweenLooks;
        if (pool_.is_empty()) share(own);
        way_.yield();
      }
    }
  }

  void visit(Stack& own, Counts& counts) {
    const uts::Node node = own.back();
    own.pop_back();
    ++counts.nodes;
    counts.depth = std::max(counts.depth, node.depth);
    const std::uint32_t children = uts::children_of(tree_, node);
    if (children == 0) ++counts.leaves;
    for (std::uint32_t i = 0; i < children; ++i) own.push_back(uts::child_of(node, i));
  }

  // Gives the pool the older half of a task's nodes, at most kMostGiven of them.
  void share(Stack& own) {
    const auto count = static_cast<std::ptrdiff_t>(std::min(own.size() / 2, kMostGiven));
    if (count == 0) return;
    pool_.share(Nodes(own.begin(), own.begin() + count));
    own.erase(own.begin(), own.begin() + count);
  }

  // The body of the task that asks other ranks for nodes.
  void ask() {
    std::minstd_rand random(static_cast<unsigned>(way_.rank()));
    Nodes come(kMostGiven);
    while (pool_.wait_for_need()) {
      const auto step = static_cast<int>(1 + random() % static_cast<unsigned>(way_.size() - 1));
      const int from = (way_.rank() + step) % way_.size();
      send_request(from, more);
      const std::size_t bytes = way_.receive(from, work, std::as_writable_bytes(std::span(come)));
      const auto nodes = std::span(come).first(bytes / sizeof(uts::Node));
      if (!nodes.empty()) pool_.add_received(nodes);
      way_.yield();
    }
    for (int rank = 0; rank < way_.size(); ++rank) {
      if (rank != way_.rank()) send_request(rank, no_more);
    }
  }

  void send_request(int rank, Request what) {
    way_.send(rank, request, std::as_bytes(std::span(&what, 1)));
  }

  // The body of the task that answers the requests for nodes that rank `rank` sends.
  void answer(int rank) {
    for (Request what = more;;) {
      way_.receive(rank, request, std::as_writable_bytes(std::span(&what, 1)));
      if (what == no_more) return;
      const Nodes nodes = pool_.take_for_rank();
      given_ += nodes.empty() ? 0 : 1;
      way_.send(rank, work, std::as_bytes(std::span(nodes)));
    }
  }

  // The body of the task that passes the token. Rank 0 begins the rounds. The token comes back
  // black in the first round, so no search ends before each rank has had it.
  void pass_token() {
    const bool first = way_.rank() == 0;
    const int next = (way_.rank() + 1) % way_.size();
    const int previous = (way_.rank() + way_.size() - 1) % way_.size();
    Token visitor{0, 1, 0};
    for (bool there = first;; there = false) {
      if (!there && way_.size() > 1) {
        way_.receive(previous, token, std::as_writable_bytes(std::span(&visitor, 1)));
      }
      if (visitor.ended == 0) {
        const bool over = pool_.add_to(visitor);
        if (first) visitor = {0, 0, over ? 1U : 0U};
      }
      const bool ended = visitor.ended != 0;
      if (ended) pool_.end();
      if (way_.size() > 1 && !(ended && next == 0)) {
        way_.send(next, token, std::as_bytes(std::span(&visitor, 1)));
      }
      if (ended) return;
    }
  }

  const uts::Tree& tree_;
  blocking::Way& way_;
  Pool pool_;
  std::vector<Counts> counts_;
  std::atomic<std::int64_t> given_{0};  // all answering tasks add to it; read after run()
};

void print(const uts::Tree& tree, const Counts& all, std::uint32_t depth, std::int64_t given,
           double seconds) {
  std::printf("nodes %lld leaves %lld depth %u\n", static_cast<long long>(all.nodes),
              static_cast<long long>(all.leaves), depth);
  if (tree.nodes != 0) {
    const bool same =
        static_cast<std::uint64_t>(all.nodes) == tree.nodes && depth == tree.max_depth;
    std::puts(same ? "as published" : "NOT as published");
  }
  std::printf("work moved %lld times, %.3f s\n", static_cast<long long>(given), seconds);
}

}  // namespace

int main(int argc, char** argv) {
  const int workers = argc == 4 ? std::atoi(argv[2]) : 0;
  const uts::Tree* tree = workers > 0 && workers <= 64 ? uts::find_tree(argv[3]) : nullptr;
  const auto way =
      tree == nullptr ? nullptr : blocking::open_way(argv[1], static_cast<unsigned>(workers));
  if (way == nullptr) {
    std::fprintf(stderr, "usage: uts-tasks lci|mpi-tasks|mpi-threads WORKERS TREE, one of:");
    for (const uts::Tree& each : uts::kTrees) std::fprintf(stderr, " %s", each.name.data());
    std::fprintf(stderr, "\n");
    return 2;
  }
  Search search(*tree, *way, static_cast<unsigned>(workers));
  (void)way->sum(0);
  const auto start = std::chrono::steady_clock::now();
  search.run();
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  const Counts all = search.total();
  const std::int64_t depth = way->most(all.depth);
  const std::int64_t given = way->sum(search.given());
  if (way->rank() == 0) {
    print(*tree, all, static_cast<std::uint32_t>(depth), given, spent.count());
  }
}
