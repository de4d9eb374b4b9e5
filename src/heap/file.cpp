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

#include "base/high_descriptor.hpp"
#include "heap/calls.hpp"
#include "heap/conditions.hpp"
#include "heap/maps.hpp"
#include "heap/system.hpp"

namespace mh::heap {
namespace {

constexpr int kWritable = PROT_READ | PROT_WRITE;

constexpr int kTries = 16;

constexpr int kAnonymous = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

bool map_over(const Span& span, int flags, int fd, int protection = kWritable) {
  const off_t offset = fd >= 0 ? static_cast<off_t>(span.address) : 0;
  return ::mmap(pointer(span.address), span.bytes, protection, flags | MAP_FIXED, fd, offset) !=
         MAP_FAILED;
}

bool protect(const Span& span, int protection) {
  return ::mprotect(pointer(span.address), span.bytes, protection) == 0;
}

// The intersection of two spans.
Span common(const Span& one, const Span& other) {
  const std::uint64_t start = std::max(one.address, other.address);
  const std::uint64_t end = std::min(one.address + one.bytes, other.address + other.bytes);
  return {start, end > start ? end - start : 0};
}

// The pages in which the bytes of a span lie.
Span whole_pages(const Span& span) {
  const std::uint64_t page = page_bytes();
  const std::uint64_t start = span.address & ~(page - 1);
  const std::uint64_t end = (span.address + span.bytes + page - 1) & ~(page - 1);
  return {start, end - start};
}

// Gives a descriptor a high number, so that the program's own descriptors get the numbers that they
// would have had.
int moved_up(int fd) {
  const int from = high_descriptor();
  const int high = from < 0 ? -1 : ::fcntl(fd, F_DUPFD_CLOEXEC, from);
  if (high < 0) return fd;
  call::close(fd);
  return high;
}

bool has_swap() {
  char text[4096];
  return !read_text("/proc/meminfo", text, sizeof text) || number_behind(text, "SwapTotal:") != 0;
}

bool read_all(int fd, std::uint64_t at, std::uint64_t end) {
  while (at < end) {
    const ssize_t got = call::pread(fd, pointer(at), end - at, static_cast<off_t>(at));
    if (got == 0 || (got < 0 && errno != EINTR)) return false;
    if (got > 0) at += static_cast<std::uint64_t>(got);
  }
  return true;
}

// Copies what the heap's file holds for a span into the private memory at the same addresses, which
// reads as zero before. Pages that the file does not hold (holes) are not touched.
bool read_data(const Span& span, int fd) {
  const auto end = static_cast<off_t>(span.address + span.bytes);
  for (auto at = static_cast<off_t>(span.address); at < end;) {
    const off_t data = ::lseek(fd, at, SEEK_DATA);
    if (data < 0 && errno != ENXIO) return false;
    if (data < 0 || data >= end) return true;
    const off_t hole = std::min(::lseek(fd, data, SEEK_HOLE), end);
    if (hole < 0) return false;
    if (!read_all(fd, static_cast<std::uint64_t>(data), static_cast<std::uint64_t>(hole))) {
      return false;
    }
    at = hole;
  }
  return true;
}

bool write_all(int fd, std::uint64_t at, std::uint64_t end) {
  while (at < end) {
    const ssize_t put = call::pwrite(fd, pointer(at), end - at, static_cast<off_t>(at));
    if (put == 0 || (put < 0 && errno != EINTR)) return false;
    if (put > 0) at += static_cast<std::uint64_t>(put);
  }
  return true;
}

}  // namespace

bool File::make_file() {
  const int fd = ::memfd_create("manyhands-heap", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return false;
  fd_ = moved_up(fd);
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
  void* page = ::mmap(nullptr, sizeof(HeapHeader), kWritable, MAP_SHARED, fd_, 0);
  if (page == MAP_FAILED) return false;
  header_ = new (page) HeapHeader{};
  header_->layout = HeapHeader::kLayout;
  header_->base = base;
  header_->bytes.store(bytes, std::memory_order_release);
  header_->magic = HeapHeader::kMagic;
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

// Closes the file; its mappings stay.
void File::forget() {
  const int fd = descriptor();
  if (fd >= 0) call::close(fd);
  fd_ = -1;
}

bool File::reaches(std::uint64_t address, std::size_t bytes) const {
  if (!shared()) return false;
  const auto within = [&](std::uint64_t start, std::uint64_t size) {
    return address - start < size && bytes <= size - (address - start);
  };
  if (within(base(), this->bytes())) return true;
  // Acquire: pairs with the release in move_in(), before which the static span was written.
  const std::uint32_t count = static_count_.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < count; ++i) {
    if (within(statics_[i].address, statics_[i].bytes)) return true;
  }
  return false;
}

bool File::touches(const Span& span) const {
  if (!shared() && state() != State::retired) return false;
  for (std::uint32_t i = 0; i < parts(); ++i) {
    if (common(part(i), span).bytes > 0) return true;
  }
  return false;
}

// Makes the heap longer by growing the mapping of its last page alone. The program may have split
// the heap's mapping by attributes of its blocks (madvise, mprotect), and mremap() takes no range
// of several mappings. The last page belongs to no block and has no such attributes. No descriptor
// is needed.
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
    answer = call::fallocate(fd, FALLOC_FL_KEEP_SIZE, static_cast<off_t>(address),
                             static_cast<off_t>(bytes));
  } while (answer != 0 && errno == EINTR);
  return answer == 0;
}

