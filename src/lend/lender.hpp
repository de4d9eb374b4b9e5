// SPDX-License-Identifier: BSD-3-Clause
// The lender's side: a rank that waits gives its core to a helper of a rank that has work exposed.
//
// A lender for each core that a rank lends, used by one thread at a time. lend() sleeps while the
// helper works, for a unit and in any case not much longer than kPatience; a helper that is still
// in its unit then keeps the core between calls (`still_out`) until take_back().
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "lend/channel.hpp"
#include "lend/unit_length.hpp"
#include "lend/victim.hpp"
#include "node/node.hpp"

namespace mh::lend {

// Whether this rank should take a hand in work of that one, of that kind.
using Admission = std::function<bool(std::uint32_t rank, Kind kind)>;

enum class Outcome : std::uint8_t {
  nothing,    // nobody has work for this core
  lent,       // a unit was done on this core, or begun: a helper that has to wait gives it back
  still_out,  // a helper has this core, in a long unit; to be called again, or take_back()
  refused,    // a helper may not run on this core (cpusets); that rank is not asked again
};

class Lender {
 public:
  // `offset` is where the Lendings lie in each rank's area; `admitted` says whose copies and
  // pipelines this core may be lent to. `core` tells the lenders of a rank apart (below
  // kMostCores).
  Lender(const node::Node& node, std::size_t offset, VictimPolicy policy, Admission admitted,
         std::uint32_t core = 0);

  // `before`: called once it is known that somebody has work, before the core goes there.
  Outcome lend(const std::function<void()>& before = {});
  // As lend(), to that rank, whatever it offers.
  Outcome lend_to(std::uint32_t owner);
  // The core is needed for something else: a helper that still has it goes to its owner's.
  void take_back();
  // The same by any thread, while the lender may be asleep in lend(): that returns.
  void recall();

 private:
  static constexpr std::uint32_t kNobody = ~0U;

  // A brief offer, and when it was first seen.
  struct Sight {
    std::uint64_t offer = 0;
    std::uint64_t at = 0;
  };

  [[nodiscard]] Lendings& lendings(std::uint32_t rank) const;
  [[nodiscard]] std::uint32_t choose();
  [[nodiscard]] std::uint64_t end_of_offer(std::uint32_t rank, std::uint64_t now,
                                           std::uint64_t worth);
  [[nodiscard]] std::uint64_t end_of_loop(std::uint32_t rank, std::uint64_t now);
  [[nodiscard]] std::uint64_t value_of_offer(std::uint32_t rank, std::uint64_t left);
  [[nodiscard]] Channel* hold(std::uint32_t owner) const;
  [[nodiscard]] bool place_here(Channel& channel) const;
  Outcome hand_over(std::uint32_t owner, std::uint64_t unit);
  void learn(bool something_came);
  Outcome wait_for_helper();
  bool evict();
  [[nodiscard]] std::uint32_t word(ChannelState state) const { return word_of(state, id_); }
  [[nodiscard]] Channel& channel_of(std::uint32_t out) const;

  const node::Node& node_;
  std::size_t offset_;
  VictimChoice choice_;
  Admission admitted_;
  std::vector<bool> barred_;  // ranks whose helpers cannot run here, or whose process is gone
  std::vector<Sight> seen_;   // the last of each rank
  std::uint32_t id_;
  // How long units last, and of the last one: when it began, when it was to end, whether it says
  // something of how long they should, and how long the core was away, 0 once it is known whether
  // something came meanwhile.
  UnitLength unit_;
  std::uint64_t lent_at_ = 0;
  std::uint64_t whole_at_ = 0;
  std::uint64_t away_ = 0;
  bool teaches_ = true;

  // The hand-over under way, 0: none; else the channel's number among all of the node, and one.
  // Written by the lender's thread. Relaxed: who recalls compares the channel's word.
  std::atomic<std::uint32_t> out_{0};
};

}  // namespace mh::lend
