// SPDX-License-Identifier: BSD-3-Clause
// Bytes of another rank, and the kernel's copies of them.
//
// Owns the system calls that touch another process. A View names bytes of one rank of the node and
// is plain data, so it can lie in the node segment. Which way is taken to a view: reach.hpp.
// Limits: node-local ranks of one user only.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.hpp"

namespace mh::memory {

// Bytes in the address space of the process `pid` (its number as seen by every rank of the node).
struct View {
  std::uint64_t address;
  pid_t pid;
  std::uint32_t rank;  // node-local rank, for counters and locality

  // What lies so many bytes behind it.
  [[nodiscard]] View at(std::uint64_t offset) const { return {address + offset, pid, rank}; }
};

// Reads `bytes` bytes at `remote` into `local`, or writes them there. Any thread; takes no lock and
// does not allocate. On failure any prefix may have been written.
Status read(void* local, const View& remote, std::size_t bytes);
Status write(const View& remote, const void* local, std::size_t bytes);
// Writes what lies at `local`, one after the other, to these blocks of the process `pid`: at most
// IOV_MAX of them, not larger than 2 GiB together. Their addresses are that process's.
Status write_blocks(pid_t pid, std::span<const iovec> blocks, const void* local);
// The other way.
Status read_blocks(void* local, pid_t pid, std::span<const iovec> blocks);

}  // namespace mh::memory
