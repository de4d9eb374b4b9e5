// SPDX-License-Identifier: BSD-3-Clause
// Started receives that are shorter than any described message.
//
// Only by an error of the program does a descriptor land in one: the message is too long for it. So
// nothing has to be known of them but where to look when they complete, and there may be very many
// of them, of 100 ns each. They are not in the pending requests but in a table of handles, which
// costs each some ten nanoseconds.
//
// For contiguous buffers, where errors are fatal (an overrun does not return) and one thread at a
// time is in calls of ours. Limit: kWays receives whose handles fall into one set; a further one
// goes to the pending requests.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "mpi/handle_cache.hpp"
#include "mpi/job/config.hpp"
#include "mpi/protocol/receive_target.hpp"
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

  // Of at most kMostBytes bytes.
  static ShortReceive of(void* buffer, std::uint64_t bytes, int source, MPI_Comm comm) {
    return {.buffer = buffer,
            .comm = comm,
            .source = source,
            .bytes = static_cast<std::uint32_t>(bytes) & kMostBytes};
  }
  // Field by field: a copy of the whole would read in one piece what was just written in several,
  // and wait until that is in the cache.
  void assign(const ShortReceive& other) {
    buffer = other.buffer;
    comm = other.comm;
    source = other.source;
    bytes = other.bytes;
    persistent = other.persistent;
    under_way = other.under_way;
  }
};

class ShortReceives {
 public:
  // Receives shorter than this may be kept here: none until it is set. Not while any is here.
  void set_limit(std::uint64_t bytes) {
    limit_ = std::min<std::uint64_t>(bytes, ShortReceive::kMostBytes);
  }

  // Whether a receive into this contiguous buffer can be kept here, if there is room. Of no use if
  // it is shorter than a descriptor.
  [[nodiscard]] bool suits(const void* buffer, std::uint64_t bytes, int source) const {
    return bytes >= p2p::kDescriptorBytes && bytes < limit_ && buffer != nullptr &&
           source != MPI_PROC_NULL;
  }

  // The usual case, one at a time, costs no look into the table: while none is under way, one is
  // written down before the library starts it (then nothing of it has to be kept over that call),
  // and added once it is started.
  void expect_alone(const ShortReceive& receive) {
    sets_[kAlone].receives[0].assign(receive);
    sets_[kAlone].receives[0].under_way = 0;  // not yet: the start may fail
    lowest_ = reinterpret_cast<std::uint64_t>(receive.buffer);
    highest_ = lowest_ + receive.bytes;
  }
  void add_alone(MPI_Request request) {
    sets_[kAlone].tags[0] = tag_of(request);
    sets_[kAlone].receives[0].under_way = 1;
    under_way_ = 1;
  }
  // The only one under way, added so.
  [[nodiscard]] bool is_alone(MPI_Request request) const {
    return under_way_ == 1 && sets_[kAlone].tags[0] == tag_of(request);
  }
  // As settle(), for the one that is_alone() was true of when its completion was asked for.
  void settle_alone() {
    ShortReceive& receive = sets_[kAlone].receives[0];
    sets_[kAlone].tags[0] = kEmpty;
    receive.under_way = 0;
    --under_way_;
    look(receive);
  }

  // Receives under way.
  [[nodiscard]] bool any() const { return under_way_ != 0; }
  [[nodiscard]] std::size_t count() const { return under_way_; }
  // If it is under way and here; valid until the next call that is not const.
  [[nodiscard]] const ShortReceive* find(MPI_Request request) const {
    const Set& set = sets_[set_of(request)];
    const std::size_t way = set.way_of(tag_of(request));
    return way == kWays || set.receives[way].under_way == 0 ? nullptr : &set.receives[way];
  }
  // Whether this receive is under way and here, and no other.
  [[nodiscard]] bool is_all(MPI_Request request) const {
    return under_way_ == 1 && find(request) != nullptr;
  }

  // One under way into these addresses.
  [[nodiscard]] bool meets(std::uint64_t begin, std::uint64_t end) const;

