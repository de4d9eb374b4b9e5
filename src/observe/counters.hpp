// SPDX-License-Identifier: BSD-3-Clause
// What a rank did, counted in its area of the node segment. Free when nobody looks: a plain load,
// add and store on a line of its own.
//
// Every count has one writer, its rank, and any reader (the summary, `mh top`). In a rank with
// several threads inside MPI two of them may count at once and one addition may be lost; results
// never depend on it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "base/cacheline.hpp"

namespace mh::observe {

class Count {
 public:
  // relaxed: a reader wants a recent number, no other memory is published by it.
  void add(std::uint64_t amount) {
    value_.store(value_.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
  }
  // For the few counts that several threads of the rank write.
  void add_shared(std::uint64_t amount) { value_.fetch_add(amount, std::memory_order_relaxed); }
  void set(std::uint64_t value) { value_.store(value, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t get() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

struct alignas(kCacheLine) Counters {
  // Per message, written by the sending or receiving side.
  Count messages_by_rendezvous;  // sent as a descriptor
  Count bytes_by_rendezvous;
  Count resends;                // descriptors that could not be redeemed
  Count messages_without_slot;  // left to the library: the send queue was full,
  Count messages_ended;         // ... or a communicator without an arrival barrier was there

  // Per chunk.
  alignas(kCacheLine) Count
      own_chunks_received;  // copied by this rank, the owner, for its own receives
  Count own_bytes_received;
  Count own_chunks_sent;  // copied by this rank, the sender, in its receivers' jobs
  Count own_bytes_sent;
  Count others_chunks;  // copied by this rank, a third party
  Count others_bytes;
  Count bytes_packed;        // by MPI_Pack and MPI_Unpack through the layout engine
  Count messages_exchanged;  // long enough, but both ends were busy with others: the library's

  // Time. wait_ticks is all time inside the wait loop and contains the other three.
  alignas(kCacheLine) Count wait_ticks;
  Count help_ticks;         // copying as a third party
  Count own_copy_ticks;     // copying messages of which this rank is sender or receiver
  Count start_tick;         // when this rank became part of the node; 0: never
  Count waits;              // calls that had to wait
  Count collectives_gated;  // collectives entered through arrivals in the node segment
  Count lent_ticks;         // in waits: the core was a helper's of another rank
  Count lent_units;

  // By this rank's helpers on cores of others; several threads.
  alignas(kCacheLine) Count lent_chunks;
  Count lent_bytes;

  // One-sided. A window is counted by its first rank.
  alignas(kCacheLine) Count windows_ours;
  Count windows_left;          // ... that could not be ours
  Count one_sided_operations;  // on windows that are ours
};
static_assert(std::is_standard_layout_v<Counters>);
static_assert(sizeof(Counters) == 5 * kCacheLine);

// helped[victim]: bytes this rank copied as a third party in jobs of that rank. Same writer rule.
using HelpedRow = std::span<Count>;
constexpr std::size_t helped_row_bytes(std::uint32_t ranks) {
  return (ranks * sizeof(Count) + kCacheLine - 1) / kCacheLine * kCacheLine;
}

}  // namespace mh::observe
