// SPDX-License-Identifier: BSD-3-Clause
// Implements the kernel copies of view.hpp. The kernel moves at most 2 GiB minus a page per call
// and may stop early, for example at an unmapped page; the next call then gives the reason. Each
// transfer therefore loops until all bytes are moved or a call moves none.
#include "memory/view.hpp"

#include <cerrno>

namespace mh::memory {
namespace {

using VmCall = ssize_t (*)(pid_t, const iovec*, unsigned long, const iovec*, unsigned long,
                           unsigned long);

// Converts the address of another process from the number in a View to the pointer in an iovec.
void* remote_pointer(std::uint64_t address) { return reinterpret_cast<void*>(address); }

Status transfer_bytes(VmCall call, void* local, const View& remote, std::size_t bytes) {
  std::size_t moved = 0;
  while (moved < bytes) {
    const iovec here{static_cast<std::byte*>(local) + moved, bytes - moved};
    const iovec there{remote_pointer(remote.address + moved), bytes - moved};
    const ssize_t step = call(remote.pid, &here, 1, &there, 1, 0);
    if (step > 0) {
      moved += static_cast<std::size_t>(step);
    } else if (step == 0) {
      return {Code::fault, 0};
    } else if (errno != EINTR) {
      return from_errno(errno);
    }
  }
  return {};
}

Status transfer_blocks(VmCall call, void* local, pid_t pid, std::span<const iovec> blocks) {
  std::size_t bytes = 0;
  for (const iovec& block : blocks) bytes += block.iov_len;
  const iovec here{local, bytes};
  const ssize_t moved = call(pid, &here, 1, blocks.data(), blocks.size(), 0);
  if (moved >= 0 && static_cast<std::size_t>(moved) == bytes) return {};
  // The call for all blocks stopped early or failed. The loop below therefore makes a call for each
  // block. It ends at the first block that fails, and returns the reason.
  auto* at = static_cast<std::byte*>(local);
  for (const iovec& block : blocks) {
    const View there{reinterpret_cast<std::uint64_t>(block.iov_base), pid, 0};
    const Status done = transfer_bytes(call, at, there, block.iov_len);
    if (!done) return done;
    at += block.iov_len;
  }
  return {};
}

}  // namespace

Status read_remote(void* local, const View& remote, std::size_t bytes) {
  return transfer_bytes(::process_vm_readv, local, remote, bytes);
}

Status write_remote(const View& remote, const void* local, std::size_t bytes) {
  // const_cast: the local iovec is the same for reads and writes, and process_vm_writev() only
  // reads the bytes at `local`.
  return transfer_bytes(::process_vm_writev, const_cast<void*>(local), remote, bytes);
}

Status write_blocks(pid_t pid, std::span<const iovec> blocks, const void* local) {
  // const_cast: process_vm_writev() only reads the bytes at `local`.
  return transfer_blocks(::process_vm_writev, const_cast<void*>(local), pid, blocks);
}

Status read_blocks(void* local, pid_t pid, std::span<const iovec> blocks) {
  return transfer_blocks(::process_vm_readv, local, pid, blocks);
}

}  // namespace mh::memory
