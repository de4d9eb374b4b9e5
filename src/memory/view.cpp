// SPDX-License-Identifier: BSD-3-Clause
// The kernel moves at most 2 GiB minus a page per call and may stop early, at an unmapped page for
// example; the next call then says why. So every transfer is a loop until all bytes went or a call
// moved none.
#include "memory/view.hpp"

#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace mh::memory {
namespace {

using Call = ssize_t (*)(pid_t, const iovec*, unsigned long, const iovec*, unsigned long,
                         unsigned long);

// reinterpret_cast: an address of another process is a number here and a pointer there.
void* pointer(std::uint64_t address) { return reinterpret_cast<void*>(address); }

Status transfer(Call call, void* local, const View& remote, std::size_t bytes) {
  std::size_t moved = 0;
  while (moved < bytes) {
    const iovec here{static_cast<std::byte*>(local) + moved, bytes - moved};
    const iovec there{pointer(remote.address + moved), bytes - moved};
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

View advanced(const View& view, std::size_t bytes) {
  return {view.address + bytes, view.pid, view.rank};
}

// One kernel copy in, one out; `scratch` is used over and over, so it stays in L2.
Status copy_between_others(const View& to, const View& from, std::size_t bytes,
                           std::span<std::byte> scratch) {
  if (scratch.empty()) return {Code::full, 0};
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t piece = std::min(scratch.size(), bytes - done);
    const Status in = read(scratch.data(), advanced(from, done), piece);
    if (!in) return in;
    const Status out = write(advanced(to, done), scratch.data(), piece);
    if (!out) return out;
    done += piece;
  }
  return {};
}

}  // namespace

Status read(void* local, const View& remote, std::size_t bytes) {
  return transfer(::process_vm_readv, local, remote, bytes);
}

Status write(const View& remote, const void* local, std::size_t bytes) {
  // const_cast: iovec serves both directions; writev only reads the local side.
  return transfer(::process_vm_writev, const_cast<void*>(local), remote, bytes);
}

Status copy(const View& to, const View& from, std::size_t bytes, pid_t self,
            std::span<std::byte> scratch) {
  if (to.pid == self && from.pid == self) {
    std::memmove(pointer(to.address), pointer(from.address), bytes);
    return {};
  }
  if (to.pid == self) return read(pointer(to.address), from, bytes);
  if (from.pid == self) return write(to, pointer(from.address), bytes);
  return copy_between_others(to, from, bytes, scratch);
}

}  // namespace mh::memory