bool File::drop(std::uint64_t address, std::size_t bytes) const {
  if (state() == State::shared) return ::madvise(pointer(address), bytes, MADV_REMOVE) == 0;
  if (state() == State::copied) return ::madvise(pointer(address), bytes, MADV_DONTNEED) == 0;
  // The heap is retired (mapped copy-on-write). Its freed pages need nothing that the file holds,
  // so private memory without contents takes their place.
  return map_over({address, bytes}, kAnonymous, -1);
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

// The number of spans that this process maps from the file: the heap, which is the first, and the
// program's static arrays that were moved into the file.
std::uint32_t File::parts() const { return 1 + static_count_.load(std::memory_order_acquire); }

Span File::part(std::uint32_t index) const {
  return index == 0 ? Span{base(), bytes()} : statics_[index - 1];
}

// --- replacing mappings of the file by private memory ----------------------------------------

// Calls `by`, which replaces a mapping, for each mapping of the heap's file within a span. If
// /proc/self/maps cannot be read, the whole span is taken for one writable mapping of the file.
bool File::replace(const Span& within, Replace by, int fd) const {
  Maps maps;
  if (!maps.readable()) return (this->*by)(within, kWritable, fd);
  MapsEntry found;
  while (maps.next(found) && found.start < within.address + within.bytes) {
    // The heap maps each byte at address A from offset A of this file; other mappings are the
    // program's own.
    if (found.inode != inode_ || found.offset != found.start) continue;
    if (found.shared != shared()) continue;  // isolated, or made private by the program
    const Span span = common(within, {found.start, found.end - found.start});
    if (span.bytes > 0 && !(this->*by)(span, found.protection, fd)) return false;
  }
  return true;
}

bool File::replace_all(Replace by, int fd) const {
  bool all = true;
  for (std::uint32_t i = 0; i < parts() && all; ++i) all = replace(part(i), by, fd);
  return all;
}

// Replaces a mapping of the heap's file by a private copy, read from the file. If the copy fails,
// the span maps the file copy-on-write.
bool File::copy_by_file(const Span& span, int protection, int fd) const {
  if (!map_over(span, kAnonymous, -1)) return false;
  if (read_data(span, fd) && (protection == kWritable || protect(span, protection))) return true;
  map_copy_on_write(span, protection, fd);
  return false;
}

// Replaces a mapping of the heap's file by a private copy, read from memory: the program may have
// closed the file's descriptor. Copies only the pages that mincore() reports in memory. On a
// machine with swap it copies all pages, because mincore() does not report those that are swapped
// out.
bool File::copy_by_memory(const Span& span, int protection, int /*fd*/) const {
  constexpr std::size_t kPiece = kHugePage;
  const std::size_t page = page_bytes();
  const bool all = has_swap();
  unsigned char here[kPiece / 4096];
  if ((protection & PROT_READ) == 0 && !protect(span, PROT_READ)) return false;
  for (std::uint64_t at = span.address; at < span.address + span.bytes; at += kPiece) {
    const std::size_t bytes = std::min<std::uint64_t>(kPiece, span.address + span.bytes - at);
    void* copy = ::mmap(nullptr, bytes, kWritable, kAnonymous, -1, 0);
    if (copy == MAP_FAILED) return false;
    const bool known = ::mincore(pointer(at), bytes, here) == 0;
    for (std::size_t i = 0; known && i < bytes / page; ++i) {
      if (!all && (here[i] & 1U) == 0) continue;
      std::memcpy(static_cast<std::byte*>(copy) + i * page, pointer(at + i * page), page);
    }
    constexpr int kTo = MREMAP_MAYMOVE | MREMAP_FIXED;
    if (!known || ::mremap(copy, bytes, bytes, kTo, pointer(at)) == MAP_FAILED) {
      ::munmap(copy, bytes);
      return false;
    }
  }
  return protection == kWritable || protect(span, protection);
}

bool File::map_copy_on_write(const Span& span, int protection, int fd) const {
  return map_over(span, MAP_PRIVATE | MAP_NORESERVE, fd, protection);
}

bool File::map_nothing(const Span& span, int protection, int /*fd*/) const {
  return map_over(span, kAnonymous, -1, protection);
}

bool File::copy() {
  ::munmap(header_, sizeof(HeapHeader));
  header_ = nullptr;
  const int fd = descriptor();
  if (replace_all(fd >= 0 ? &File::copy_by_file : &File::copy_by_memory, fd)) {
    become(State::copied);
    forget();
    return true;
  }
  retire();
  return false;
}

bool File::retire() {
  const int fd = descriptor();
  if (fd < 0 || !replace_all(&File::map_copy_on_write, fd)) return false;
  if (header_ != nullptr) header_->closed.store(1, std::memory_order_release);
  become(State::retired);
  return true;
}

// --- isolated (private) spans of a shared heap -----------------------------------------------

void File::isolate(const Span& span) {
  const Span whole = whole_pages(span);
  for (std::uint32_t i = 0; i < parts() && shared(); ++i) {
    const Span pages = common(part(i), whole);
    if (pages.bytes > 0) isolate_part(pages);
  }
}

void File::isolate_part(const Span& span) {
  const std::uint32_t count = isolated();
  for (std::uint32_t i = 0; i < count; ++i) {
    if (common(isolated_[i], span).bytes == span.bytes) return;
  }
  if (count == kMaxIsolated || !replace(span, &File::copy_by_memory, -1)) {
    retire();
    return;
  }
  isolated_[count] = span;
  isolated_count_.store(count + 1, std::memory_order_relaxed);
}

bool File::is_isolated(const Span& span) const {
  for (std::uint32_t i = 0; i < isolated(); ++i) {
    if (common(isolated_[i], span).bytes > 0) return true;
  }
  return false;
}

// Maps the heap's file again over isolated (private) spans that lie wholly within `span`, the block
// being freed. A block that was shortened has left part of its isolated span to another block, so
// such a span stays private.
void File::share_again(const Span& span) {
  const int fd = descriptor();
  if (!shared() || fd < 0) return;
  for (std::uint32_t i = isolated(); i-- > 0;) {
    const Span& part = isolated_[i];
    if (common(part, span).bytes < part.bytes || !map_over(part, MAP_SHARED, fd)) continue;
    const std::uint32_t last = isolated() - 1;
    isolated_[i] = isolated_[last];
    isolated_count_.store(last, std::memory_order_relaxed);
  }
}

// Frees pages of the heap's file by its descriptor, and not by their addresses: a file which the
// program has mapped over the span stays untouched. False: there is no descriptor, or the kernel
// refuses.
bool File::punch(const Span& span) const {
  const int fd = descriptor();
  return fd >= 0 &&
         call::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                         static_cast<off_t>(span.address), static_cast<off_t>(span.bytes)) == 0;
}

// Makes a shared mapping of the heap's file read as zero without a descriptor.
bool File::zero(const Span& span, int protection, int /*fd*/) const {
  if (::madvise(pointer(span.address), span.bytes, MADV_REMOVE) == 0) return true;
  // The kernel removes no pages of a mapping that the program must not write to.
  if (protection != kWritable && !protect(span, kWritable)) return false;
  std::memset(pointer(span.address), 0, span.bytes);
  return protection == kWritable || protect(span, protection);
}

// The kernel has taken the advice for whole pages, so the last page counts as a whole. Pages of a
// retired heap, which are private, get a new mapping without contents.
void File::empty(const Span& span) const {
  const Span whole = whole_pages(span);
  for (std::uint32_t i = 0; i < parts(); ++i) {
    const Span pages = common(part(i), whole);
    if (pages.bytes == 0) continue;
    if (state() == State::retired) (void)replace(pages, &File::map_nothing, -1);
    if (shared() && !punch(pages)) (void)replace(pages, &File::zero, -1);
  }
}

}  // namespace mh::heap
