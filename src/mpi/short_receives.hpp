// SPDX-License-Identifier: BSD-3-Clause
// Started receives that are shorter than any described message.
//
// Only by an error of the program does a descriptor land in one: the message is too long for it. So
// nothing has to be known of them but where to look when they complete, and there may be very many
// of them, of 100 ns each. They are not in the ledger but in a table: two nanoseconds to enter one,
// as many to find it again.
//
// For dense buffers, where errors are fatal (an overrun does not return) and one thread at a time
// is in calls of ours. Limit: kWays receives whose handles fall into one set; a further one goes to
// the ledger.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "mpi/handle_cache.hpp"
#include "mpi/runtime.hpp"
#include "p2p/descriptor.hpp"

namespace mh::mpi {

struct ShortReceive {
  static constexpr std::uint32_t kMostBytes = (1U << 30U) - 1;

  void* buffer;
  MPI_Comm comm;
  std::int32_t source;
  std::uint32_t bytes : 30;
  std::uint32_t persistent : 1 = 0;
  std::uint32_t under_way : 1 = 1;  // 0: a persistent one between its completion and its next start
};

class ShortReceives {
 public:
  // Receives shorter than this may be kept here: none until it is set. Not while any is here.
  void set_limit(std::uint64_t bytes) {
    limit_ = std::min<std::uint64_t>(bytes, ShortReceive::kMostBytes);
  }

  // Whether a receive into this buffer can be kept here, if there is room. Of no use if it is
  // shorter than a descriptor.
  [[nodiscard]] bool suits(const void* buffer, std::uint64_t bytes, bool dense, int source) const {
    return bytes < limit_ && bytes >= p2p::kDescriptorBytes && dense && buffer != nullptr &&
           source != MPI_PROC_NULL;
  }

  // Receives under way.
  [[nodiscard]] bool any() const { return under_way_ != 0; }
  [[nodiscard]] std::size_t count() const { return under_way_; }
  // Null if it is not here; valid until the next call that is not const.
  [[nodiscard]] const ShortReceive* find(MPI_Request request) const {
    const std::uint64_t handle = bits_of(request) + 1;
    const Set& set = set_of(handle);
    const std::size_t way = set.way_of(handle);
    return way == kWays ? nullptr : &set.receives[way];
  }
  // Whether this receive is under way and here, and no other.
  [[nodiscard]] bool is_all(MPI_Request request) const {
    if (under_way_ != 1) return false;
    const ShortReceive* receive = find(request);
    return receive != nullptr && receive->under_way != 0;
  }

  // False if there is no room for it.
  [[nodiscard]] bool add(MPI_Request request, const ShortReceive& receive) {
    const std::uint64_t handle = bits_of(request) + 1;
    Set& set = set_of(handle);
    std::size_t way = set.way_of(handle);
    if (way != kWays) [[unlikely]] {  // that was completed by a call that we do not see
      end(set.receives[way]);
    } else {
      way = set.way_of(0);
      if (way == kWays) return false;
    }
    set.handles[way] = handle;
    set.receives[way] = receive;
    under_way_ += receive.under_way;
    return true;
  }

  // `request` has completed: raises the error if what lies in its buffer is the descriptor of a
  // longer message. `request` is the handle before the library cleared it.
  void settle(MPI_Request request) { look(request, true); }
  // As settle(), for a request that stays in place.
  void look(MPI_Request request) { look(request, false); }
  // As settle(), for all that are under way, now and then: part of the wait loop, because what the
  // program waits for may be sent only after a message that was too long.
  void look_at_all();

  // A persistent receive is started.
  void start(MPI_Request request);

  // To the ledger, if it is here: one whose request the program frees; all for good, because from
  // now on an overrun is an error that returns.
  void hand_over(MPI_Request request);
  void hand_over_all();

 private:
  static constexpr std::size_t kSets = 512;
  static constexpr std::size_t kWays = 2;
  struct alignas(kCacheLine) Set {
    std::array<std::uint64_t, kWays> handles{};  // handle + 1, 0 when empty
    std::array<ShortReceive, kWays> receives{};

    [[nodiscard]] std::size_t way_of(std::uint64_t handle) const {
      if (handles[0] == handle) [[likely]]
        return 0;
      return handles[1] == handle ? 1 : kWays;
    }
  };
  static_assert(sizeof(Set) == kCacheLine);

  // Handles are numbers in a row (MPICH) or addresses: see HandleCache.
  static std::size_t index_of(std::uint64_t handle) {
    return static_cast<std::size_t>((handle * 0x9e3779b97f4a7c15ULL) >> 48U) % kSets;
  }
  Set& set_of(std::uint64_t handle) { return sets_[index_of(handle)]; }
  [[nodiscard]] const Set& set_of(std::uint64_t handle) const { return sets_[index_of(handle)]; }
  void end(ShortReceive& receive) {
    under_way_ -= receive.under_way;
    receive.under_way = 0;
  }
  void look(MPI_Request request, bool is_over) {
    if (under_way_ == 0) return;
    const std::uint64_t handle = bits_of(request) + 1;
    Set& set = set_of(handle);
    const std::size_t way = set.way_of(handle);
    if (way == kWays) return;
    ShortReceive& receive = set.receives[way];
    if (is_over) {
      end(receive);
      if (receive.persistent == 0) set.handles[way] = 0;
    }
    if (p2p::opens_descriptor(receive.buffer, g.key)) [[unlikely]]
      raise_overrun(receive);
  }
  void hand_over(Set& set, std::size_t way);
  void raise_overrun(ShortReceive& receive);

  std::size_t under_way_ = 0;
  std::uint64_t limit_ = 0;
  std::array<Set, kSets> sets_{};
};

extern ShortReceives short_receives;

}  // namespace mh::mpi
