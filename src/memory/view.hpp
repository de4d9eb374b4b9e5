// SPDX-License-Identifier: BSD-3-Clause
// Bytes of another rank, and the kernel's copies of them.
//
// Owns the system calls that access another process. A View names bytes of a rank of the node; it
// is plain data, so it can lie in the node segment. reach.hpp decides whether a copy needs the
// kernel. Threads: any. Limits: ranks of the same node and of the same user.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.hpp"

namespace mh::memory {

// Bytes in the address space of a rank. The kernel's copies (process_vm_readv and writev) use
// `pid`. A Reach with mapped heaps (reach.hpp) tells by `rank` whose bytes they are, because ranks
// in different PID namespaces may have equal process numbers.
struct View {
  std::uint64_t address;
  pid_t pid;
  std::uint32_t rank;  // on the node

  // Returns the view that begins `offset` bytes further on.
  [[nodiscard]] View at(std::uint64_t offset) const { return {address + offset, pid, rank}; }
};

// Copy `bytes` bytes between `local` in this process and `remote`. Any thread; take no lock, do not
// allocate. On failure any prefix may have been written.
Status read_remote(void* local, const View& remote, std::size_t bytes);
Status write_remote(const View& remote, const void* local, std::size_t bytes);
// Writes the bytes at `local` one after the other to these blocks of process `pid`: at most IOV_MAX
// blocks, together at most 2 GiB.
Status write_blocks(pid_t pid, std::span<const iovec> blocks, const void* local);
// Reads these blocks of process `pid` one after the other to `local`.
Status read_blocks(void* local, pid_t pid, std::span<const iovec> blocks);

}  // namespace mh::memory
