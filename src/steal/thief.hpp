// SPDX-License-Identifier: BSD-3-Clause
// The hands: taking one chunk of a job and copying it, for oneself or for a neighbour.
//
// Words: a *victim* is the rank whose job is helped. One call of help() looks at one victim on this
// NUMA node and, by strategy, at one on another (CAB-MPI, III-C), takes at most one chunk and
// returns, so that the caller can look at its own message after every unit. Belongs to one thread;
// takes no lock, does not allocate after construction, never calls MPI.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/result.hpp"
#include "base/settings.hpp"
#include "memory/reach.hpp"
#include "node/node.hpp"
#include "observe/counters.hpp"
#include "steal/slots.hpp"

namespace mh::steal {

// Where things of a rank lie inside its area of the node segment.
struct AreaOffsets {
  std::size_t slots;     // JobSlots
  std::size_t counters;  // observe::Counters
  std::size_t helped;    // observe::HelpedRow, one cell per rank of the node
};

class Thief {
 public:
  // After node.settle(). Node and reach must outlive the thief.
  Thief(const node::Node& node, const AreaOffsets& offsets, Strategy strategy,
        std::uint64_t saturate_ranks, const memory::Reach& reach);

  // Takes one chunk of the job of `owner` (this rank included) and copies it. False: none was left,
  // or too many threads of this rank have chunks in hand.
  bool run_one_chunk(Job& job, std::uint32_t owner);
  // As run_one_chunk(), for the thread that waits for this job: it needs no word to itself that it
  // has a chunk.
  bool run_own_chunk(Job& job);

  // One chunk for one victim by the strategy; never for this rank itself. False: there was none.
  // Nobody has work: one or two loads (the work board).
  bool help();

  // One chunk of any open job of that rank.
  bool help_rank(std::uint32_t victim);

  // The same of work that is no job: `chunk` of it.
  Status copy_chunk(const Work& work, const Shapes* shapes, const Chunk& chunk);

  // Whether the strategy lets this rank take a hand in copies of that one, just now.
  [[nodiscard]] bool may_help(std::uint32_t victim) const;

  // A copy between two other processes was refused: this thief no longer helps jobs that need one.
  [[nodiscard]] bool retired() const { return retired_; }

 private:
  static constexpr std::size_t kWords = node::kMaxRanks / 64;
  using Mask = std::array<std::uint64_t, kWords>;
  static constexpr std::uint32_t kNobody = UINT32_MAX;

  [[nodiscard]] JobSlots& slots_of(std::uint32_t rank) const;
  // A random one of the posted ranks of `mask`, or kNobody.
  std::uint32_t pick(const Mask& mask);
  std::uint32_t random();
  [[nodiscard]] bool remote_allowed(std::uint32_t victim) const;
  bool claim_and_copy(Job& job, std::uint32_t owner);
  Status copy_scattered(const Work& work, const Shapes& shapes, const Chunk& chunk);
  // This thread's, or `little` where there was no memory for it.
  [[nodiscard]] std::span<std::byte> scratch(std::span<std::byte> little) const;
  void count(const Work& work, const Chunk& chunk, std::uint32_t owner, std::uint64_t spent_ticks);

  const node::Node* node_;
  AreaOffsets offsets_;
  Strategy strategy_;
  std::uint64_t saturate_ranks_;
  observe::Counters* counters_;
  observe::HelpedRow helped_;
  Mask local_{};
  Mask remote_{};
  std::uint32_t words_;  // of the work board that can have a bit
  std::uint32_t seed_;
  const memory::Reach* reach_;
  std::unique_ptr<std::byte[]> scratch_;
  layout::LastLayout to_;    // what chunks were last scattered to,
  layout::LastLayout from_;  // and gathered from
  bool retired_ = false;
};

}  // namespace mh::steal
