// SPDX-License-Identifier: BSD-3-Clause
#include "heap/file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "heap/conditions.hpp"
#include "heap/system.hpp"

namespace mh::heap {
namespace {

constexpr int kWritable = PROT_READ | PROT_WRITE;

constexpr int kTries = 16;

// High, so that the program's own descriptors get the numbers they would have had.
constexpr int kDescriptor = 1 << 10;

bool map_over(const Span& span, int flags, int fd) {
  const off_t offset = fd >= 0 ? static_cast<off_t>(span.address) : 0;
  return ::mmap(pointer(span.address), span.bytes, kWritable, flags | MAP_FIXED, fd, offset) !=
         MAP_FAILED;
}

int high_descriptor(int fd) {
  const int high = ::fcntl(fd, F_DUPFD_CLOEXEC, kDescriptor);
  if (high < 0) return fd;  // a low limit of descriptors
  ::close(fd);
  return high;
}

bool has_swap() {
  char text[4096];
  return !read_text("/proc/meminfo", text, sizeof text) || number_behind(text, "SwapTotal:") != 0;
}

bool read_all(int fd, std::uint64_t at, std::uint64_t end) {
  while (at < end) {
    const ssize_t got = ::pread(fd, pointer(at), end - at, static_cast<off_t>(at));
    if (got <= 0 && errno != EINTR) return false;
    if (got > 0) at += static_cast<std::uint64_t>(got);
  }
  return true;
}

bool write_all(int fd, std::uint64_t at, std::uint64_t end) {
  while (at < end) {
    const ssize_t put = ::pwrite(fd, pointer(at), end - at, static_cast<off_t>(at));
    if (put <= 0 && errno != EINTR) return false;
    if (put > 0) at += static_cast<std::uint64_t>(put);
  }
  return true;
}

}  // namespace

bool File::make_file() {
  const int fd = ::memfd_create("manyhands-heap", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return false;
  fd_ = high_descriptor(fd);
  struct stat facts {};
  if (::fstat(fd_, &facts) == 0) {
    device_ = facts.st_dev;
    inode_ = facts.st_ino;
  }
  if (::ftruncate(fd_, static_cast<off_t>(kFileBytes)) == 0 &&
      ::fcntl(fd_, F_ADD_SEALS, kSeals) == 0) {
    return true;
  }
  forget();
  return false;
}

bool File::make_header(std::uint64_t base, std::size_t bytes) {
  void* page = ::mmap(nullptr, sizeof(Header), kWritable, MAP_SHARED, fd_, 0);
  if (page == MAP_FAILED) return false;
  header_ = new (page) Header{};
  header_->layout = Header::kLayout;
  header_->base = base;
  header_->bytes.store(bytes, std::memory_order_release);
  header_->magic = Header::kMagic;
  return true;
}

bool File::open(std::size_t bytes) {
  if (!make_file()) return false;
  for (int i = 0; i < kTries; ++i) {
    const std::uint64_t base = kPlan.first_base + (random_bits() % kPlan.bases << 30U);
    if (!map_at(base, bytes, kWritable, fd_, base)) continue;
    if (!make_header(base, bytes)) {
      ::munmap(pointer(base), bytes);
      break;
    }
    base_.store(base, std::memory_order_relaxed);
    bytes_.store(bytes, std::memory_order_relaxed);
    become(State::shared);
    return true;
  }
  forget();
  return false;
}

// Without the file; what is mapped stays.
void File::forget() {
  const int fd = descriptor();
  if (fd >= 0) ::close(fd);
  fd_ = -1;
}

bool File::reaches(std::uint64_t address, std::size_t bytes) const {
  if (!shared()) return false;
  const auto within = [&](std::uint64_t start, std::uint64_t size) {
    return address - start < size && bytes <= size - (address - start);
  };
  if (within(base(), this->bytes())) return true;
  // Acquire: pairs with the release in move_in().
  const std::uint32_t count = static_count_.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < count; ++i) {
    if (within(statics_[i].address, statics_[i].bytes)) return true;
  }
  return false;
}

// By the mapping's last page, because the program may have given parts of the heap attributes of
// their own (madvise, mlock), which divides the mapping. No descriptor is needed.
bool File::grow(std::size_t bytes) {
  if (state() == State::retired || this->bytes() + bytes > kMaxHeapBytes) return false;
  const std::size_t page = page_bytes();
  const std::uint64_t end = base() + this->bytes();
  if (::mremap(pointer(end - page), page, page + bytes, 0) == MAP_FAILED) return false;
  bytes_.store(this->bytes() + bytes, std::memory_order_relaxed);
  if (shared()) header_->bytes.store(this->bytes(), std::memory_order_release);
  return true;
}

bool File::reserve(std::uint64_t address, std::size_t bytes) {
  const int fd = descriptor();
  if (fd < 0) return state() == State::copied;
  int answer = 0;
  do {
    answer = ::fallocate(fd, FALLOC_FL_KEEP_SIZE, static_cast<off_t>(address),
                         static_cast<off_t>(bytes));
  } while (answer != 0 && errno == EINTR);
  return answer == 0;
}

bool File::drop(std::uint64_t address, std::size_t bytes) const {
  if (state() == State::shared) return ::madvise(pointer(address), bytes, MADV_REMOVE) == 0;
  if (state() == State::copied) return ::madvise(pointer(address), bytes, MADV_DONTNEED) == 0;
  // What the file shows there is of no use to anybody.
  return map_over({address, bytes}, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
}

bool File::write(std::uint64_t address, std::size_t bytes) {
  return shared() && address + bytes <= kFileBytes && write_all(fd_, address, address + bytes);
}

bool File::move_in(const Span& span) {
  const std::uint32_t count = static_count_.load(std::memory_order_relaxed);
  if (!shared() || count == kMaxStatics || span.address + span.bytes > kFileBytes) return false;
  if (!map_over(span, MAP_SHARED, fd_)) return false;
  statics_[count] = span;
  header_->spans[count] = span;
  static_count_.store(count + 1, std::memory_order_release);
  header_->statics.store(count + 1, std::memory_order_release);
  return true;
}

int File::descriptor() const {
  const KeepErrno keep;
  struct stat facts {};
  const bool ours =
      fd_ >= 0 && ::fstat(fd_, &facts) == 0 && facts.st_dev == device_ && facts.st_ino == inode_;
  return ours ? fd_ : -1;
}

std::uint64_t File::resident() const {
  struct stat facts {};
  const int fd = descriptor();
  if (fd < 0 || ::fstat(fd, &facts) != 0) return 0;
  return static_cast<std::uint64_t>(facts.st_blocks) * 512;
}

std::uint64_t File::static_bytes() const {
  std::uint64_t bytes = 0;
  for (std::uint32_t i = 1; i < parts(); ++i) bytes += part(i).bytes;
  return bytes;
}

// All that is mapped from the file, the heap first.
std::uint32_t File::parts() const { return 1 + static_count_.load(std::memory_order_acquire); }

Span File::part(std::uint32_t index) const {
  return index == 0 ? Span{base(), bytes()} : statics_[index - 1];
}

// Holes stay holes.
bool File::copy_by_file(const Span& span, int fd) const {
  if (!map_over(span, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1)) return false;
  const auto end = static_cast<off_t>(span.address + span.bytes);
  for (auto at = static_cast<off_t>(span.address); at < end;) {
    const off_t data = ::lseek(fd, at, SEEK_DATA);
    if (data < 0 || data >= end) return data >= 0 || errno == ENXIO;
    const off_t hole = std::min(::lseek(fd, data, SEEK_HOLE), end);
    if (hole < 0) return false;
    if (!read_all(fd, static_cast<std::uint64_t>(data), static_cast<std::uint64_t>(hole))) {
      return false;
    }
    at = hole;
  }
  return true;
}

// For a program that has closed the descriptor. The kernel says which pages are in memory, but not
// which are swapped out: with swap, all are read.
bool File::copy_by_memory(const Span& span) const {
  constexpr std::size_t kPiece = kHugePage;
  const std::size_t page = page_bytes();
  const bool all = has_swap();
  unsigned char here[kPiece / 4096];
  for (std::uint64_t at = span.address; at < span.address + span.bytes; at += kPiece) {
    const std::size_t bytes = std::min<std::uint64_t>(kPiece, span.address + span.bytes - at);
    void* copy =
        ::mmap(nullptr, bytes, kWritable, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (copy == MAP_FAILED || ::mincore(pointer(at), bytes, here) != 0) return false;
    for (std::size_t i = 0; i < bytes / page; ++i) {
      if (!all && (here[i] & 1U) == 0) continue;
      std::memcpy(static_cast<std::byte*>(copy) + i * page, pointer(at + i * page), page);
    }
    constexpr int kTo = MREMAP_MAYMOVE | MREMAP_FIXED;
    if (::mremap(copy, bytes, bytes, kTo, pointer(at)) == MAP_FAILED) return false;
  }
  return true;
}

bool File::copy() {
  ::munmap(header_, sizeof(Header));
  header_ = nullptr;
  const int fd = descriptor();
  bool copied = true;
  for (std::uint32_t i = 0; i < parts() && copied; ++i) {
    copied = fd >= 0 ? copy_by_file(part(i), fd) : copy_by_memory(part(i));
  }
  if (copied) {
    become(State::copied);
    forget();
    return true;
  }
  retire();
  return false;
}

bool File::retire() {
  const int fd = descriptor();
  bool all = fd >= 0;
  for (std::uint32_t i = 0; i < parts() && all; ++i) {
    all = map_over(part(i), MAP_PRIVATE | MAP_NORESERVE, fd);
  }
  if (!all) return false;
  if (header_ != nullptr) header_->closed.store(1, std::memory_order_release);
  become(State::retired);
  return true;
}

}  // namespace mh::heap
