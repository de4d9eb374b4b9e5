// SPDX-License-Identifier: BSD-3-Clause
// The lender's side: a rank that waits gives its core to a helper of a rank that has work exposed.
//
// One lender a rank, used by one thread at a time. lend() sleeps while the helper works, for a unit
// and in any case not much longer than kPatience; a helper that is still in its unit then keeps the
// core between calls (`still_out`) until take_back().
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "lend/channel.hpp"
#include "node/node.hpp"

namespace mh::lend {

// Whether this rank should take a hand in copies of that one.
using Admission = std::function<bool(std::uint32_t rank)>;

// Whom a lender helps, of those that offer work for long enough (MPI Workshare, victim selection).
enum class VictimPolicy : std::uint8_t {
  most_work,       // the longest offer
  fewest_lenders,  // the fewest helpers at work
  nearest,         // of this NUMA node first, then the longest offer
  random,
};

enum class Outcome : std::uint8_t {
  nothing,    // nobody has work for this core
  lent,       // a unit was done on this core, or begun: a helper that has to wait gives it back
  still_out,  // a helper has this core, in a long unit; to be called again, or take_back()
  refused,    // a helper may not run on this core (cpusets); that rank is not asked again
};

class Lender {
 public:
  // `offset` is where the Lendings lie in each rank's area; `copies` says whose copies this core
  // may be lent to.
  Lender(const node::Node& node, std::size_t offset, VictimPolicy policy, Admission copies);

  Outcome lend();

  // The core is needed for something else: a helper that still has it goes to its owner's.
  void take_back();

 private:
  static constexpr std::uint32_t kNobody = ~0U;

  [[nodiscard]] Lendings& lendings(std::uint32_t rank) const;
  [[nodiscard]] std::uint32_t choose();
  [[nodiscard]] std::uint64_t end_of_offer(std::uint32_t rank, std::uint64_t worth) const;
  [[nodiscard]] std::uint64_t rank_of_offer(std::uint32_t rank, std::uint64_t left);
  [[nodiscard]] Channel* hold(std::uint32_t owner) const;
  [[nodiscard]] bool place_here(Channel& channel) const;
  Outcome wait_for_helper();

  const node::Node& node_;
  std::size_t offset_;
  VictimPolicy policy_;
  Admission copies_;
  std::vector<bool> barred_;  // ranks whose helpers cannot run here, or whose process is gone
  std::uint64_t dice_;

  // The hand-over under way.
  Channel* out_ = nullptr;
  std::uint32_t owner_ = kNobody;
};

}  // namespace mh::lend
