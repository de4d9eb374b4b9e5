// SPDX-License-Identifier: BSD-3-Clause
// The hands of one-sided operations: carries out one range of one operation.
//
// Every end is reached by loads and stores where this process maps it, and by the kernel's copies
// through a scratch where not. An atomic range is applied block by block of the target, each block
// cut at stripes and under the lock of its stripe. Belongs to one thread; allocates its scratch
// once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/result.hpp"
#include "memory/reach.hpp"
#include "rma/kept.hpp"
#include "rma/operation.hpp"

namespace mh::rma {

inline constexpr std::size_t kMostSwapped = 32;

class Executor {
 public:
  // `me`: rank on the node. `reach` says whether the kernel may be asked; it outlives this.
  Executor(std::uint32_t me, const memory::Reach& reach, const Liveness& liveness);

  // Bytes [range.begin, range.end) of the stream, which lie between elements. On failure any part
  // of the range may have been done.
  Status run(const Task& task, layout::Range range);

  // All operations of a list on memory of `target`, a view of any byte of that rank.
  Status run(const KeptList& list, const memory::View& target, StripeLocks& locks);

  // The target becomes the origin's element if it equals `compare`; the result is what it had.
  // Elements of up to kMostSwapped bytes.
  Status compare_and_swap(const Task& task, const void* compare);

 private:
  friend class BlockUpdater;

  Status write_run(const KeptList& list, const memory::View& target, std::uint32_t& next,
                   const std::byte*& data) const;
  Status run_piece(const Task& task, layout::Range range);
  Status move(const End& to, const End& from, layout::Range range);
  Status update(const Task& task, layout::Range range, const std::byte* origin, std::byte* result);
  // The bytes of the range, packed: where they lie if they are contiguous here, else in `scratch`.
  Status gather(const End& from, layout::Range range, std::span<std::byte> scratch,
                const std::byte** packed) const;
  Status scatter(const End& to, layout::Range range, const std::byte* packed) const;
  // A peer's fork() may have taken its heap away meanwhile (heap/file.hpp): what was written to
  // its view is then written again, to the peer itself.
  Status after_writing(const End& to, std::uint64_t offset, std::uint64_t bytes) const;
  [[nodiscard]] std::span<std::byte> scratch(std::size_t number) const;

  std::uint32_t me_;
  const memory::Reach* reach_;
  Liveness liveness_;
  std::unique_ptr<std::byte[]> scratch_;
};

}  // namespace mh::rma
