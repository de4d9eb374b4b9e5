// SPDX-License-Identifier: BSD-3-Clause
// Carries out one range of a one-sided operation.
//
// A buffer that this process maps is accessed by loads and stores, any other buffer by kernel
// copies through a scratch buffer. An atomic range is applied to the target block by block. Each
// block is cut at stripes (locks.hpp) and updated under the lock of its stripe. An Executor belongs
// to one thread and allocates its scratch buffers once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/result.hpp"
#include "memory/reach.hpp"
#include "rma/deferred.hpp"
#include "rma/operation.hpp"

namespace mh::rma {

inline constexpr std::size_t kMostSwapped = 32;  // bytes of an element in compare_and_swap()

class Executor {
 public:
  // Makes an object for a thread of rank `me` of the node. `reach` decides whether the kernel may
  // copy; it outlives this object.
  Executor(std::uint32_t me, const memory::Reach& reach, const Liveness& liveness);

  // Carries out bytes [range.begin, range.end) of the operation's packed stream, which hold whole
  // elements. A failure may leave the range partly done.
  Status run(const BoundOperation& operation, layout::StreamRange range);

  // Carries out all operations of a list of deferred operations on one target. `target` is a view
  // of any byte in the target's process, `locks` are the target's.
  Status run(const DeferredList& list, const memory::View& target, StripeLocks& locks);

  // Replaces the target's element by the origin's if it equals `compare`, and stores the target's
  // previous element in the result buffer. Elements have at most kMostSwapped bytes.
  Status compare_and_swap(const BoundOperation& operation, const void* compare);

 private:
  friend class BlockUpdater;

  Status write_run(const DeferredList& list, const memory::View& target, std::uint32_t& next,
                   const std::byte*& data) const;
  Status run_part(const BoundOperation& operation, layout::StreamRange range);
  Status move(const RmaBuffer& to, const RmaBuffer& from, layout::StreamRange range);
  Status update(const BoundOperation& operation, layout::StreamRange range, const std::byte* origin,
                std::byte* result);
  // Points `packed` at the packed bytes of a range of the buffer. The bytes are in the buffer
  // itself if it is contiguous and mapped; otherwise they are packed into `scratch`.
  Status gather(const RmaBuffer& from, layout::StreamRange range, std::span<std::byte> scratch,
                const std::byte** packed) const;
  Status scatter(const RmaBuffer& to, layout::StreamRange range, const std::byte* packed) const;
  // Called after a write to a peer's heap that this process maps. If a fork() of the peer has made
  // the heap private meanwhile (retired it, heap/file.hpp), the kernel writes the bytes again.
  Status after_writing(const RmaBuffer& to, std::uint64_t offset, std::uint64_t bytes) const;
  [[nodiscard]] std::span<std::byte> scratch(std::size_t number) const;

  std::uint32_t me_;
  const memory::Reach* reach_;
  Liveness liveness_;
  std::unique_ptr<std::byte[]> scratch_;
};

}  // namespace mh::rma
