// SPDX-License-Identifier: BSD-3-Clause
// The search of Graph500 by blocking messages, after section 5.4.2 of the dissertation on LCI. The
// vertices of a rank belong to several processing tasks. Further tasks wait for messages, one for
// each processing task of each other rank. ../blocking.hpp has the three ways to run the tasks.
//
//   receiving-tasks lci|mpi-tasks|mpi-threads WORKERS SCALE [ROOTS]
//
// Each rank has WORKERS processing tasks on as many workers, or as many threads. The trees are
// checked by the five rules of Graph500. Rank 0 prints the rate and the result of the check.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "../blocking.hpp"
#include "graph500.hpp"

namespace {

using graph::Tree;
using graph::Vertex;
using Proposal = graph::Update<Vertex>;  // a vertex of the receiving rank, and a parent for it

// A message: the proposals of one processing task to another rank.
struct Batch {
  static constexpr std::size_t kMost = 500;
  std::uint32_t count = 0;
  std::uint32_t of = 0;  // in the last message of a level the number of its messages; else 0
  std::array<Proposal, kMost> proposals;

  [[nodiscard]] std::span<const std::byte> bytes() const {
    return std::as_bytes(std::span(this, 1))
        .first(sizeof(std::uint32_t) * 2 + count * sizeof(Proposal));
  }
};

class Search {
 public:
  Search(const graph::Partition& partition, blocking::Way& way, unsigned workers)
      : partition_(partition),
        way_(way),
        workers_(workers),
        lanes_(workers),
        barrier_(workers * static_cast<unsigned>(way.size())) {}

  // Collective. Returns the tree, in which the entries of this rank's vertices are complete.
  Tree run(Vertex root) {
    const Vertex vertices = partition_.edges().vertices;
    tree_ = {root, std::vector<Vertex>(vertices, graph::kNobody),
             std::vector<std::uint32_t>(vertices, graph::kFar)};
    if (partition_.is_mine(root) && claim(root, root, 0)) lane_of(root).next.push_back(root);
    begin_level();
    blocking::Jobs jobs;
    for (unsigned worker = 0; worker < workers_; ++worker) {
      jobs.emplace_back([this, worker] { process(worker); });
      for (int from = 0; from < way_.size(); ++from) {
        if (from != way_.rank()) jobs.emplace_back([=, this] { receive(from, worker); });
      }
    }
    way_.run(jobs);
    return std::move(tree_);
  }

 private:
  // The vertices of one processing task.
  struct alignas(64) Lane {
    std::vector<Vertex> active;
    mh::ult::SpinLock lock;    // guards `next`, to which all tasks of the rank append
    std::vector<Vertex> next;  // active in the next level
  };
  using Found = std::vector<std::vector<Vertex>>;  // by lane: vertices that a task has reached

  Lane& lane_of(Vertex v) { return lanes_[v % workers_]; }

  // Gives `v` the parent `from`, or returns false if `v` has a parent. For a vertex of another rank
  // this parent is a proposal, which the caller sends. relaxed: other tasks read the tree only
  // after the barrier at the end of the level.
  bool claim(Vertex v, Vertex from, std::uint32_t level) {
    std::atomic_ref<Vertex> parent(tree_.parent[v]);
    Vertex nobody = parent.load(std::memory_order_relaxed);
    if (nobody != graph::kNobody) return false;
    if (!parent.compare_exchange_strong(nobody, from, std::memory_order_relaxed)) return false;
    tree_.level[v] = level;
    return true;
  }

  void process(unsigned worker) {
    std::vector<Batch> out(static_cast<std::size_t>(way_.size()));
    for (std::uint32_t level = 1; left_ != 0; ++level) {
      std::vector<std::uint32_t> sent(out.size(), 0);
      Found found(workers_);
      const graph::Graph& edges = partition_.edges();
      for (const Vertex u : lanes_[worker].active) {
        for (auto i = edges.first[u]; i < edges.first[u + 1]; ++i) {
          const Vertex v = edges.neighbours[i];
          if (!claim(v, u, level)) continue;
          if (partition_.is_mine(v)) {
            found[v % workers_].push_back(v);
          } else {
            propose({v, u}, worker, out, sent);
          }
        }
      }
      send_last(worker, out, sent);
      end_level(found);
    }
  }

  void propose(Proposal proposal, unsigned worker, std::vector<Batch>& out,
               std::vector<std::uint32_t>& sent) {
    const int to = partition_.blocks().owner(proposal.vertex);
    Batch& batch = out[static_cast<std::size_t>(to)];
    batch.proposals[batch.count++] = proposal;
    if (batch.count < Batch::kMost) return;
    ++sent[static_cast<std::size_t>(to)];
    way_.send(to, worker, batch.bytes());
    batch.count = 0;
  }

