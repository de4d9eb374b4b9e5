// SPDX-License-Identifier: BSD-3-Clause
#include "heap/statics.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "heap/heap.hpp"
#include "heap/views.hpp"
#include "support/child.hpp"

namespace mh::heap {
namespace {

constexpr std::size_t kMega = 1U << 20U;

// Static arrays of this program: 3 MB in .bss and 2 MB in .data.
char zeros[3 * kMega];
char ones[2 * kMega] = {1};

std::uint64_t number(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

Heap* heap_of_child;
bool ready() { return heap_of_child->ensure_file(); }

int move_and_look() {
  static Heap heap;
  heap_of_child = &heap;
  heap.start({});
  zeros[kMega] = 5;
  ones[kMega] = 6;
  const std::uint64_t moved = move_statics(heap.file(), ready, UINT64_MAX);
  if (moved < 5 * kMega || heap.stats().statics != moved) return 1;
  if (zeros[kMega] != 5 || zeros[0] != 0 || ones[0] != 1 || ones[kMega] != 6) return 2;
  if (!heap.file().reaches(number(zeros), sizeof zeros)) return 3;
  if (!heap.file().reaches(number(ones), sizeof ones)) return 4;
  Views views(1);
  if (!views.attach(0, Fd(::dup(heap.file().descriptor())))) return 5;
  const std::byte* view = views.at(0, number(zeros), sizeof zeros);
  if (view == nullptr || view[kMega] != std::byte{5}) return 6;
  zeros[2 * kMega] = 7;
  if (view[2 * kMega] != std::byte{7}) return 7;
  return views.at(0, number(zeros) + (64 * kMega), 1) == nullptr ? 0 : 8;
}

// Sanitizers add threads and shadow memory of their own to the program, so these tests, in which
// the heap takes over its static arrays, do not run with them.
TEST(StaticsUnsanitized, large_arrays_keep_their_address_and_contents_and_are_seen_by_peers) {
  test::Child child(move_and_look);
  const int code = child.wait();
  EXPECT_EQ(code, 0);
}

TEST(StaticsUnsanitized, untouched_memory_stays_untouched) {
  test::Child child([] {
    static Heap heap;
    heap_of_child = &heap;
    heap.start({});
    const std::uint64_t moved = move_statics(heap.file(), ready, UINT64_MAX);
    return moved > 0 && heap.stats().resident < moved - 2 * kMega ? 0 : 1;
  });
  const int code = child.wait();
  EXPECT_EQ(code, 0);
}

ElfW(Phdr) part(std::uint32_t type, std::uint32_t flags, std::uint64_t at, std::uint64_t in_file,
                std::uint64_t in_memory) {
  ElfW(Phdr) header{};
  header.p_type = type;
  header.p_flags = flags;
  header.p_vaddr = at;
  header.p_filesz = in_file;
  header.p_memsz = in_memory;
  return header;
}

struct Segment {
  ElfW(Phdr) parts[2]{};
  dl_phdr_info info{};
  Movable look() {
    info.dlpi_addr = 0x10000000;
    info.dlpi_phdr = parts;
    info.dlpi_phnum = 2;
    return movable(info, parts[0], 4096);
  }
};

TEST(Statics, pages_that_stay_writable_are_moved_and_no_other) {
  Segment segment;
  segment.parts[0] = part(PT_LOAD, PF_R | PF_W, 0x1e10, 0x3000, 0x10'0100);
  segment.parts[1] = part(PT_GNU_RELRO, PF_R, 0x1e10, 0x1f0, 0x1f0);
  const Movable found = segment.look();
  EXPECT_EQ(found.span.address, 0x10002000U);
  EXPECT_EQ(found.span.address + found.span.bytes, 0x10102000U);
  EXPECT_EQ(found.data, 0x10005000U);
}

TEST(Statics, code_and_constants_are_left_alone) {
  Segment segment;
  segment.parts[0] = part(PT_LOAD, PF_R | PF_X, 0, 0, 0x100000);
  EXPECT_EQ(segment.look().span.bytes, 0U);
  segment.parts[0] = part(PT_TLS, PF_R | PF_W, 0, 0, 0x100000);
  EXPECT_EQ(segment.look().span.bytes, 0U);
}

TEST(Statics, the_page_in_which_constants_end_is_writable_and_moved) {
  Segment segment;
  segment.parts[0] = part(PT_LOAD, PF_R | PF_W, 0x1010, 0x5000, 0x200000);
  segment.parts[1] = part(PT_GNU_RELRO, PF_R, 0x1010, 0x2100, 0x2100);
  EXPECT_EQ(segment.look().span.address, 0x10003000U);
}

}  // namespace
}  // namespace mh::heap
