// SPDX-License-Identifier: BSD-3-Clause
// Large receives copied on cores that idle ranks lend.
//
// A third party moves a chunk twice, into its scratch and out again. A helper thread of the
// receiver moves it once, straight from the sender's memory, and needs two hand-overs of the core
// for it. So for large messages the receiver exposes its chunks to lenders (lend/channel.hpp);
// ranks that find no helper free copy by way of their scratch as before.
//
// One object a process. Limit: one receive at a time says that there is work; the helpers take
// chunks of any open job of this rank.
#pragma once

#include <atomic>
#include <cstdint>

#include "lend/pool.hpp"
#include "node/node.hpp"
#include "observe/counters.hpp"
#include "steal/slots.hpp"

namespace mh::p2p {

// Below this a third party that starts at once is as good (docs/decisions.md).
inline constexpr std::uint64_t kLeastLentBytes = 4U << 20U;

class LentCopies final : public lend::Work {
 public:
  // `jobs` and `counters` are this rank's.
  LentCopies(lend::Pool& pool, const node::Node& node, steal::JobSlots& jobs,
             observe::Counters& counters)
      : pool_(pool), node_(node), jobs_(jobs), counters_(counters) {}

  // While it lives, lenders may come for an open job of `bytes` bytes. Any thread.
  class Offer {
   public:
    Offer(LentCopies* copies, std::uint64_t bytes);
    ~Offer();
    Offer(const Offer&) = delete;
    Offer& operator=(const Offer&) = delete;
    // All chunks are claimed: no lender shall come in vain.
    void nothing_left();

   private:
    LentCopies* copies_;  // null if nothing is offered
  };

  [[nodiscard]] const lend::Pool& pool() const { return pool_; }

  bool unit(std::uint32_t helper, std::uint64_t deadline) noexcept override;

 private:
  bool one_chunk();

  lend::Pool& pool_;
  const node::Node& node_;
  steal::JobSlots& jobs_;
  observe::Counters& counters_;
  // Set while an offer stands. acquire and release: the pool's calls for a kind are for one thread
  // at a time.
  std::atomic_flag offered_ = ATOMIC_FLAG_INIT;
};

}  // namespace mh::p2p
