// SPDX-License-Identifier: BSD-3-Clause
// Unbalanced Tree Search over messages of LCI, without MPI. A rank without work sends a request to
// a random rank, which returns the older half of its work. A token detects termination.
//
//   mpiexec -n 2 ./uts-messages TREE
//
// Prints nodes, leaves and depth, compared with the published numbers, and the number of transfers
// of work.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "manyhands/lci.hpp"
#include "manyhands/ult.hpp"
#include "tree.hpp"

namespace {

namespace lci = mh::lci;

void check(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "uts-messages: %s\n", what);
  std::exit(1);
}

enum Tag : std::uint32_t { request, work, token, end };

constexpr std::size_t kMostGiven = 128;  // most nodes in a message
constexpr int kBetweenLooks = 32;        // nodes between two polls for messages

// The token of Safra's termination detection, which travels from rank to rank while they are idle.
// `messages` is the sum, over the ranks that it has visited in this round, of messages with work
// that they have sent less those that they have received. `black` is 1 if one of these ranks has
// received work since the token's previous visit.
struct Token {
  std::int64_t messages;
  std::uint64_t black;
};

class Search {
 public:
  Search(const uts::Tree& tree, lci::Device& device, lci::Queue& queue)
      : tree_(tree), device_(device), queue_(queue), random_(static_cast<unsigned>(device.rank())) {
    if (device.rank() != 0) return;
    left_.push_back(uts::root_of(tree));
    has_token_ = true;
    token_ = {0, 1};  // black, so the token's first round cannot end the search
  }

  void run() {
    for (int until_look = 0; !ended_;) {
      if (!left_.empty() && --until_look > 0) {
        visit();
        continue;
      }
      until_look = kBetweenLooks;
      look();
      if (left_.empty()) be_idle();
    }
  }

  std::uint64_t nodes = 0;
  std::uint64_t leaves = 0;
  std::uint64_t given = 0;
  std::uint32_t depth = 0;

 private:
  void visit() {
    const uts::Node node = left_.back();
    left_.pop_back();
    ++nodes;
    depth = std::max(depth, node.depth);
    const std::uint32_t children = uts::children_of(tree_, node);
    if (children == 0) ++leaves;
    for (std::uint32_t i = 0; i < children; ++i) left_.push_back(uts::child_of(node, i));
  }

  void be_idle() {
    if (device_.size() == 1) {
      ended_ = true;
      return;
    }
    if (has_token_) pass_token();
    if (!ended_ && !asked_) {
      asked_ = true;
      const auto others = static_cast<unsigned>(device_.size() - 1);
      const auto step = static_cast<int>(1 + random_() % others);
      send((device_.rank() + step) % device_.size(), request, {});
    }
    mh::ult::yield();
  }

  void pass_token() {
    if (device_.rank() == 0) {
      if (token_.black == 0 && !black_ && token_.messages + messages_ == 0) {
        for (int rank = 1; rank < device_.size(); ++rank) send(rank, end, {});
        ended_ = true;
        return;
      }
      token_ = {0, 0};
    } else {
      token_.messages += messages_;
      if (black_) token_.black = 1;
    }
    black_ = false;
    has_token_ = false;
    const int next = (device_.rank() + 1) % device_.size();
    send(next, token, std::as_bytes(std::span(&token_, 1)));
  }

  // Handles all messages that have arrived: requests, work, the token, the end. Messages that
  // arrive while send() waits are only queued, and this function handles them later.
  void look() {
    take_in();
    while (!come_.empty()) {
      const lci::Message message = std::move(come_.front());
      come_.pop_front();
      check(message.status().ok(), "a rank has died");
      use(message);
    }
  }

  void use(const lci::Message& message) {
    switch (message.tag()) {
      case request:
        give(message.rank());
        break;
      case work:
        take(message);
        break;
      case token:
        std::memcpy(&token_, message.data(), sizeof token_);
        has_token_ = true;
        break;
      default:
        ended_ = true;
    }
  }

