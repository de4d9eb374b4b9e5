// SPDX-License-Identifier: BSD-3-Clause
#include "heap/statics.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cstring>

#include "heap/calls.hpp"
#include "heap/conditions.hpp"
#include "heap/system.hpp"

namespace mh::heap {
namespace {

constexpr std::uint64_t kPagePresent = 1ULL << 63U;
constexpr std::uint64_t kPageSwapped = 1ULL << 62U;

bool one_thread() {
  char text[4096];
  if (!read_text("/proc/self/status", text, sizeof text)) return false;
  return std::strstr(text, "\nThreads:\t1\n") != nullptr;
}

// Writes the touched pages of the program's zero-filled memory [at, end) into the heap's file.
// /proc/self/pagemap has a word for each page, which tells whether the page was touched. False if
// pagemap cannot be read or there is no memory.
bool write_touched(File& file, int pagemap, std::uint64_t at, std::uint64_t end, std::size_t page) {
  std::uint64_t words[512];
  while (at < end) {
    const std::size_t pages = std::min<std::size_t>(512, (end - at) / page);
    const auto offset = static_cast<off_t>(at / page * sizeof words[0]);
    const auto bytes = static_cast<ssize_t>(pages * sizeof words[0]);
    if (call::pread(pagemap, words, static_cast<std::size_t>(bytes), offset) != bytes) return false;
    for (std::size_t i = 0; i < pages; ++i) {
      const bool touched = (words[i] & (kPagePresent | kPageSwapped)) != 0;
      if (touched && !file.write(at + i * page, page)) return false;
    }
    at += pages * page;
  }
  return true;
}

bool move(File& file, const Movable& part, std::size_t page) {
  const int pagemap = call::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  if (pagemap < 0) return false;
  const std::uint64_t end = part.span.address + part.span.bytes;
  const std::uint64_t data = std::min(part.data, end);
  const bool written = file.write(part.span.address, data - part.span.address) &&
                       write_touched(file, pagemap, data, end, page);
  call::close(pagemap);
  return written && file.move_in(part.span);
}

struct StaticsSearch {
  Movable found[kMaxStatics];
  std::size_t count = 0;
  std::size_t page = 0;
};

// Lists the segments of the program that can be moved into the heap's file. The program is the
// first object that dl_iterate_phdr() reports. Returns 1, so that no further object is reported.
int look_at_program(dl_phdr_info* info, std::size_t, void* data) {
  auto& search = *static_cast<StaticsSearch*>(data);
  for (int i = 0; i < info->dlpi_phnum && search.count < kMaxStatics; ++i) {
    const Movable part = movable(*info, info->dlpi_phdr[i], search.page);
    if (part.span.bytes >= kStaticThreshold) search.found[search.count++] = part;
  }
  return 1;
}

}  // namespace

Movable movable(const dl_phdr_info& info, const ElfW(Phdr) & segment, std::size_t page) {
  if (segment.p_type != PT_LOAD || (segment.p_flags & PF_W) == 0) return {};
  std::uint64_t start = info.dlpi_addr + segment.p_vaddr;
  // The span to be moved may have whole pages: the segment's first and last page belong to it
  // alone, since segments share no page, and brk begins behind the last segment.
  const std::uint64_t end = (start + segment.p_memsz + page - 1) & ~(page - 1);
  std::uint64_t data = start + segment.p_filesz;
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const ElfW(Phdr)& other = info.dlpi_phdr[i];
    const std::uint64_t from = info.dlpi_addr + other.p_vaddr;
    // The span to be moved begins behind the RELRO segment: the loader makes the pages of that
    // segment read-only, except the page in which it ends.
    if (other.p_type == PT_GNU_RELRO && from >= start && from < end) {
      start = from + other.p_memsz;
    }
  }
  start &= ~(page - 1);
  data = std::max(start, (data + page - 1) & ~(page - 1));
  if (start >= end) return {};
  return {{start, end - start}, data};
}

std::uint64_t move_statics(File& file, bool (*ready)(), std::uint64_t most) {
  StaticsSearch search;
  search.page = page_bytes();
  ::dl_iterate_phdr(look_at_program, &search);
  if (search.count == 0 || !one_thread() || !ready()) return 0;
  std::uint64_t moved = 0;
  for (std::size_t i = 0; i < search.count; ++i) {
    const std::uint64_t bytes = search.found[i].span.bytes;
    if (bytes <= most - moved && move(file, search.found[i], search.page)) moved += bytes;
  }
  return moved;
}

}  // namespace mh::heap
