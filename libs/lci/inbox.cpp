// SPDX-License-Identifier: BSD-3-Clause
// Inboxes (inbox.hpp) in anonymous shared memory, which other processes open through /proc/PID/fd.
#include "lci/inbox.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <utility>

namespace mh::lci::detail {

std::string this_kernel() {
  std::string name;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> name;
  return name;
}

std::string this_node() {
  std::string name = this_kernel();
  // The node's name includes the network namespace, not the PID namespace alone: processes with
  // separate network addresses count as separate hosts.
  for (const char* space : {"pid", "net"}) {
    std::array<char, 64> target{};
    const std::string link = std::string("/proc/self/ns/") + space;
    if (::readlink(link.c_str(), target.data(), target.size() - 1) > 0) name += target.data();
  }
  return name;
}

Result<Inbox> Inbox::make(std::size_t rings, std::size_t ring_bytes) {
  Inbox inbox;
  inbox.fd_ = Fd(::memfd_create("manyhands-lci", MFD_CLOEXEC));
  if (!inbox.fd_.valid()) return from_errno(errno);
  const auto bytes = static_cast<off_t>(rings * (sizeof(RingHead) + ring_bytes));
  if (const int failed = ::posix_fallocate(inbox.fd_.get(), 0, bytes); failed != 0) {
    return from_errno(failed);
  }
  if (const Status mapped = inbox.map(rings, ring_bytes); !mapped) return mapped;
  return inbox;
}

Result<Inbox> Inbox::open(const std::string& where, std::size_t rings, std::size_t ring_bytes) {
  Inbox inbox;
  inbox.fd_ = Fd(::open(where.c_str(), O_RDWR | O_CLOEXEC));
  if (!inbox.fd_.valid()) return from_errno(errno);
  if (const Status mapped = inbox.map(rings, ring_bytes); !mapped) return mapped;
  inbox.close();
  return inbox;
}

Status Inbox::map(std::size_t rings, std::size_t ring_bytes) {
  const std::size_t bytes = rings * (sizeof(RingHead) + ring_bytes);
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
  if (memory == MAP_FAILED) return from_errno(errno);
  memory_ = static_cast<std::byte*>(memory);
  rings_ = rings;
  ring_bytes_ = ring_bytes;
  return {};
}

Inbox::Inbox(Inbox&& other) noexcept { *this = std::move(other); }
Inbox& Inbox::operator=(Inbox&& other) noexcept {
  fd_ = std::move(other.fd_);
  std::swap(memory_, other.memory_);
  std::swap(rings_, other.rings_);
  std::swap(ring_bytes_, other.ring_bytes_);
  return *this;
}
Inbox::~Inbox() {
  if (memory_ != nullptr) ::munmap(memory_, bytes());
}

std::string Inbox::where() const {
  return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(fd_.get());
}

RingHead* Inbox::ring(std::size_t index) const {
  return reinterpret_cast<RingHead*>(memory_ + index * (sizeof(RingHead) + ring_bytes_));
}

}  // namespace mh::lci::detail
