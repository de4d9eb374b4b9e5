// SPDX-License-Identifier: BSD-3-Clause
// Tests the way that a copy takes for each kind of view. Ranks whose heap is mapped have a pid that
// no process has, so a copy that uses the kernel for them fails.
#include "memory/reach.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "heap/heap.hpp"
#include "support/child.hpp"
#include "support/deny.hpp"

namespace mh::memory {
namespace {

using Bytes = std::vector<std::uint8_t>;
using KernelCopies = Reach::KernelCopies;

constexpr pid_t kNobody = 0x3fffffff;  // above the largest pid of Linux
constexpr std::size_t kBytes = 300'000;

View view_of(const void* address, pid_t pid = ::getpid(), std::uint32_t rank = 0) {
  return {reinterpret_cast<std::uint64_t>(address), pid, rank};
}

Bytes pattern(std::size_t bytes, std::uint8_t first) {
  Bytes all(bytes);
  std::iota(all.begin(), all.end(), first);
  return all;
}

test::Child sleeper() {
  return test::Child([] {
    ::pause();
    return 0;
  });
}

bool cma_works() {
  const int value = 1;
  int copy = 0;
  return read_remote(&copy, view_of(&value), sizeof value).ok();
}
#define SKIP_WITHOUT_CMA() \
  if (!cma_works()) GTEST_SKIP() << "process_vm_readv is not permitted here"

TEST(Reach, copies_within_one_process_also_onto_itself) {
  const Reach reach;
  const Bytes from = pattern(100'000, 3);
  Bytes to(from.size());
  EXPECT_TRUE(reach.copy(view_of(to.data()), view_of(from.data()), from.size(), {}).ok());
  EXPECT_EQ(to, from);
  ASSERT_TRUE(reach.copy(view_of(to.data() + 1), view_of(to.data()), 50'000, {}).ok());
  EXPECT_EQ(std::memcmp(to.data() + 1, from.data(), 50'000), 0);
}

TEST(Reach, nothing_to_copy_is_done) {
  EXPECT_TRUE(Reach().copy(view_of(nullptr), view_of(nullptr, 1), 0, {}).ok());
}

TEST(Reach, copies_to_and_from_another_process) {
  SKIP_WITHOUT_CMA();
  const Reach reach;
  Bytes shared_address = pattern(kBytes, 1);
  test::Child other = sleeper();
  const View there = view_of(shared_address.data(), other.pid());
  Bytes got(kBytes);
  ASSERT_TRUE(reach.copy(view_of(got.data()), there, kBytes, {}).ok());
  EXPECT_EQ(got, shared_address);
  const Bytes fresh = pattern(kBytes, 77);
  ASSERT_TRUE(reach.copy(there, view_of(fresh.data()), kBytes, {}).ok());
  ASSERT_TRUE(reach.read(got.data(), there, kBytes).ok());
  EXPECT_EQ(got, fresh);
}

TEST(Reach, a_third_party_copies_through_scratch_of_any_size) {
  SKIP_WITHOUT_CMA();
  const Reach reach;
  const Bytes from = pattern(10'000, 5);
  Bytes to(from.size());
  test::Child sender = sleeper();
  test::Child receiver = sleeper();
  const View there = view_of(to.data(), receiver.pid());
  for (const std::size_t scratch_bytes : {1000U, 9'999U, 10'000U, 65'536U}) {
    std::vector<std::byte> scratch(scratch_bytes);
    const Bytes cleared(to.size());
    ASSERT_TRUE(reach.write(there, cleared.data(), cleared.size()).ok());
    ASSERT_TRUE(reach.copy(there, view_of(from.data(), sender.pid()), from.size(), scratch).ok());
    Bytes got(to.size());
    ASSERT_TRUE(reach.read(got.data(), there, got.size()).ok());
    EXPECT_EQ(got, from) << scratch_bytes;
  }
}

TEST(Reach, a_third_party_without_scratch_says_so) {
  EXPECT_EQ(Reach().copy(view_of(nullptr, 2), view_of(nullptr, 1), 10, {}).code, Code::full);
}

TEST(Reach, where_the_kernel_shall_not_copy_only_own_memory_is_reached) {
  const Reach reach(0, 2, KernelCopies::no);
  const Bytes from = pattern(kBytes, 5);
  Bytes to(kBytes);
  EXPECT_TRUE(reach.copy(view_of(to.data()), view_of(from.data()), kBytes, {}).ok());
  EXPECT_EQ(to, from);
  const View peers = view_of(to.data(), ::getppid(), 1);
  EXPECT_EQ(reach.read(to.data(), peers, 1).code, Code::refused);
  EXPECT_EQ(reach.write(peers, to.data(), 1).code, Code::refused);
  EXPECT_EQ(reach.copy(view_of(to.data()), peers, 1, {}).code, Code::refused);
  EXPECT_EQ(reach.here(peers, 1), nullptr);
}

TEST(Reach, ranks_with_the_same_process_number_are_told_apart) {
  const Reach reach(1, 3, KernelCopies::yes);  // each rank is in a pid namespace of its own
  const int value = 0;
  EXPECT_TRUE(reach.is_own(view_of(&value, ::getpid(), 1)));
  EXPECT_FALSE(reach.is_own(view_of(&value, ::getpid(), 2)));
  EXPECT_EQ(reach.here(view_of(&value, ::getpid(), 2), sizeof value), nullptr);
}

// Rank 0 is this process. It has made the heaps of ranks 1 and 2 as well, and maps each a second
// time, as it would map the heap of another process.
struct Mapped : testing::Test {
  struct Peer {
    heap::Heap heap;
    std::uint32_t rank = 0;
    std::uint8_t* block = nullptr;
    [[nodiscard]] View view() const { return view_of(block, kNobody, rank); }
    [[nodiscard]] Bytes bytes() const { return {block, block + kBytes}; }
  };
  Mapped() {
    for (std::uint32_t rank = 1; rank <= 2; ++rank) {
      Peer& peer = peers[rank - 1];
      peer.heap.start({});
      peer.block = static_cast<std::uint8_t*>(peer.heap.allocate(kBytes, 16, false));
      peer.rank = rank;
      std::memcpy(peer.block, pattern(kBytes, static_cast<std::uint8_t>(rank)).data(), kBytes);
      Fd fd(::fcntl(peer.heap.file().descriptor(), F_DUPFD_CLOEXEC, 0));
      EXPECT_TRUE(reach.attach(rank, std::move(fd)).ok());
    }
  }
  Peer peers[2];
  Peer& one = peers[0];
  Peer& two = peers[1];
  Reach reach{0, 3, KernelCopies::yes};
};

TEST_F(Mapped, a_peers_heap_is_read_and_written_without_the_kernel) {
  Bytes own(kBytes);
  ASSERT_TRUE(reach.copy(view_of(own.data()), one.view(), kBytes, {}).ok());
  EXPECT_EQ(own, one.bytes());
  own = pattern(kBytes, 99);
  ASSERT_TRUE(reach.copy(one.view(), view_of(own.data()), kBytes, {}).ok());
  EXPECT_EQ(own, one.bytes());
  std::uint8_t some[3] = {};
  ASSERT_TRUE(reach.read(some, one.view(), 3).ok());
  EXPECT_EQ(some[2], 101);
  some[0] = 7;
  ASSERT_TRUE(reach.write(one.view(), some, 1).ok());
  EXPECT_EQ(one.block[0], 7);
}

TEST_F(Mapped, a_third_party_moves_bytes_once_and_needs_no_scratch) {
  EXPECT_TRUE(reach.copy(two.view(), one.view(), kBytes, {}).ok());
  EXPECT_EQ(two.bytes(), one.bytes());
}

TEST_F(Mapped, bytes_past_the_caches_are_the_same) {
  View to = two.view();
  to.address += 3;  // no whole cache line at either end
  EXPECT_TRUE(reach.copy(to, one.view(), kBytes - 70, {}, layout::CacheLevel::memory).ok());
  EXPECT_EQ(std::memcmp(two.block + 3, one.block, kBytes - 70), 0);
  EXPECT_EQ(two.block[2], 4);
  EXPECT_EQ(two.block[kBytes - 67], pattern(kBytes, 2)[kBytes - 67]);
}

TEST_F(Mapped, each_end_is_looked_at_by_itself) {
  SKIP_WITHOUT_CMA();
  Bytes on_the_stack = pattern(kBytes, 50);
  test::Child third = sleeper();
  const View unmapped = view_of(on_the_stack.data(), third.pid(), 2);
  ASSERT_TRUE(reach.copy(unmapped, one.view(), kBytes, {}).ok()) << "one move by the kernel";
  Bytes got(kBytes);
  ASSERT_TRUE(reach.read(got.data(), unmapped, kBytes).ok());
  EXPECT_EQ(got, one.bytes());
  ASSERT_TRUE(reach.copy(two.view(), unmapped, kBytes, {}).ok());
  EXPECT_EQ(two.bytes(), one.bytes());
}

TEST_F(Mapped, what_only_touches_a_heap_is_the_kernels) {
  const View across = {.address = one.heap.file().base() - 8, .pid = kNobody, .rank = 1};
  std::uint64_t words[2] = {};
  EXPECT_EQ(reach.here(across, sizeof words), nullptr);
  EXPECT_FALSE(reach.read(words, across, sizeof words).ok()) << "the kernel knows no such process";
}

TEST_F(Mapped, a_heap_that_its_owner_has_taken_back_is_not_used) {
  ASSERT_NE(reach.here(one.view(), kBytes), nullptr);
  ASSERT_TRUE(one.heap.file().retire());
  EXPECT_EQ(reach.here(one.view(), kBytes), nullptr);
  EXPECT_EQ(reach.to_here(one.view(), kBytes), nullptr);
  EXPECT_NE(reach.here(two.view(), kBytes), nullptr);
}

}  // namespace
}  // namespace mh::memory
