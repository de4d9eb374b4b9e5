// SPDX-License-Identifier: BSD-3-Clause
// The lender's side of lending a core: a waiting rank gives its core to a helper of a rank that
// offers work to its helpers. If all helpers of the rank with the best offer are at work, the
// lender goes on to the next best.
//
// There is a Lender for each core that a rank lends. One thread at a time uses a Lender, but
// recall() is thread-safe. lend() sleeps while the helper works, for a unit and in any case not
// much longer than kLenderSleepNs. If the unit still goes on when lend() returns
// (LendResult::still_out), the helper keeps the core until it ends the unit, for which the next
// lend() waits, or until take_back().
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

// Tells whether this rank may help `rank` with work of `kind`. Not called for loops, with which
// every rank may help.
using LendFilter = std::function<bool(std::uint32_t rank, WorkKind kind)>;

enum class LendResult : std::uint8_t {
  nothing,    // no rank has work for this core
  lent,       // a helper has ended its unit on this core, or has given the core back to wait
  still_out,  // a helper has this core, in a long unit; call lend() again, or take_back()
  refused,    // the rank's helpers may not run on this core (cpusets); it is not asked again
};

class Lender {
 public:
  // `offset`: position of the Lendings (channel.hpp) in each rank's area of the node segment.
  // `admitted`: tells with whose pipelines and packing this core may help. `core`: distinguishes
  // the lenders of a rank (below kMostCores). Core 0 is that of the rank's waiting thread. Every
  // other core is spare, and is lent to loops of the rank itself, too.
  Lender(const node::Node& node, std::size_t offset, VictimPolicy policy, LendFilter admitted,
         std::uint32_t core = 0);

  // Lends the core for a unit to the rank whose offer of work is the best (victim.hpp). `before` is
  // called once such a rank is found, before its helper is woken.
  LendResult lend(const std::function<void()>& before = {});
  // Lends the core to the rank `owner` for a unit, whether `owner` offers work or not: the caller
  // waits for a message of which `owner` is the other end.
  LendResult lend_to(std::uint32_t owner);
  // The rank to which the core was lent last. Valid in the lender's thread once lend() or lend_to()
  // has lent the core.
  [[nodiscard]] std::uint32_t last_owner() const { return last_owner_; }
  // Called by the lender's thread when its wait is over: takes the core back. A helper that still
  // has the core moves to its owner's core.
  void take_back();
  // Takes the core back. Called by another thread of this rank: the rank's waiting thread calls
  // recall() of the lenders of all spare cores (workers.hpp) when its wait is over. A lend() under
  // way in the lender's thread then returns.
  void recall();

 private:
  static constexpr std::uint32_t kNobody = ~0U;

  // A rank's last BriefOffer (channel.hpp), and the tick at which this lender first saw the offer.
  struct SeenOffer {
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
  LendResult hand_over(std::uint32_t owner, Channel& channel, std::uint64_t unit);
  void add_without_helper(std::uint32_t owner);
  void learn(bool something_came);
  LendResult wait_for_helper();
  bool evict(std::uint32_t out);
  [[nodiscard]] std::uint32_t word(ChannelState state) const { return word_of(state, id_); }
  [[nodiscard]] Channel& channel_of(std::uint32_t out) const;

  const node::Node& node_;
  std::size_t offset_;
  CoreVictimPicker choice_;
  LendFilter admitted_;
  std::vector<bool> barred_;     // ranks whose helpers cannot run on this core, or that died
  std::vector<SeenOffer> seen_;  // the last offer of each rank
  std::vector<std::uint32_t> without_helper_;  // ranks without a free helper in this search
  std::uint32_t id_;
  // unit_: computes the length of units. The four members after it describe the last unit: its
  // start, its planned end, the ticks for which the core was away, and whether learn() counts it.
  // away_ is 0 once the unit is counted.
  UnitLength unit_;
  std::uint64_t lent_at_ = 0;
  std::uint64_t whole_at_ = 0;
  std::uint64_t away_ = 0;
  bool counts_for_length_ = true;
  std::uint32_t last_owner_ = 0;

  // The loan under way: 1 + the number of the helper's channel among all channels of the node; 0:
  // the core is not lent. Written by the lender's thread. relaxed: recall() in another thread may
  // read an old value, but acts only if the channel's word says that this lender has lent its core.
  std::atomic<std::uint32_t> out_{0};
};

}  // namespace mh::lend