  // Answers a request for work: sends the older half of this rank's unvisited nodes, at most
  // kMostGiven, to rank `to`. The message is empty if there is no node to give.
  void give(int to) {
    const std::size_t count = std::min(left_.size() / 2, kMostGiven);
    const auto last = left_.begin() + static_cast<std::ptrdiff_t>(count);
    const std::vector<uts::Node> nodes_given(left_.begin(), last);
    left_.erase(left_.begin(), last);
    if (count != 0) {
      ++messages_;
      ++given;
    }
    send(to, work, std::as_bytes(std::span(nodes_given)));
  }

  void take(const lci::Message& message) {
    asked_ = false;
    if (message.size() == 0) return;
    --messages_;
    black_ = true;
    std::vector<uts::Node> got(message.size() / sizeof(uts::Node));
    std::memcpy(got.data(), message.data(), message.size());
    left_.insert(left_.begin(), got.begin(), got.end());
  }

  // Sends a message, and queues arriving messages while it waits. Returns when the caller may
  // change `data`.
  void send(int to, Tag tag, std::span<const std::byte> data) {
    std::atomic<std::uint32_t> sent{0};
    for (;;) {
      const lci::Answer answer = queue_.send_enqueue(to, tag, data, &sent);
      check(!answer.is_error(), "a rank has died");
      if (answer.is_done()) return;
      if (answer.is_posted()) break;
      take_in();
    }
    while (sent.load(std::memory_order_acquire) == 0) take_in();
  }

  void take_in() {
    device_.progress();
    while (auto message = queue_.receive_dequeue()) come_.push_back(std::move(*message));
  }

  const uts::Tree& tree_;
  lci::Device& device_;
  lci::Queue& queue_;
  std::minstd_rand random_;
  std::deque<uts::Node> left_;
  std::deque<lci::Message> come_;
  Token token_{};
  std::int64_t messages_ = 0;  // messages with work: sent less received
  bool has_token_ = false;
  bool black_ = false;
  bool asked_ = false;
  bool ended_ = false;
};

struct Larger {
  std::uint64_t operator()(std::uint64_t a, std::uint64_t b) const { return std::max(a, b); }
};

void report(const uts::Tree& tree, const Search& search, lci::Communicator& all) {
  std::vector<std::uint64_t> counts{search.nodes, search.leaves, search.given};
  std::uint64_t depth = search.depth;
  check(all.all_reduce(std::span(counts), std::plus<std::uint64_t>{}).ok() &&
            all.all_reduce(std::span(&depth, 1), Larger{}).ok(),
        "a rank has died");
  if (all.rank() != 0) return;
  std::printf("nodes %llu leaves %llu depth %llu\n", static_cast<unsigned long long>(counts[0]),
              static_cast<unsigned long long>(counts[1]), static_cast<unsigned long long>(depth));
  if (tree.nodes != 0) {
    std::puts(counts[0] == tree.nodes && depth == tree.max_depth ? "as published"
                                                                 : "NOT as published");
  }
  std::printf("work moved %llu times\n", static_cast<unsigned long long>(counts[2]));
}

}  // namespace

int main(int argc, char** argv) {
  const uts::Tree* tree = argc == 2 ? uts::find_tree(argv[1]) : nullptr;
  if (tree == nullptr) {
    std::fprintf(stderr, "usage: uts-messages TREE, one of:");
    for (const uts::Tree& each : uts::kTrees) std::fprintf(stderr, " %s", each.name.data());
    std::fprintf(stderr, "\n");
    return 2;
  }
  auto job = lci::Job::join();
  check(job.ok(), "no job");
  auto device = lci::Device::open(*job);
  check(device.ok(), "no network");
  auto all = lci::Communicator::open(*device);
  auto queue = lci::Queue::open(*device);
  check(all.ok() && queue.ok(), "no memory");
  Search search(*tree, *device, *queue);
  search.run();
  report(*tree, search, *all);
}
