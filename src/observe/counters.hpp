// SPDX-License-Identifier: BSD-3-Clause
// Counts the operations of a rank, in its area of the node segment. A count costs a plain load, add
// and store on a cache line of the rank's own.
//
// Each count is written by its rank only, and read by anyone (the summary, `mh top`). If several
// threads of a rank count at the same time, an addition may be lost; results never depend on a
// count.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "base/cacheline.hpp"

namespace mh::observe {

class Counter {
 public:
  // relaxed: readers want a recent number; a count publishes no other memory.
  void add(std::uint64_t amount) {
    value_.store(value_.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
  }
  // Adds to one of the few counts that several threads of the rank write at a time; add() could
  // lose such an addition.
  void add_shared(std::uint64_t amount) { value_.fetch_add(amount, std::memory_order_relaxed); }
  void set(std::uint64_t value) { value_.store(value, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t get() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

struct alignas(kCacheLine) RankCounters {
  // Numbers and bytes of messages. Each message is counted once, by its sending or its receiving
  // rank.
  Counter messages_by_rendezvous;
  Counter bytes_by_rendezvous;
  Counter resends;                // rendezvous messages that could not be copied
  Counter messages_without_slot;  // left to the MPI library: the send table was full
  Counter messages_ended;         // left to the MPI library: rendezvous had ended on the node
  // Received by rendezvous within the node, but not copied in mapped memory, although the ranks
  // share their heaps: the send or the receive buffer lies outside of the heap. Messages that the
  // sender pushes do not count.
  Counter bytes_outside_heap;

  // This member and the next five, down to others_bytes: numbers and bytes of the chunks that this
  // rank has copied.
  alignas(kCacheLine) Counter
      own_chunks_received;  // copied by this rank, the owner, for its own receives
  Counter own_bytes_received;
  Counter own_chunks_sent;  // copied by this rank, the sender, in its receivers' jobs
  Counter own_bytes_sent;
  Counter others_chunks;  // copied by this rank, at neither end, for other ranks
  Counter others_bytes;
  Counter bytes_packed;  // by MPI_Pack and MPI_Unpack through the layout engine
  // Messages long enough for rendezvous that were left to the MPI library, because their sender was
  // receiving a long message, too (an exchange).
  Counter messages_exchanged;

  // Time in ticks. wait_ticks is all time inside the wait loop. help_ticks, own_copy_ticks and
  // lent_ticks are parts of it, except that own_copy_ticks includes copies in calls that poll, such
  // as MPI_Test.
  alignas(kCacheLine) Counter wait_ticks;
  Counter help_ticks;                        // copying for other ranks, in one-sided operations too
  Counter own_copy_ticks;                    // copying messages that this rank sends or receives
  Counter start_tick;                        // when this rank joined the node; 0: never
  Counter waits;                             // waits that outlasted their first polls
  Counter collectives_with_arrival_barrier;  // that waited for arrivals
  Counter lent_ticks;                        // a helper of another rank had the core
  Counter lent_units;                        // units of other ranks done on this rank's core

  // Chunks that this rank's helpers moved on lent cores: drained from cells for receives of the
  // rank, and packed or unpacked for messages between nodes. Several helpers count at a time, by
  // add_shared().
  alignas(kCacheLine) Counter chunks_on_lent_cores;
  Counter bytes_on_lent_cores;

  // Windows of one-sided communication whose operations Manyhands carries out. Only the first rank
  // of a window counts it.
  alignas(kCacheLine) Counter windows_ours;
  Counter windows_left;          // windows left to the MPI library
  Counter one_sided_operations;  // on windows that are ours

  Counter collectives_direct;  // carried out by the ranks of the node themselves
};
static_assert(std::is_standard_layout_v<RankCounters>);
static_assert(sizeof(RankCounters) == 5 * kCacheLine);

// A row of counters with an element for each rank of the node. helped[victim]: bytes that this rank
// copied in jobs of the rank `victim`, as a third rank. Like RankCounters, the row is written by
// its rank only and read by anyone.
using HelpedRow = std::span<Counter>;
constexpr std::size_t helped_row_bytes(std::uint32_t ranks) {
  return (ranks * sizeof(Counter) + kCacheLine - 1) / kCacheLine * kCacheLine;
}

}  // namespace mh::observe
