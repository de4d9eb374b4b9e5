// SPDX-License-Identifier: BSD-3-Clause
// The control memory of windows (rma/control.hpp), kept after MPI_Win_free for the next window of
// the same ranks. New memory costs 40 us: a file, two mappings and the first touch of each page.
//
// The first rank of a window makes the memory and numbers it. Each rank of the window keeps its
// mapping under that number while no window uses it. The first rank uses memory again only after
// its MPI_Win_free, which returns after every rank has entered MPI_Win_free. The other ranks take
// the memory by its number when they make the next window, which is later still.
//
// Thread-safe. One thread of a rank may make a window while another thread frees a window of the
// same ranks. The first thread then waits (windows.cpp) until the second has given the control
// memory back. Limit: each rank makes at most kMostBytes of kept memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>

#include "mpi/job/comms.hpp"
#include "node/segment.hpp"

namespace mh::mpi::rma {

// Names control memory among the ranks of its node.
struct ControlName {
  std::uint32_t maker = 0;   // rank on the node
  std::uint32_t number = 0;  // counted by its maker; 0: memory that is not kept
};

// Orders control memory by name, for the maps of ControlPool.
inline bool operator<(const ControlName& left, const ControlName& right) {
  return std::tie(left.maker, left.number) < std::tie(right.maker, right.number);
}

class ControlPool {
 public:
  static constexpr std::size_t kMostBytes = 4U << 20U;

  // Returns a name for new control memory of `bytes` bytes that rank `me` makes for the members of
  // a communicator (`group`). Its number is 0 if the limit kMostBytes is reached: the ranks then do
  // not keep the memory.
  ControlName name(std::uint32_t me, std::size_t bytes, std::shared_ptr<const GroupOnNode> group);
  struct KeptControl {
    ControlName name;
    node::Segment segment;
  };
  // Takes control memory that this rank has made for the same members and that no window uses, if
  // any.
  [[nodiscard]] std::optional<KeptControl> take_unused(const GroupOnNode* group);
  // Takes the control memory of this name, which no window uses; nothing if this rank does not keep
  // it.
  std::optional<node::Segment> take(const ControlName& name);
  // Forgets new control memory of `bytes` bytes, because its window stays the library's: no rank
  // keeps the memory.
  void forget(const ControlName& name, std::size_t bytes);
  // Takes back the control memory of a window: keeps it for the next window of the same ranks, or
  // unmaps it if the name's number is 0.
  void give(const ControlName& name, node::Segment segment);
  // Unmaps all control memory that this rank keeps.
  void clear();

 private:
  std::mutex mutex_;  // guards all members
  std::map<ControlName, node::Segment> unused_;
  std::map<ControlName, std::shared_ptr<const GroupOnNode>> made_;  // by this rank
  std::size_t made_bytes_ = 0;
  std::uint32_t last_number_ = 0;
};

}  // namespace mh::mpi::rma
