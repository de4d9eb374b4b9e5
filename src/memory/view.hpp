// SPDX-License-Identifier: BSD-3-Clause
// "Give me these bytes of that rank": one interface over the ways to reach another rank's memory.
//
// Owns the system calls that touch another process. A View names bytes of one rank of the node and
// is plain data, so it can lie in the node segment. Today there is one way (cma,
// process_vm_readv/writev); window, lend and cells join behind the same function. Limits:
// node-local ranks of one user only.
#pragma once

#include <sys/types.h>

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
};

// Copies `bytes` bytes from `from` to `to` (offset already applied by the caller). Picks the
// cheapest way for the calling process `self`: a plain copy where it owns both ends, one kernel
// copy where it owns one end, and a trip through `scratch` (which stays in L2) where it owns
// neither. Called by any rank; takes no lock and does not allocate. On failure any prefix may have
// been written.
Status copy(const View& to, const View& from, std::size_t bytes, pid_t self,
            std::span<std::byte> scratch);

// Reads `bytes` bytes at `remote` into `local` (a probe, a descriptor). Same guarantees.
Status read(void* local, const View& remote, std::size_t bytes);
Status write(const View& remote, const void* local, std::size_t bytes);

}  // namespace mh::memory
