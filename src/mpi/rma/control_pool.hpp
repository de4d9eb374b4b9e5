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

// Names control memory on its node.
struct ControlName {
  std::uint32_t maker = 0;   // rank on the node
  std::uint32_t number = 0;  // counted by its maker; 0: memory that is not kept
};

// Orders the names in a map.
inline bool operator<(const ControlName& left, const ControlName& right) {
  return std::tie(left.maker, left.number) < std::tie(right.maker, right.number);
}

class ControlPool {
 public:
  static constexpr std::size_t kMostBytes = 4U << 20U;

  // Returns a name for new memory of `bytes` bytes that rank `me` makes for a group. Number 0 if
  // the limit is reached: the memory is not kept.
  ControlName name(std::uint32_t me, std::size_t bytes, std::shared_ptr<const GroupOnNode> group);
  struct KeptControl {
    ControlName name;
    node::Segment segment;
  };
  // Takes unused memory that this rank has made for the group, if any.
  [[nodiscard]] std::optional<KeptControl> take_unused(const GroupOnNode* group);
  // Takes the unused memory of this name; nothing if this rank does not keep that memory.
  std::optional<node::Segment> take(const ControlName& name);
  // Called if new memory was made for a window that stays the library's: no rank keeps the memory.
  void forget(const ControlName& name, std::size_t bytes);
  // Keeps the memory for the next window, or unmaps it if its number is 0.
  void give(const ControlName& name, node::Segment segment);
  // Unmaps all memory that this rank keeps.
  void clear();

 private:
  std::mutex mutex_;  // guards all members
  std::map<ControlName, node::Segment> unused_;
  std::map<ControlName, std::shared_ptr<const GroupOnNode>> made_;  // by this rank
  std::size_t made_bytes_ = 0;
  std::uint32_t last_number_ = 0;
};

}  // namespace mh::mpi::rma
