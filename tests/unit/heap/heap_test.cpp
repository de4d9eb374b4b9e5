// SPDX-License-Identifier: BSD-3-Clause
#include "heap/heap.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "support/child.hpp"
#include "support/deny.hpp"
#include "support/sanitizer.hpp"

namespace mh::heap {
namespace {

constexpr std::size_t kMega = 1U << 20U;
constexpr int kSkip = 77;

// Makes a heap that is never destroyed: the heap of a program, too, lives as long as its process.
Heap& fresh_heap(const Heap::Options& options = {}) {
  auto* heap = new Heap;  // NOLINT(cppcoreguidelines-owning-memory): see above
  static std::vector<std::unique_ptr<Heap>> all;
  all.emplace_back(heap);
  heap->start(options);
  return *heap;
}

std::uint64_t number(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

TEST(Heap, a_heap_that_was_not_started_serves_nothing) {
  Heap heap;
  EXPECT_EQ(heap.allocate(kMega, 1, false), nullptr);
  EXPECT_FALSE(heap.owns(&heap));
}

TEST(Heap, nothing_is_mapped_before_the_first_block) {
  Heap& heap = fresh_heap();
  EXPECT_EQ(heap.stats().mapped, 0U);
  ASSERT_NE(heap.allocate(kMega, 1, false), nullptr);
  EXPECT_GT(heap.stats().mapped, 0U);
}

TEST(Heap, blocks_are_zero_when_asked_for_also_where_they_were_used_before) {
  Heap& heap = fresh_heap();
  auto* block = static_cast<char*>(heap.allocate(kMega, 16, false));
  ASSERT_NE(block, nullptr);
  std::memset(block, 0x5a, kMega);
  heap.release(block);
  auto* again = static_cast<char*>(heap.allocate(kMega, 16, true));
  ASSERT_EQ(again, block) << "kept memory is used first";
  for (std::size_t i = 0; i < kMega; ++i) ASSERT_EQ(again[i], 0) << i;
}

TEST(Heap, any_alignment_is_kept) {
  Heap& heap = fresh_heap();
  for (std::size_t alignment = 1; alignment <= 64 * kMega; alignment *= 2) {
    for (const std::size_t bytes : {kThreshold, kMega + 1, 5 * kMega}) {
      void* block = heap.allocate(bytes, alignment, false);
      ASSERT_NE(block, nullptr) << alignment;
      EXPECT_EQ(number(block) % alignment, 0U) << alignment;
      EXPECT_EQ(number(block) % 16, 0U) << "malloc's own";
      EXPECT_GE(heap.usable(block), bytes);
      static_cast<char*>(block)[bytes - 1] = 1;
      heap.release(block);
    }
  }
  EXPECT_STREQ(heap.check(), nullptr);
}

TEST(Heap, equal_blocks_begin_at_different_offsets_in_their_pages) {
  Heap& heap = fresh_heap();
  std::set<std::uint64_t> offsets;
  for (int i = 0; i < 32; ++i) offsets.insert(number(heap.allocate(kMega, 16, false)) % 4096);
  EXPECT_GE(offsets.size(), 8U);
  for (const std::uint64_t offset : offsets) EXPECT_EQ(offset % 256, 0U);
}

TEST(Heap, what_does_not_begin_a_block_is_ignored) {
  Heap& heap = fresh_heap();
  auto* block = static_cast<char*>(heap.allocate(kMega, 16, false));
  heap.release(block + std::ptrdiff_t{4096} * 3);
  heap.release(block);
  heap.release(block);
  EXPECT_EQ(heap.usable(block), 0U);
  EXPECT_EQ(heap.resize(block, 2 * kMega), nullptr);
  EXPECT_STREQ(heap.check(), nullptr);
  EXPECT_EQ(heap.stats().used, 0U);
}

TEST(Heap, errno_is_left_alone) {
  Heap& heap = fresh_heap({.keep = 0});
  errno = 42;
  void* block = heap.allocate(kMega, 16, false);
  heap.release(block);
  EXPECT_EQ(heap.allocate(SIZE_MAX / 2, 16, false), nullptr);
  EXPECT_EQ(errno, 42);
}

TEST(Heap, more_than_the_machine_has_is_not_served) {
  Heap& heap = fresh_heap({.largest = 64 * kMega});
  EXPECT_NE(heap.allocate(64 * kMega, 16, false), nullptr);
  EXPECT_EQ(heap.allocate(64 * kMega + 1, 16, false), nullptr);
}

TEST(Heap, freed_memory_is_kept_up_to_the_bound_and_given_back_beyond) {
  Heap& heap = fresh_heap({.keep = 8 * kMega});
  std::vector<void*> blocks;
  for (int i = 0; i < 40; ++i) {
    blocks.push_back(heap.allocate(kMega, 16, false));
    std::memset(blocks.back(), 1, kMega);
  }
  EXPECT_GE(heap.stats().resident, 40 * kMega);
  for (void* block : blocks) heap.release(block);
  const Stats stats = heap.stats();
  EXPECT_LE(stats.kept, 8 * kMega);
  EXPECT_LE(stats.resident, 9 * kMega);
  EXPECT_GE(stats.returned, 30 * kMega);
  EXPECT_EQ(stats.used, 0U);
  heap.trim();
  EXPECT_LE(heap.stats().resident, kMega);
  EXPECT_STREQ(heap.check(), nullptr);
}

TEST(Heap, memory_that_was_given_back_reads_as_zero) {
  Heap& heap = fresh_heap({.keep = 0});
  for (int i = 0; i < 3; ++i) {
    auto* block = static_cast<char*>(heap.allocate(3 * kMega, 16, true));
    for (std::size_t at = 0; at < 3 * kMega; at += 512) ASSERT_EQ(block[at], 0);
    std::memset(block, 7, 3 * kMega);
    heap.release(block);
  }
}

TEST(HeapUnsanitized, locked_pages_that_cannot_be_given_back_are_kept) {
  Heap& heap = fresh_heap({.keep = 0});
  void* block = heap.allocate(kMega, 16, false);
  std::memset(block, 1, kMega);
  if (::mlock(block, 4096) != 0) GTEST_SKIP() << "nothing can be locked";
  heap.release(block);
  EXPECT_GT(heap.stats().kept, 0U);
  EXPECT_STREQ(heap.check(), nullptr);
}

TEST(Heap, statistics_count_the_pages_of_blocks) {
  constexpr std::size_t kPage = 4096;
  Heap& heap = fresh_heap();
  void* one = heap.allocate(kMega + 5, 16, false);
  void* two = heap.allocate(kMega, 16, false);
  EXPECT_GE(heap.stats().used, 2 * kMega + 5);
  EXPECT_LE(heap.stats().used, 2 * kMega + 5 + 4 * kPage);
  one = heap.resize(one, 3 * kMega);
  EXPECT_GE(heap.stats().used, 4 * kMega);
  heap.release(two);
  EXPECT_GE(heap.stats().used, 3 * kMega);
  EXPECT_LT(heap.stats().used, 4 * kMega + kMega / 2 + 4 * kPage);
  EXPECT_GE(heap.stats().peak, 4 * kMega);
  heap.release(one);
  EXPECT_EQ(heap.stats().used, 0U);
}

TEST(Heap, a_small_block_is_taken_again_by_the_thread_that_freed_it) {
  Heap& heap = fresh_heap();
  void* block = heap.allocate(kThreshold, 16, false);
  heap.release(block);
  EXPECT_EQ(heap.allocate(kThreshold + 1, 16, false), block);
  EXPECT_EQ(heap.usable(block), kThreshold + 1);
  EXPECT_EQ(heap.stats().blocks, 1U);
}

TEST(Heap, a_cached_block_is_zero_when_asked_for) {
  Heap& heap = fresh_heap();
  auto* block = static_cast<char*>(heap.allocate(kThreshold, 16, false));
  std::memset(block, 0x5a, kThreshold);
  heap.release(block);
  auto* again = static_cast<char*>(heap.allocate(kThreshold, 16, true));
  ASSERT_EQ(again, block);
  for (std::size_t at = 0; at < kThreshold; ++at) ASSERT_EQ(again[at], 0);
}

TEST(Heap, cached_blocks_count_as_used_until_they_are_trimmed) {
  Heap& heap = fresh_heap();
  for (std::size_t bytes = kThreshold; bytes <= 4 * kThreshold; bytes += 4096) {
    heap.release(heap.allocate(bytes, 16, false));
  }
  EXPECT_GT(heap.stats().used, 0U);
  heap.trim();
  EXPECT_EQ(heap.stats().used, 0U);
  EXPECT_EQ(heap.stats().kept, 0U);
  EXPECT_STREQ(heap.check(), nullptr);
}

TEST(Heap, a_bounded_heap_serves_a_quarter_of_what_its_budget_has_left) {
  Heap& heap = fresh_heap({.bounded = true});
  EXPECT_EQ(heap.allocate(Budget::kAtOnce / 3, 16, false), nullptr);
  std::vector<void*> blocks;
  for (int i = 0; i < 1000; ++i) {
    void* block = heap.allocate(kMega, 16, false);
    if (block != nullptr) blocks.push_back(block);
  }
  // The budget of shared memory grows with time: on a slow machine the test takes some seconds, and
  // the heap can make some blocks more.
  EXPECT_GE(blocks.size(), Budget::kAtOnce / kMega / 2);
  EXPECT_LE(blocks.size(), 200U);
  // Memory that is released and allocated again does not count against the budget.
  const std::uint64_t before = heap.stats().blocks;
  for (void* block : blocks) heap.release(block);
  for (void*& block : blocks) block = heap.allocate(kMega, 16, false);
  EXPECT_EQ(heap.stats().blocks, before + blocks.size());
}

TEST(Heap, a_bounded_heap_does_not_grow_a_block_past_its_budget) {
  Heap& heap = fresh_heap({.bounded = true});
  void* block = heap.allocate(kMega, 16, false);
  EXPECT_EQ(heap.resize(block, Budget::kAtOnce), nullptr);
  EXPECT_EQ(heap.usable(block), kMega);
  EXPECT_NE(heap.resize(block, 2 * kMega), nullptr);
}

TEST(Heap, a_block_that_grows_again_and_again_is_copied_seldom) {
  Heap& heap = fresh_heap();
  std::size_t bytes = kThreshold;
  void* block = heap.allocate(bytes, 16, false);
  int moves = 0;
  while (bytes < 128 * kMega) {
    // A second block behind the first block keeps the first block from growing in place.
    (void)heap.allocate(kThreshold, 16, false);
    bytes += kThreshold * 4;
    void* next = heap.resize(block, bytes);
    ASSERT_NE(next, nullptr);
    moves += next != block ? 1 : 0;
    block = next;
  }
  EXPECT_LE(moves, 40) << "of 512 steps";
}

TEST(Heap, a_block_that_shrinks_gives_its_end_back) {
  Heap& heap = fresh_heap();
  void* block = heap.allocate(64 * kMega, 16, false);
  EXPECT_EQ(heap.resize(block, kMega), block);
  EXPECT_LT(heap.usable(block), 2 * kMega);
}

TEST(HeapUnsanitized, a_limit_set_by_the_program_is_met_where_it_would_be_without_us) {
  test::Child child([] {
    Heap& heap = fresh_heap();
    void* before = heap.allocate(kMega, 16, false);
    heap.release(before);
    const rlimit value{8ULL << 30U, RLIM_INFINITY};
    if (::setrlimit(RLIMIT_AS, &value) != 0) return kSkip;
    if (heap.allocate(kMega, 16, false) != before) return 1;         // kept memory is not charged
    if (heap.allocate(100 * kMega, 16, false) != nullptr) return 2;  // left to the next allocator
    if (heap.allocate(4 * kMega, 16, false) != nullptr) return 3;
    return 0;
  });
  const int code = child.wait();
  if (code == kSkip) GTEST_SKIP() << "no limits here";
  EXPECT_EQ(code, 0);
}

TEST(Heap, without_a_memfd_there_is_no_heap) {
  test::Child child([] {
    if (!test::deny(SYS_memfd_create, EPERM)) return kSkip;
    Heap& heap = fresh_heap();
    return heap.allocate(kMega, 16, false) == nullptr && !heap.ensure_file() ? 0 : 1;
  });
  const int code = child.wait();
  if (code == kSkip) GTEST_SKIP() << "no seccomp here";
  EXPECT_EQ(code, 0);
}

TEST(Heap, memory_that_cannot_be_reserved_is_not_served) {
  test::Child child([] {
    Heap& heap = fresh_heap({.reserve = true});
    auto* good = static_cast<char*>(heap.allocate(kMega, 16, false));
    if (good == nullptr || heap.stats().resident < kMega) return 1;
    if (!test::deny(SYS_fallocate, ENOSPC)) return kSkip;
    if (heap.allocate(kMega, 16, false) != nullptr) return 2;
    heap.release(good);
    if (heap.allocate(kMega, 16, false) != good) return 3;
    return heap.check() == nullptr && heap.stats().used < 2 * kMega ? 0 : 4;
  });
  const int code = child.wait();
  if (code == kSkip) GTEST_SKIP() << "no seccomp here";
  EXPECT_EQ(code, 0);
}

TEST(Heap, a_program_that_closes_our_descriptor_keeps_its_memory) {
  Heap& heap = fresh_heap();
  auto* block = static_cast<char*>(heap.allocate(kMega, 16, false));
  const int fd = heap.file().descriptor();
  ASSERT_GE(fd, 0);
  ::close(fd);
  EXPECT_EQ(heap.file().descriptor(), -1);
  const int other = ::open("/dev/null", O_RDONLY);
  ASSERT_GE(::dup2(other, fd), 0);
  EXPECT_EQ(heap.file().descriptor(), -1) << "another file in its place is not ours";
  block[0] = 1;
  EXPECT_NE(heap.allocate(200 * kMega, 16, false), nullptr) << "growing needs no descriptor";
  ::close(other);
  ::close(fd);
}

// Kilobytes of shared memory that this process maps by huge pages.
std::uint64_t huge_shared_kilobytes() {
  std::ifstream maps("/proc/self/smaps_rollup");
  std::string name;
  for (std::uint64_t kilobytes = 0; maps >> name;) {
    if (name == "ShmemPmdMapped:" && maps >> kilobytes) return kilobytes;
  }
  return 0;
}

TEST(Heap, touched_memory_becomes_huge_where_private_memory_would_be) {
  if (!gather().collapse) GTEST_SKIP() << "this kernel cannot collapse pages";
  Heap& heap = fresh_heap({.promote = true, .promote_asked = true});
  auto* block = static_cast<char*>(heap.allocate(4 * kMega, 16, false));
  EXPECT_FALSE(Promotion::collapse(number(block) & ~(kHugePage - 1))) << "nobody has touched it";
  std::memset(block, 3, 4 * kMega);
  for (int i = 0; i < 200 && huge_shared_kilobytes() == 0; ++i) {
    heap.release(heap.allocate(kMega, 16, false));
    ::usleep(5000);
  }
  EXPECT_GT(huge_shared_kilobytes(), 0U);
  for (std::size_t at = 0; at < 4 * kMega; at += 4096) ASSERT_EQ(block[at], 3);
}

TEST(Promotion, is_idle_until_a_range_comes_and_when_all_of_it_has_been_looked_at) {
  Promotion promotion;
  EXPECT_TRUE(promotion.idle());
  promotion.add(kHugePage + 1, kHugePage);
  EXPECT_TRUE(promotion.idle()) << "no whole huge page in it";
  promotion.add(kHugePage, 2 * kHugePage);
  EXPECT_FALSE(promotion.idle());
  EXPECT_EQ(promotion.next(), kHugePage);
  promotion.settle(kHugePage, true);
  EXPECT_EQ(promotion.next(), 2 * kHugePage);
  EXPECT_EQ(promotion.next(), 0U) << "a pass is over";
  EXPECT_FALSE(promotion.idle()) << "untouched memory is looked at again";
  EXPECT_EQ(promotion.next(), kHugePage);
  promotion.settle(kHugePage, false);
  EXPECT_EQ(promotion.next(), 2 * kHugePage);
  EXPECT_EQ(promotion.next(), 0U);
  EXPECT_TRUE(promotion.idle());
}

// Uses a heap at random, and compares contents, overlap, alignment and statistics with a model.
class Player {
 public:
  Player(Heap& heap, unsigned seed) : heap_(heap), random_(seed) {}
  ~Player() {
    for (const Block& block : blocks_) heap_.release(block.at);
  }
  Player(const Player&) = delete;
  Player& operator=(const Player&) = delete;

  void step() {
    const auto what = random_() % 10;
    if (what < 4 && blocks_.size() < 40) return allocate();
    if (blocks_.empty()) return;
    Block& block = blocks_[random_() % blocks_.size()];
    check(block);
    if (what < 7) {
      heap_.release(block.at);
      block = blocks_.back();
      blocks_.pop_back();
    } else {
      resize(block);
    }
  }
  [[nodiscard]] bool right() const { return right_; }

 private:
  struct Block {
    std::uint64_t* at;
    std::size_t bytes;
    std::uint64_t seed;
  };
  std::size_t some_size() {
    return random_() % 20 == 0 ? random_() % (8 * kMega) + kThreshold
                               : random_() % (4 * kThreshold) + kThreshold;
  }
  // Calls `what` for the first word of each KB of the block, and for its last word.
  template <class Do>
  static void each(const Block& block, Do what) {
    const std::size_t words = block.bytes / 8;
    for (std::size_t i = 0; i < words; i += 128) what(block.at[i], block.seed + i);
    what(block.at[words - 1], block.seed + words - 1);
  }
  void fill(Block& block) {
    block.seed = random_() * std::uint64_t{0x9E3779B97F4A7C15};
    each(block, [](std::uint64_t& word, std::uint64_t value) { word = value; });
  }
  void check(const Block& block) {
    each(block, [&](const std::uint64_t& word, std::uint64_t value) { expect(word == value); });
    expect(heap_.usable(block.at) >= block.bytes);
  }
  void allocate() {
    const bool zero = random_() % 4 == 0;
    const std::size_t alignment = std::size_t{1} << (random_() % 16);
    Block block{nullptr, some_size(), 0};
    block.at = static_cast<std::uint64_t*>(heap_.allocate(block.bytes, alignment, zero));
    expect(block.at != nullptr && number(block.at) % alignment == 0);
    if (block.at == nullptr) return;
    if (zero) each(block, [&](const std::uint64_t& word, std::uint64_t) { expect(word == 0); });
    fill(block);
    blocks_.push_back(block);
  }
  void resize(Block& block) {
    const std::size_t bytes = some_size();
    auto* at = static_cast<std::uint64_t*>(heap_.resize(block.at, bytes));
    expect(at != nullptr);
    if (at == nullptr) return;
    // A resized block still has the words that each() wrote, up to the smaller of its old and new
    // sizes. The last word of the old size is not checked.
    const std::size_t words = std::min(bytes, block.bytes) / 8;
    for (std::size_t i = 0; i < words; i += 128) expect(at[i] == block.seed + i);
    block = {at, bytes, 0};
    fill(block);
  }
  void expect(bool holds) { right_ = right_ && holds; }

  Heap& heap_;
  std::mt19937 random_;
  std::vector<Block> blocks_;
  bool right_ = true;
};

TEST(Heap, random_use_keeps_contents) {
  for (unsigned seed = 1; seed <= (test::kSanitized ? 2U : 6U); ++seed) {
    Heap& heap = fresh_heap({.keep = std::uint64_t{seed % 3} * 16 * kMega});
    {
      Player player(heap, seed);
      for (int i = 0; i < 3000; ++i) player.step();
      EXPECT_TRUE(player.right()) << "seed " << seed;
      EXPECT_STREQ(heap.check(), nullptr);
    }
    heap.trim();
    EXPECT_EQ(heap.stats().used, 0U);
  }
}

TEST(Heap, eight_threads_at_random) {
  Heap& heap = fresh_heap({.keep = 4 * kMega});
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (unsigned seed = 0; seed < 8; ++seed) {
    threads.emplace_back([&, seed] {
      Player player(heap, seed);
      for (int i = 0; i < (test::kSanitized ? 150 : 1000); ++i) player.step();
      right += player.right() ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 8);
  heap.trim();
  EXPECT_STREQ(heap.check(), nullptr);
  EXPECT_EQ(heap.stats().used, 0U);
}

TEST(Heap, a_block_freed_by_another_thread_is_free) {
  Heap& heap = fresh_heap();
  void* block = nullptr;
  std::thread([&] { block = heap.allocate(kMega, 16, false); }).join();
  std::thread([&] { heap.release(block); }).join();
  EXPECT_EQ(heap.allocate(kMega, 16, false), block);
}

}  // namespace
}  // namespace mh::heap