  // False if there is no room for it.
  [[nodiscard]] bool add(MPI_Request request, const ShortReceive& receive) {
    const Place old = place_of(request);
    if (old) [[unlikely]]
      remove(old);  // completed by a call that we do not see
    Set& set = sets_[table_set_of(request)];
    const std::size_t way = set.way_of(kEmpty);
    if (way == kWays) return false;
    set.tags[way] = tag_of(request);
    set.receives[way].assign(receive);
    if (under_way_ == 0) {
      lowest_ = ~std::uint64_t{0};
      highest_ = 0;
    }
    under_way_ += receive.under_way;
    const auto begin = reinterpret_cast<std::uint64_t>(receive.buffer);
    lowest_ = std::min<std::uint64_t>(lowest_, begin);
    highest_ = std::max<std::uint64_t>(highest_, begin + receive.bytes);
    return true;
  }

  // `request` has completed: raises the error if what lies in its buffer is the descriptor of a
  // longer message. `request` is the handle before the library cleared it.
  void settle(MPI_Request request) {
    if (!is_alone(request)) return look(request, true);
    settle_alone();
  }
  // As settle(), for a request that stays in place.
  void look(MPI_Request request) { look(request, false); }
  // As settle(), for all that are under way, now and then: part of the wait loop, because what the
  // program waits for may be sent only after a message that was too long.
  void look_at_all();

  // A persistent receive is started.
  void start(MPI_Request request);

  // If it is here, under way or not: it goes, and the caller remembers it.
  std::optional<ShortReceive> take(MPI_Request request);
  // All go, each to taken(request, receive), for good.
  template <class Taken>
  void take_all(Taken&& taken) {
    limit_ = 0;
    for (Set& set : sets_) {
      for (std::size_t way = 0; way < kWays; ++way) {
        if (set.tags[way] == kEmpty) continue;
        const auto request = handle_of<MPI_Request>(set.tags[way] - 1);
        const ShortReceive receive = set.receives[way];
        remove({.set = &set, .way = way});
        taken(request, receive);
      }
    }
  }

 private:
  static constexpr std::size_t kSets = 512;  // of the table
  static constexpr std::size_t kAlone = 0;   // before them: of one that was alone when added
  static constexpr std::size_t kWays = 2;
  static constexpr std::uint64_t kEmpty = 0;

  struct alignas(kCacheLine) Set {
    std::array<std::uint64_t, kWays> tags{};
    std::array<ShortReceive, kWays> receives{};

    [[nodiscard]] std::size_t way_of(std::uint64_t tag) const {
      if (tags[0] == tag) [[likely]]
        return 0;
      return tags[1] == tag ? 1 : kWays;
    }
  };
  static_assert(sizeof(Set) == kCacheLine);

  // Of a receive that is here, under way or not.
  struct Place {
    Set* set;
    std::size_t way;

    explicit operator bool() const { return way != kWays; }
    [[nodiscard]] ShortReceive& receive() const { return set->receives[way]; }
  };

  static std::uint64_t tag_of(MPI_Request request) { return bits_of(request) + 1; }
  static std::size_t table_set_of(MPI_Request request) {
    return 1 + place_in(kSets, bits_of(request));
  }
  [[nodiscard]] std::size_t set_of(MPI_Request request) const {
    return sets_[kAlone].tags[0] == tag_of(request) ? kAlone : table_set_of(request);
  }
  Place place_of(MPI_Request request) {
    Set& set = sets_[set_of(request)];
    return {.set = &set, .way = set.way_of(tag_of(request))};
  }
  void end(ShortReceive& receive) {
    under_way_ -= receive.under_way;
    receive.under_way = 0;
  }
  void remove(const Place& place) {
    end(place.receive());
    place.set->tags[place.way] = kEmpty;
  }
  void look(ShortReceive& receive) {
    if (p2p::opens_descriptor(receive.buffer, config.key)) [[unlikely]]
      raise_overrun(receive);
  }
  void look(MPI_Request request, bool is_over);
  void raise_overrun(ShortReceive& receive);

  std::size_t under_way_ = 0;
  // All that were added since none was under way lie between.
  std::uint64_t lowest_ = 0;
  std::uint64_t highest_ = 0;
  std::uint64_t limit_ = 0;
  std::array<Set, 1 + kSets> sets_{};
};

[[gnu::visibility("hidden")]] extern ShortReceives short_receives;

// Where a descriptor may land.
ReceiveTarget target_of(const ShortReceive& receive);

}  // namespace mh::mpi
