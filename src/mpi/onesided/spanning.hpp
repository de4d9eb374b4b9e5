// SPDX-License-Identifier: BSD-3-Clause
// What a rank knows of a window over several nodes beyond its own node: who the others are, what it
// has asked them for and what they have answered.
//
// Words: a request that is *counted* (onesided/message.hpp) is under way until its target has said
// that it is carried out; a *result* is awaited until it lies in its place. Each word names who
// writes it: *callers* are the threads that make the window's calls, the *server* is the thread
// that has the serving lock (serving.cpp).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "base/cacheline.hpp"
#include "layout/layout.hpp"
#include "layout/walk.hpp"
#include "onesided/operation.hpp"

namespace mh::mpi::rma {

// Another rank of the window.
struct Peer {
  int world_rank = 0;

  // By callers. Counted requests to it; results that it owes, which the server counts down by
  // release when they are in place, and callers acquire.
  alignas(kCacheLine) std::atomic<std::uint64_t> sent{0};
  std::atomic<std::uint64_t> awaited{0};
  std::uint64_t locks = 0;  // asked for; with the window's mutex

  // By the server, by release, acquired by callers that wait.
  alignas(kCacheLine) std::atomic<std::uint64_t> done{0};  // of `sent`
  std::atomic<std::uint64_t> granted{0};                   // of `locks`
  std::atomic<bool> failed{false};  // something that was asked for; callers take it back

  // The server's own: counted requests from that rank that are carried out, and that it knows of.
  std::uint64_t handled = 0;
  std::uint64_t told = 0;
};

// Where a result goes that a peer owes this rank.
struct AwaitedResult {
  onesided::End place;
  layout::LayoutPtr layout;  // of the place
  layout::Range range{};     // of its stream
  std::uint32_t from = 0;    // rank in the window
};

struct Spanning {
  static constexpr std::size_t kRounds = 32;  // of a barrier: logarithm of the number of ranks

  std::uint64_t id = 0;           // the window's, in the job
  std::unique_ptr<Peer[]> peers;  // by rank in the window

  std::mutex mutex;  // guards the next two
  std::unordered_map<std::uint64_t, AwaitedResult> results;
  std::uint64_t asked = 0;

  std::uint64_t barriers = 0;  // that this rank has entered; by the thread that is in one
  // Messages of each round of barriers. By the server by release, acquired in the barrier.
  std::array<std::atomic<std::uint64_t>, kRounds> arrived{};
};

}  // namespace mh::mpi::rma
