// SPDX-License-Identifier: BSD-3-Clause
// The buffer of a receive: where a descriptor may land, and where its message belongs.
//
// Any thread; a ReceiveTarget is its receive's alone.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "mpi/datatype/layouts.hpp"
#include "mpi/job/comms.hpp"
#include "mpi/protocol/message.hpp"
#include "p2p/end.hpp"
#include "p2p/posted_receives.hpp"

namespace mh::mpi {

struct Bounce;

// Where a descriptor may land. `comm` is null if none can (then the receive is an ordinary one).
struct ReceiveTarget {
  Comm* comm = nullptr;
  void* buffer = nullptr;
  MPI_Count count = 0;
  MPI_Datatype type{};
  std::uint64_t capacity = 0;
  bool contiguous = false;
  bool by_internode = false;            // only a rank of another node can send here
  bool silent = false;                  // the library does not say in the status what came
  p2p::PostedReceive* shown = nullptr;  // while a started receive is under way
  // The buffer is this one, from where the message comes to its place (overlaps.hpp). Also without
  // a communicator.
  std::shared_ptr<Bounce> bounce{};

  explicit operator bool() const { return comm != nullptr; }
  // The buffer of the program.
  [[nodiscard]] const ReceiveTarget& place() const;
};
// A buffer in which no descriptor can land.
ReceiveTarget without_descriptor(void* buffer, MPI_Count count, MPI_Datatype type);

// What comes here may be a message of this node that is long enough to be described.
bool awaits_long(const ReceiveTarget& target);

ReceiveTarget target_for(void* buffer, MPI_Count count, MPI_Datatype type, int source,
                         MPI_Comm comm);
ReceiveTarget target_on(Comm& comm, void* buffer, MPI_Count count, MPI_Datatype type, int source);

// A started receive: lets its sender find the target. Only contiguous ones can be pushed to.
void show(ReceiveTarget& target);
void hide(ReceiveTarget& target);

// The buffer as one end of a copy. `layout` is its type's, null where it has no gaps.
p2p::End end_of(const ReceiveTarget& target, const layout::LayoutPtr& layout);

// Bytes of the packed stream to the program's buffer.
void unpack_to(const ReceiveTarget& place, const std::byte* packed, std::uint64_t bytes);

// From the heap, or a mapping of so many bytes.
struct BounceFree {
  std::size_t mapped = 0;
  void operator()(std::byte* memory) const;
};
using BounceMemory = std::unique_ptr<std::byte[], BounceFree>;

// The buffer of one receive, and where its message belongs. Of the thread that has the receive.
struct Bounce {
  Bounce() { alive.fetch_add(1, std::memory_order_relaxed); }
  ~Bounce() { alive.fetch_sub(1, std::memory_order_relaxed); }
  Bounce(const Bounce&) = delete;
  Bounce& operator=(const Bounce&) = delete;

  static inline std::atomic<std::size_t> alive{0};  // relaxed, a hint

  BounceMemory memory;
  ReceiveTarget place;
  bool straight = false;  // a described message may go to its place at once
  bool placed = false;    // it is there
};

// Receives of the pending requests that are under way. relaxed: a request is completed by the
// thread that started it, or by one it told.
inline std::atomic<std::size_t> receives_under_way{0};

}  // namespace mh::mpi
