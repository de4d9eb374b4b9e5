// SPDX-License-Identifier: BSD-3-Clause
// The job protocol: tests with a thief that pauses between two steps, then a stress test. The
// stress test reopens a job slot thousands of times while thieves are busy. The owner reads the
// results with plain loads, so ThreadSanitizer checks the memory orders.
#include "steal/job.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "support/sanitizer.hpp"

namespace mh::steal {

// Claims a chunk without the check for work that comes before a claim. A test can thus act between
// the two, as if a thief were preempted there.
struct JobTestAccess {
  static bool take(Job& job, Chunk& chunk, ClaimSide side = ClaimSide::owner) {
    return job.take(chunk, side);
  }
};

namespace {

constexpr int kReopened = test::kSanitized ? 3'000 : 20'000;

CopySpec work_of(std::uint64_t bytes, std::uint32_t chunk,
                 CopyOrder order = CopyOrder::low_to_high) {
  return {{0, 0, 0}, {0, 0, 0}, bytes, chunk, order};
}

std::vector<Chunk> all_chunks(Job& job) {
  std::vector<Chunk> chunks;
  for (Chunk chunk{}; job.claim(chunk);) chunks.push_back(chunk);
  return chunks;
}

void finish_all(Job& job, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) job.finish(true);
}

TEST(Job, a_new_slot_is_closed) {
  Job job;
  Chunk chunk{};
  EXPECT_FALSE(job.has_work());
  EXPECT_FALSE(job.claim(chunk));
}

TEST(Job, chunks_cover_every_byte_once_for_any_size_and_either_order) {
  std::mt19937_64 random(42);
  Job job;
  for (int round = 0; round < 2'000; ++round) {
    const std::uint64_t bytes = 1 + random() % 100'000;
    const auto chunk_bytes = static_cast<std::uint32_t>(1 + random() % 10'000);
    const CopyOrder order = round % 2 == 0 ? CopyOrder::low_to_high : CopyOrder::high_to_low;
    job.open(work_of(bytes, chunk_bytes, order));
    std::vector<Chunk> chunks = all_chunks(job);
    if (order == CopyOrder::high_to_low) std::reverse(chunks.begin(), chunks.end());
    std::uint64_t next = 0;
    for (const Chunk& chunk : chunks) {
      ASSERT_EQ(chunk.offset, next);
      ASSERT_GT(chunk.bytes, 0U);
      ASSERT_LE(chunk.bytes, chunk_bytes);
      next += chunk.bytes;
    }
    ASSERT_EQ(next, bytes);
    ASSERT_FALSE(job.finished() && !chunks.empty());
    finish_all(job, chunks.size());
    ASSERT_TRUE(job.finished());
  }
}

TEST(Job, claims_of_a_guided_job_get_shorter) {
  Job job;
  CopySpec work = work_of(128 * 10 - 5, 10);
  work.guided = true;
  job.open(work);
  std::uint32_t left = 128;
  for (const Chunk& chunk : all_chunks(job)) {
    EXPECT_EQ(chunk.count, std::clamp(left / kGuidedShares, 1U, kMostChunks));
    left -= chunk.count;
    EXPECT_EQ(chunk.bytes, left == 0 ? 5U : 10U * chunk.count);
  }
  EXPECT_EQ(left, 0U);
}

TEST(Job, the_first_chunk_of_an_owner_is_the_one_that_it_would_have_claimed) {
  for (const CopyOrder order :
       {CopyOrder::low_to_high, CopyOrder::high_to_low, CopyOrder::both_ends}) {
    for (const std::uint64_t bytes : {50U, 100U, 250U, 10'000U}) {
      CopySpec work = work_of(bytes, 100, order);
      work.guided = bytes > 1'000;
      Job opened;
      opened.open(work);
      const std::vector<Chunk> wanted = all_chunks(opened);
      Job claimed;
      Chunk first{};
      claimed.open(work, &first);
      std::vector<Chunk> chunks = all_chunks(claimed);
      chunks.insert(chunks.begin(), first);
      ASSERT_EQ(chunks.size(), wanted.size());
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        EXPECT_EQ(chunks[i].offset, wanted[i].offset);
        EXPECT_EQ(chunks[i].bytes, wanted[i].bytes);
      }
    }
  }
}

TEST(Job, chunks_of_guided_jobs_cover_every_byte_once_from_either_side) {
  std::mt19937_64 random(43);
  Job job;
  for (int round = 0; round < 2'000; ++round) {
    CopySpec work =
        work_of(1 + random() % 100'000, static_cast<std::uint32_t>(100 + random() % 900),
                static_cast<CopyOrder>(random() % 3));
    work.guided = true;
    job.open(work);
    std::vector<Chunk> chunks;
    for (Chunk chunk{}; job.claim(chunk, static_cast<ClaimSide>(random() % 2));) {
      chunks.push_back(chunk);
      ASSERT_FALSE(job.finished());
      job.finish(true, chunk.count);
    }
    ASSERT_TRUE(job.finished());
    std::sort(chunks.begin(), chunks.end(),
              [](const Chunk& a, const Chunk& b) { return a.offset < b.offset; });
    std::uint64_t next = 0;
    for (const Chunk& chunk : chunks) {
      ASSERT_EQ(chunk.offset, next);
      next += chunk.bytes;
    }
    ASSERT_EQ(next, work.bytes);
  }
}

TEST(Job, high_to_low_hands_out_the_end_first) {
  Job job;
  job.open(work_of(250, 100, CopyOrder::high_to_low));
  Chunk chunk{};
  ASSERT_TRUE(job.claim(chunk));
  EXPECT_EQ(chunk.offset, 200U);
  EXPECT_EQ(chunk.bytes, 50U);
}

TEST(Job, a_message_beyond_4_gigabytes_has_its_offsets_right) {
  Job job;
  constexpr std::uint64_t kBytes = (9ULL << 32U) + 5;
  job.open(work_of(kBytes, 1U << 30U, CopyOrder::high_to_low));
  Chunk chunk{};
  ASSERT_TRUE(job.claim(chunk));
  EXPECT_EQ(chunk.offset, 9ULL << 32U);
  EXPECT_EQ(chunk.bytes, 5U);
}

TEST(Job, one_failed_chunk_fails_the_job_and_the_next_one_is_clean) {
  Job job;
  job.open(work_of(300, 100));
  ASSERT_EQ(all_chunks(job).size(), 3U);
  job.finish(true);
  job.finish(false);
  job.finish(true);
  EXPECT_TRUE(job.finished());
  EXPECT_TRUE(job.failed());
  job.open(work_of(100, 100));
  ASSERT_EQ(all_chunks(job).size(), 1U);
  job.finish(true);
  EXPECT_FALSE(job.failed());
}

TEST(Job, a_chunk_in_the_hands_of_a_slow_thief_keeps_the_job_open) {
  Job job;
  job.open(work_of(300, 100));
  Chunk late{};
  ASSERT_TRUE(job.claim(late));
  finish_all(job, all_chunks(job).size());
  EXPECT_FALSE(job.has_work());
  EXPECT_FALSE(job.finished()) << "I2: the slot may not be written yet";
  job.finish(true);
  EXPECT_TRUE(job.finished());
}

// The thief has checked that there is work, and claims only after the end of the job.
TEST(Job, a_late_thief_gets_nothing_from_a_job_that_ended) {
  Job job;
  job.open(work_of(100, 100));
  ASSERT_TRUE(job.has_work());  // the thief's check
  finish_all(job, all_chunks(job).size());
  Chunk chunk{};
  for (int thief = 0; thief < 1000; ++thief) EXPECT_FALSE(JobTestAccess::take(job, chunk));
  EXPECT_TRUE(job.finished()) << "its claim changes nothing";
  EXPECT_FALSE(job.has_work());
}

TEST(Job, claims_of_late_thieves_do_not_eat_chunks_of_the_next_job) {
  Job job;
  job.open(work_of(100, 100));
  finish_all(job, all_chunks(job).size());
  Chunk chunk{};
  for (int thief = 0; thief < 1000; ++thief) ASSERT_FALSE(JobTestAccess::take(job, chunk));
  job.open(work_of(500, 100));
  EXPECT_EQ(all_chunks(job).size(), 5U);
}

// A thief that claims after the owner has opened the job slot again gets a valid
// chunk of the new job.
TEST(Job, a_late_thief_claims_from_the_new_job_of_the_slot) {
  Job job;
  job.open(work_of(100, 100));
  ASSERT_TRUE(job.has_work());  // the thief's check
  finish_all(job, all_chunks(job).size());
  job.open(work_of(7'000, 1'000));
  Chunk chunk{};
  ASSERT_TRUE(JobTestAccess::take(job, chunk));
  EXPECT_EQ(chunk.offset, 0U);
  EXPECT_EQ(chunk.bytes, 1'000U);
  EXPECT_EQ(job.work().bytes, 7'000U);
  const auto rest = all_chunks(job);
  EXPECT_EQ(rest.size(), 6U);
  finish_all(job, rest.size());
  EXPECT_FALSE(job.finished()) << "the late thief's chunk counts";
  job.finish(true);
  EXPECT_TRUE(job.finished());
}

TEST(Job, a_thief_that_finishes_late_holds_the_owner_until_it_does) {
  Job job;
  std::vector<int> bytes(2, 0);
  std::atomic<bool> claimed{false};
  std::atomic<bool> go_on{false};
  job.open(work_of(2, 1));
  std::thread thief([&] {
    Chunk chunk{};
    if (!job.claim(chunk)) return;
    claimed.store(true);
    while (!go_on.load()) std::this_thread::yield();
    bytes[chunk.offset] = 1;
    job.finish(true);
  });
  while (!claimed.load()) std::this_thread::yield();
  for (Chunk chunk{}; job.claim(chunk);) {
    bytes[chunk.offset] = 1;
    job.finish(true);
  }
  for (int i = 0; i < 100; ++i) {
    ASSERT_FALSE(job.finished());
    std::this_thread::yield();
  }
  go_on.store(true);
  while (!job.finished()) std::this_thread::yield();
  EXPECT_EQ(bytes, std::vector<int>(2, 1));  // plain reads, which only finished() orders
  thief.join();
}

// Thieves add one to each cell (a plain integer) of the chunks that they claim. The address in
// work().to is not an address here, but the number of the round.
struct Stress {
  static constexpr std::uint32_t kMaxBytes = 64;
  Job job;
  std::vector<std::uint32_t> cells = std::vector<std::uint32_t>(kMaxBytes, 0);
  std::atomic<bool> over{false};
  std::atomic<std::uint64_t> helped{0};

  bool help(ClaimSide side) {
    Chunk chunk{};
    if (!job.claim(chunk, side)) return false;
    const CopySpec work = job.work();
    bool right = work.to.address == work.from.address;
    for (std::uint64_t i = chunk.offset; i < chunk.offset + chunk.bytes; ++i) {
      right = right && cells[i] + 1 == work.to.address;  // one addition in each earlier round
      ++cells[i];
    }
    job.finish(right, chunk.count);
    return true;
  }

  void thief() {
    while (!over.load(std::memory_order_relaxed)) {
      if (help(ClaimSide::other)) {
        helped.fetch_add(1, std::memory_order_relaxed);
      } else {
        ::sched_yield();
      }
    }
  }
};

TEST(Job, from_both_ends_the_owner_takes_the_low_chunks_and_all_others_the_high_ones) {
  Job job;
  job.open(work_of(550, 100, CopyOrder::both_ends));
  std::vector<std::uint64_t> offsets;
  for (const ClaimSide side : {ClaimSide::other, ClaimSide::owner, ClaimSide::owner,
                               ClaimSide::other, ClaimSide::owner, ClaimSide::other}) {
    Chunk chunk{};
    ASSERT_TRUE(job.claim(chunk, side));
    offsets.push_back(chunk.offset);
    EXPECT_EQ(chunk.bytes, chunk.offset == 500 ? 50U : 100U);
    job.finish(true);
  }
  EXPECT_EQ(offsets, (std::vector<std::uint64_t>{500, 0, 100, 400, 200, 300}));
  Chunk chunk{};
  EXPECT_FALSE(job.claim(chunk, ClaimSide::owner));
  EXPECT_FALSE(job.claim(chunk, ClaimSide::other));
  EXPECT_TRUE(job.finished());
}

TEST(Job, claims_go_from_region_to_region) {
  CopySpec work = work_of(700, 100, CopyOrder::both_ends);
  work.region_chunks = 2;  // regions of the chunks 0 1, 2 3, 4 5; chunk 6 is in no region
  Job job;
  job.open(work);
  std::vector<std::uint64_t> owner;
  std::vector<std::uint64_t> others;
  for (int i = 0; i < 3; ++i) {
    Chunk chunk{};
    ASSERT_TRUE(job.claim(chunk, ClaimSide::owner));
    owner.push_back(chunk.offset);
    ASSERT_TRUE(job.claim(chunk, ClaimSide::other));
    others.push_back(chunk.offset);
  }
  EXPECT_EQ(owner, (std::vector<std::uint64_t>{0, 200, 400}));
  EXPECT_EQ(others, (std::vector<std::uint64_t>{600, 500, 300}));
  Chunk last{};
  ASSERT_TRUE(job.claim(last, ClaimSide::other));
  EXPECT_EQ(last.offset, 100U);
  EXPECT_FALSE(job.claim(last, ClaimSide::owner));
}

TEST(Job, an_order_from_one_end_does_not_ask_who_claims) {
  for (const CopyOrder order : {CopyOrder::low_to_high, CopyOrder::high_to_low}) {
    Job job;
    job.open(work_of(300, 100, order));
    std::vector<std::uint64_t> offsets;
    for (const ClaimSide side : {ClaimSide::other, ClaimSide::owner, ClaimSide::other}) {
      Chunk chunk{};
      ASSERT_TRUE(job.claim(chunk, side));
      offsets.push_back(chunk.offset);
    }
    if (order == CopyOrder::high_to_low) std::reverse(offsets.begin(), offsets.end());
    EXPECT_EQ(offsets, (std::vector<std::uint64_t>{0, 100, 200}));
  }
}

TEST(Job, late_claims_for_others_leave_no_trace_in_the_next_job) {
  Job job;
  Chunk chunk{};
  job.open(work_of(100, 100, CopyOrder::both_ends));
  ASSERT_TRUE(job.claim(chunk));
  job.finish(true);
  for (int thief = 0; thief < 1000; ++thief) {
    ASSERT_FALSE(JobTestAccess::take(job, chunk, ClaimSide::other));
  }
  job.open(work_of(200, 100, CopyOrder::both_ends));
  ASSERT_TRUE(job.claim(chunk, ClaimSide::other));
  EXPECT_EQ(chunk.offset, 100U);
  ASSERT_TRUE(job.claim(chunk, ClaimSide::owner));
  EXPECT_EQ(chunk.offset, 0U);
}

TEST(Job, thousands_of_reopened_jobs_touch_each_byte_exactly_once) {
  auto stress = std::make_unique<Stress>();
  std::vector<std::thread> thieves;
  for (int i = 0; i < 3; ++i) thieves.emplace_back([&] { stress->thief(); });
  std::mt19937 random(7);
  bool right = true;
  for (std::uint32_t round = 1; right && round <= kReopened; ++round) {
    CopySpec work =
        work_of(Stress::kMaxBytes, 1 + random() % 16, static_cast<CopyOrder>(random() % 3));
    work.guided = random() % 2 == 0;
    work.to.address = work.from.address = round;
    stress->job.open(work);
    // In every fourth round the owner claims no chunk, so the thieves do all the work.
    while (!stress->job.finished()) {
      if (round % 4 == 0 || !stress->help(ClaimSide::owner)) ::sched_yield();
    }
    right = !stress->job.failed() && std::all_of(stress->cells.begin(), stress->cells.end(),
                                                 [&](std::uint32_t cell) { return cell == round; });
  }
  stress->over.store(true);
  for (auto& thief : thieves) thief.join();
  EXPECT_TRUE(right);
  EXPECT_GT(stress->helped.load(), 0U) << "the thieves never came to work: nothing was tested";
}

}  // namespace
}  // namespace mh::steal
