// SPDX-License-Identifier: BSD-3-Clause
// Executes a test once for each order in which the messages of a few ranks may arrive and their
// tasks may end. Each execution takes its choices from a list. A depth-first search over the
// choices gives the lists. A single thread executes all orders.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace mh::tasks {

class Choices {
 public:
  // Lets all later choices be random. Random orders find frequent faults sooner, but do not prove
  // that there is none.
  void at_random(std::uint64_t seed) {
    random_ = std::mt19937_64(seed);
    is_random_ = true;
  }
  // Returns the next choice of this execution: a number from 0 to `of` - 1.
  std::size_t choose(std::size_t of) {
    if (is_random_) return random_() % of;
    if (depth_ == path_.size()) path_.push_back({0, of});
    return path_[depth_++].taken;
  }
  // Changes the list of choices for the next execution. Returns false if all lists have been tried.
  bool next() {
    path_.resize(depth_);
    depth_ = 0;
    while (!path_.empty() && path_.back().taken + 1 == path_.back().of) path_.pop_back();
    if (path_.empty()) return false;
    ++path_.back().taken;
    return true;
  }

 private:
  struct Choice {
    std::size_t taken;
    std::size_t of;
  };
  std::vector<Choice> path_;
  std::size_t depth_ = 0;
  std::mt19937_64 random_;
  bool is_random_ = false;
};

struct Found {
  std::string failure;  // empty: no failure
  std::uint64_t executions = 0;
  bool complete = false;
};

// Runs World::run(choices) in a new World for each order, for at most `most` orders. Stops at the
// first failure that run() returns.
template <class World>
Found all_orders(std::uint64_t most) {
  Choices choices;
  Found found;
  do {
    World world;
    found.failure = world.run(choices);
    ++found.executions;
    found.complete = found.failure.empty() && !choices.next();
  } while (found.failure.empty() && !found.complete && found.executions < most);
  return found;
}

// Runs `most` random orders, each in a new World. Returns the first failure, or an empty text if
// there is none.
template <class World>
std::string some_orders(std::uint64_t most) {
  std::string failure;
  for (std::uint64_t seed = 0; seed < most && failure.empty(); ++seed) {
    Choices choices;
    choices.at_random(seed);
    failure = World().run(choices);
  }
  return failure;
}

}  // namespace mh::tasks
