// SPDX-License-Identifier: BSD-3-Clause
#include "heap/views.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "heap/heap.hpp"
#include "node/segment.hpp"
#include "support/child.hpp"
#include "support/shared.hpp"

namespace mh::heap {
namespace {

constexpr std::size_t kMega = 1U << 20U;
constexpr std::chrono::milliseconds kPatience{20'000};

std::uint64_t number(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

Fd duplicate(int fd) { return Fd(::fcntl(fd, F_DUPFD_CLOEXEC, 0)); }

// A heap, and a view of it in the same process: the view has other addresses, but the same memory.
struct Mirror {
  Mirror() {
    heap.start({});
    EXPECT_TRUE(heap.ensure_file());
    EXPECT_TRUE(views.attach(1, duplicate(heap.file().descriptor())).ok());
  }
  char* block(std::size_t bytes) { return static_cast<char*>(heap.allocate(bytes, 16, false)); }
  const char* view(const char* block, std::size_t bytes) {
    return reinterpret_cast<const char*>(views.at(1, number(block), bytes));
  }
  Heap heap;
  Views views{3};
};

TEST(Views, a_peers_memory_is_seen_as_it_changes) {
  Mirror mirror;
  char* block = mirror.block(kMega);
  const char* view = mirror.view(block, kMega);
  ASSERT_NE(view, nullptr);
  EXPECT_NE(view, block);
  for (char value = 1; value < 5; ++value) {
    std::memset(block, value, kMega);
    EXPECT_EQ(std::memcmp(block, view, kMega), 0);
  }
}

TEST(Views, a_view_follows_a_heap_that_grows) {
  Mirror mirror;
  const char* first = mirror.view(mirror.block(kMega), 1);
  for (int i = 0; i < 8; ++i) {
    char* block = mirror.block(70 * kMega);
    block[69 * kMega] = static_cast<char>(i + 1);
    const char* view = mirror.view(block, 70 * kMega);
    ASSERT_NE(view, nullptr) << i;
    EXPECT_EQ(view[69 * kMega], i + 1);
    EXPECT_EQ(view - first, block - reinterpret_cast<char*>(mirror.heap.file().base()) -
                                (first - reinterpret_cast<const char*>(
                                             mirror.views.at(1, mirror.heap.file().base(), 1))));
  }
}

TEST(Views, what_lies_outside_is_not_within_reach) {
  Mirror mirror;
  char* block = mirror.block(kMega);
  const std::uint64_t end = mirror.heap.file().base() + mirror.heap.file().bytes();
  EXPECT_NE(mirror.views.at(1, end - 8, 8), nullptr);
  EXPECT_EQ(mirror.views.at(1, end - 8, 9), nullptr);
  EXPECT_EQ(mirror.views.at(1, end, 1), nullptr);
  EXPECT_EQ(mirror.views.at(1, mirror.heap.file().base() - 1, 1), nullptr);
  EXPECT_EQ(mirror.views.at(1, number(block), SIZE_MAX), nullptr);
  EXPECT_EQ(mirror.views.at(1, number(&mirror), 1), nullptr) << "the stack";
  EXPECT_EQ(mirror.views.at(1, 0, 1), nullptr);
  EXPECT_EQ(mirror.views.at(0, number(block), 1), nullptr) << "nobody is attached there";
}

TEST(Views, the_owner_knows_what_is_within_reach) {
  Mirror mirror;
  const File& file = mirror.heap.file();
  char* block = mirror.block(kMega);
  EXPECT_TRUE(file.reaches(number(block), kMega));
  EXPECT_TRUE(file.reaches(file.base(), file.bytes()));
  EXPECT_FALSE(file.reaches(file.base(), file.bytes() + 1));
  EXPECT_FALSE(file.reaches(number(block), SIZE_MAX));
  EXPECT_FALSE(file.reaches(number(&mirror), 1));
}

sigjmp_buf stray;
void caught(int) { siglongjmp(stray, 1); }

bool can_write(volatile char* at) {
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = caught;
  ::sigaction(SIGSEGV, &action, &before);
  volatile bool wrote = false;
  if (sigsetjmp(stray, 1) == 0) {
    *at = 5;
    wrote = true;
  }
  ::sigaction(SIGSEGV, &before, nullptr);
  return wrote;
}

TEST(Views, are_read_only_until_a_writer_asks) {
  Mirror mirror;
  char* block = mirror.block(kMega);
  block[7] = 1;
  auto* view = const_cast<char*>(mirror.view(block, kMega));
  EXPECT_FALSE(can_write(view + 7));
  std::byte* to = mirror.views.to(1, number(block), kMega);
  ASSERT_EQ(number(to), number(view)) << "at the same place";
  EXPECT_TRUE(can_write(view + 7));
  EXPECT_EQ(block[7], 5);
  char* later = mirror.block(200 * kMega);
  EXPECT_TRUE(can_write(reinterpret_cast<char*>(mirror.views.to(1, number(later), kMega))));
}

TEST(Views, have_nothing_before_and_behind_them) {
  Mirror mirror;
  const auto* start = mirror.views.at(1, mirror.heap.file().base(), 1);
  const auto* end = start + mirror.heap.file().bytes();
  unsigned char here = 0;
  EXPECT_EQ(::mincore(const_cast<std::byte*>(start) - 4096, 4096, &here), -1);
  EXPECT_EQ(::mincore(const_cast<std::byte*>(end), 4096, &here), -1);
}

TEST(Views, of_two_ranks_do_not_meet_and_differ_from_time_to_time) {
  Mirror one;
  Mirror other;
  Views views(2);
  ASSERT_TRUE(views.attach(0, duplicate(one.heap.file().descriptor())).ok());
  ASSERT_TRUE(views.attach(1, duplicate(other.heap.file().descriptor())).ok());
  char* mine = one.block(kMega);
  char* yours = other.block(kMega);
  *mine = 'a';
  *yours = 'b';
  EXPECT_EQ(*reinterpret_cast<const char*>(views.at(0, number(mine), 1)), 'a');
  EXPECT_EQ(*reinterpret_cast<const char*>(views.at(1, number(yours), 1)), 'b');
  EXPECT_EQ(views.at(0, number(yours), 1), nullptr);
}

TEST(Views, only_a_heap_is_attached_and_only_once) {
  Mirror mirror;
  EXPECT_EQ(mirror.views.attach(0, Fd(::open("/dev/zero", O_RDWR))).code, Code::mismatch);
  EXPECT_EQ(mirror.views.attach(0, Fd(::memfd_create("other", MFD_CLOEXEC))).code, Code::mismatch);
  EXPECT_EQ(mirror.views.attach(1, duplicate(mirror.heap.file().descriptor())).code,
            Code::mismatch);
  EXPECT_EQ(mirror.views.attach(3, duplicate(mirror.heap.file().descriptor())).code,
            Code::mismatch);
}

TEST(Views, a_retired_heap_is_out_of_reach) {
  test::Child child([] {
    Mirror mirror;
    char* block = mirror.block(kMega);
    if (mirror.view(block, 1) == nullptr) return 1;
    mirror.heap.file().retire();
    return mirror.view(block, 1) == nullptr && mirror.views.to(1, number(block), 1) == nullptr ? 0
                                                                                               : 2;
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST(Views, a_forked_child_has_none) {
  Mirror mirror;
  const char* view = mirror.view(mirror.block(kMega), kMega);
  test::Child child([&] {
    unsigned char here = 0;
    auto* page = reinterpret_cast<void*>(number(view) & ~4095ULL);
    return ::mincore(page, 4096, &here) == -1 ? 0 : 1;
  });
  EXPECT_EQ(child.wait(), 0);
}

// The memory that the ranks of the test share besides their heaps.
struct Board {
  test::Barrier barrier;
  std::atomic<std::uint64_t> blocks[4];
};

// Plays a rank that passes its heap to all ranks, attaches the heaps of all ranks, and uses their
// blocks.
int rank_of_node(std::uint32_t me, std::uint32_t ranks, node::Door* door,
                 const node::DoorName& name, Board& board) {
  Heap heap;
  heap.start({});
  Views views(ranks);
  if (!heap.ensure_file()) return 1;
  int attached = 0;
  const auto take = [&](std::uint32_t rank, Fd fd) {
    attached += views.attach(rank, std::move(fd)).ok() ? 1 : 0;
  };
  const int own = heap.file().descriptor();
  const Status given = door != nullptr ? door->exchange(me, ranks, own, take, kPatience)
                                       : node::Door::exchange_with(name, me, own, take, kPatience);
  if (!given || attached != static_cast<int>(ranks) - 1) return 2;
  auto* block = static_cast<char*>(heap.allocate(100 * kMega, 16, false));
  std::memset(block, static_cast<int>(me + 1), kMega);
  board.blocks[me] = number(block);
  board.barrier.wait(ranks);
  for (std::uint32_t peer = 0; peer < ranks; ++peer) {
    if (peer == me) continue;
    const std::byte* view = views.at(peer, board.blocks[peer], 100 * kMega);
    if (view == nullptr || view[kMega - 1] != static_cast<std::byte>(peer + 1)) return 3;
    std::byte* to = views.to(peer, board.blocks[peer] + 2 * kMega + me, 1);
    if (to == nullptr) return 4;
    *to = static_cast<std::byte>(100 + me);
  }
  board.barrier.wait(ranks);
  for (std::uint32_t peer = 0; peer < ranks; ++peer) {
    if (peer != me && block[2 * kMega + peer] != static_cast<char>(100 + peer)) return 5;
  }
  return 0;
}

TEST(Views, ranks_in_processes_of_their_own_reach_each_other) {
  constexpr std::uint32_t kRanks = 4;
  test::SharedMemory memory(sizeof(Board));
  auto& board = *new (memory.span().data()) Board{};
  Result<node::Door> door = node::Door::open();
  ASSERT_TRUE(door.ok());
  std::vector<test::Child> ranks;
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    ranks.emplace_back([&, rank] {
      return rank_of_node(rank, kRanks, rank == 0 ? &*door : nullptr, door->name(), board);
    });
  }
  for (test::Child& rank : ranks) EXPECT_EQ(rank.wait(), 0);
}

TEST(Views, threads_extend_a_view_together) {
  Mirror mirror;
  char* block = mirror.block(500 * kMega);
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] { right += mirror.view(block, 500 * kMega) != nullptr ? 1 : 0; });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 4);
}

}  // namespace
}  // namespace mh::heap