  // Sends this task's last batch of a level to each other rank. The batch has the number of all
  // batches from this task in the level, since messages of LCI may overtake each other.
  void send_last(unsigned worker, std::vector<Batch>& out, const std::vector<std::uint32_t>& sent) {
    for (int step = 1; step < way_.size(); ++step) {
      const int to = (way_.rank() + step) % way_.size();
      Batch& batch = out[static_cast<std::size_t>(to)];
      batch.of = sent[static_cast<std::size_t>(to)] + 1;
      way_.send(to, worker, batch.bytes());
      batch.count = batch.of = 0;
    }
  }

  // The body of a task that waits for messages of the processing task `worker` of rank `from`.
  void receive(int from, unsigned worker) {
    const auto batch = std::make_unique<Batch>();
    for (std::uint32_t level = 1; left_ != 0; ++level) {
      Found found(workers_);
      std::uint32_t of = 0;
      for (std::uint32_t come = 0; of == 0 || come < of; ++come) {
        way_.receive(from, worker, std::as_writable_bytes(std::span(batch.get(), 1)));
        of = std::max(of, batch->of);
        for (const Proposal& p : std::span(batch->proposals).first(batch->count)) {
          if (claim(p.vertex, p.value, level)) found[p.vertex % workers_].push_back(p.vertex);
        }
      }
      end_level(found);
    }
  }

  // Adds the reached vertices to their lanes, which process them in the next level. Returns when
  // all ranks are ready for that level.
  void end_level(const Found& found) {
    for (unsigned i = 0; i < workers_; ++i) {
      const std::lock_guard guard(lanes_[i].lock);
      lanes_[i].next.insert(lanes_[i].next.end(), found[i].begin(), found[i].end());
    }
    if (barrier_.wait()) begin_level();
    barrier_.wait();
  }

  // Collective. Counts the active vertices of all ranks in `left_`. One task of a rank calls while
  // the rank's other tasks wait.
  void begin_level() {
    std::size_t mine = 0;
    for (Lane& lane : lanes_) {
      lane.active.swap(lane.next);
      lane.next.clear();
      mine += lane.active.size();
    }
    left_ = way_.sum(static_cast<std::int64_t>(mine));
  }

  const graph::Partition& partition_;
  blocking::Way& way_;
  const unsigned workers_;
  std::vector<Lane> lanes_;
  mh::ult::Barrier barrier_;  // orders the levels: claims, lanes and `left_`
  Tree tree_{};
  std::int64_t left_ = 0;  // active vertices of all ranks
};

// Collective. Makes the tree complete at every rank: each rank in turn sends its vertices' entries.
template <class Value>
void complete(const graph::Blocks& blocks, blocking::Way& way, std::vector<Value>& values) {
  for (int from = 0; from < way.size(); ++from) {
    const std::span part(values.data() + blocks.first(from),
                         blocks.first(from + 1) - blocks.first(from));
    for (int to = 0; to < way.size(); ++to) {
      if (to == from) continue;
      if (way.rank() == from) way.send(to, 0, std::as_bytes(part));
      if (way.rank() == to) way.receive(from, 0, std::as_writable_bytes(part));
    }
  }
}

// Collective. Searches from all roots and checks the trees. Returns the violations of all ranks.
std::int64_t search_all(const graph::Graph& g, blocking::Way& way, unsigned workers, int roots) {
  const graph::Partition partition(g, graph::Cut::edges, way.rank(), way.size());
  Search search(partition, way, workers);
  double seconds_an_edge = 0;
  std::int64_t wrong = 0;
  const std::vector<Vertex> from = graph::draw_roots(g, roots);
  for (const Vertex root : from) {
    (void)way.sum(0);
    const auto start = std::chrono::steady_clock::now();
    Tree tree = search.run(root);
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    complete(partition.blocks(), way, tree.parent);
    complete(partition.blocks(), way, tree.level);
    const auto found = graph::violations(g, tree, partition.low(), partition.high());
    wrong += way.sum(static_cast<std::int64_t>(found.all()));
    seconds_an_edge += spent.count() / static_cast<double>(graph::edges_of(g, tree));
  }
  if (way.rank() == 0) {
    std::printf("%zu searches, %.0f edges/s (harmonic mean), %s\n", from.size(),
                static_cast<double>(from.size()) / seconds_an_edge, wrong == 0 ? "right" : "WRONG");
  }
  return wrong;
}

}  // namespace

int main(int argc, char** argv) {
  const int workers = argc > 2 ? std::atoi(argv[2]) : 0;
  const int scale = argc > 3 ? std::atoi(argv[3]) : 0;
  const int roots = argc > 4 ? std::atoi(argv[4]) : 8;
  const bool counts = workers > 0 && workers <= 64 && scale > 0 && scale <= 30 && roots > 0;
  const auto way = counts ? blocking::open_way(argv[1], static_cast<unsigned>(workers)) : nullptr;
  if (way == nullptr) {
    std::fprintf(stderr,
                 "usage: receiving-tasks lci|mpi-tasks|mpi-threads WORKERS SCALE [ROOTS]\n");
    return 2;
  }
  const graph::Graph g = graph::recursive(static_cast<unsigned>(scale), 16, graph::kKronecker, 1);
  return search_all(g, *way, static_cast<unsigned>(workers), roots) == 0 ? 0 : 1;
}
