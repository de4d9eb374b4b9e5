// SPDX-License-Identifier: BSD-3-Clause
#include "p2p/pipeline.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

namespace mh::p2p {

// Reads the word on which threads claim the next chunk to fill. A claim that is delayed between its
// load and its compare-and-swap may find the same number of claimed chunks in a later message of
// the pipeline. The word also has the number of the message (the use), so that the two values
// differ.
struct PipelineTestAccess {
  static std::uint64_t fills(const Pipeline& pipeline) { return pipeline.fills_.load(); }
};

namespace {

constexpr std::uint64_t kChunk = 64;
constexpr std::uint64_t kBytes = 100 * kChunk + 7;
constexpr std::uint32_t kMany = 1000;  // number of chunks
constexpr std::uint32_t kCells = 8;
constexpr std::uint64_t kRoom = kCells * kChunk;

class PipelineTest : public testing::Test {
 protected:
  std::unique_ptr<Pipeline> pipeline_ = std::make_unique<Pipeline>();
  PipelineChunk stretch_{};
};

TEST_F(PipelineTest, chunks_are_cut_in_order_and_the_last_one_is_short) {
  const std::uint32_t use = pipeline_->open(kBytes, kChunk, kRoom);
  for (std::uint32_t i = 0; i <= 100; ++i) {
    ASSERT_TRUE(pipeline_->claim_fill(use, stretch_));
    EXPECT_EQ(stretch_.offset, std::uint64_t{i} * kChunk);
    EXPECT_EQ(stretch_.bytes, i < 100 ? kChunk : 7U);
    pipeline_->filled(stretch_);
    ASSERT_TRUE(pipeline_->claim_drain(use, stretch_));
    EXPECT_EQ(stretch_.offset, i * kChunk);
    EXPECT_FALSE(pipeline_->over());
    pipeline_->drained(stretch_);
  }
  EXPECT_TRUE(pipeline_->over());
  EXPECT_FALSE(pipeline_->claim_fill(use, stretch_));
  EXPECT_FALSE(pipeline_->claim_drain(use, stretch_));
}

TEST_F(PipelineTest, no_more_is_filled_than_there_are_cells) {
  const std::uint32_t use = pipeline_->open(kBytes, kChunk, kRoom);
  std::vector<PipelineChunk> filled(kCells);
  for (PipelineChunk& one : filled) ASSERT_TRUE(pipeline_->claim_fill(use, one));
  EXPECT_FALSE(pipeline_->claim_fill(use, stretch_));
  EXPECT_FALSE(pipeline_->claim_drain(use, stretch_)) << "a claimed cell is not filled yet";
  pipeline_->filled(filled[0]);
  ASSERT_TRUE(pipeline_->claim_drain(use, stretch_));
  EXPECT_FALSE(pipeline_->claim_fill(use, filled[2])) << "the cell is still being drained";
  pipeline_->drained(stretch_);
  EXPECT_TRUE(pipeline_->claim_fill(use, stretch_));
  EXPECT_EQ(stretch_.offset, kCells * kChunk);
}

TEST_F(PipelineTest, a_stalled_filler_holds_no_drain_up) {
  const std::uint32_t use = pipeline_->open(kBytes, kChunk, kRoom);
  std::vector<PipelineChunk> filled(kCells);
  for (PipelineChunk& one : filled) ASSERT_TRUE(pipeline_->claim_fill(use, one));
  for (std::uint32_t i = kCells; i-- > 1;) {  // from the last cell to the second cell
    pipeline_->filled(filled[i]);
    EXPECT_TRUE(pipeline_->drains_are_worth_lending(use, kMany)) << i;
    ASSERT_TRUE(pipeline_->claim_drain(use, stretch_)) << i;
    EXPECT_EQ(stretch_.offset, i * kChunk);
    EXPECT_EQ(stretch_.place, filled[i].place);
    PipelineChunk none{};
    EXPECT_FALSE(pipeline_->claim_drain(use, none)) << "no other is full";
    pipeline_->drained(stretch_);
  }
  EXPECT_EQ(pipeline_->drains_left(use), 101 - (kCells - 1));
  EXPECT_FALSE(pipeline_->claim_fill(use, stretch_)) << "the next chunk has the first cell";
  EXPECT_FALSE(pipeline_->fills_are_worth_lending(use, 1));
}

TEST_F(PipelineTest, chunks_go_from_the_high_end_where_that_is_asked_for) {
  const std::uint32_t use = pipeline_->open(kBytes, kChunk, kRoom, steal::CopyOrder::high_to_low);
  for (std::uint32_t i = 0; i <= 100; ++i) {
    ASSERT_TRUE(pipeline_->claim_fill(use, stretch_));
    EXPECT_EQ(stretch_.offset, (100ULL - i) * kChunk);
    EXPECT_EQ(stretch_.bytes, i == 0 ? 7U : kChunk) << "the last chunk is short";
    EXPECT_EQ(stretch_.cell, i % kCells);
    pipeline_->filled(stretch_);
    ASSERT_TRUE(pipeline_->claim_drain(use, stretch_));
    EXPECT_EQ(stretch_.offset, (100ULL - i) * kChunk);
    pipeline_->drained(stretch_);
  }
  EXPECT_TRUE(pipeline_->over());
}

// Returns where each chunk of a message lies: its offset in the memory of the cells. Each chunk is
// filled and drained before the next one is claimed.
std::vector<std::uint64_t> places_of(Pipeline& pipeline, std::uint64_t bytes, std::uint32_t chunk,
                                     std::uint64_t room) {
  std::vector<std::uint64_t> places;
  const std::uint32_t use = pipeline.open(bytes, chunk, room);
  PipelineChunk stretch{};
  while (pipeline.claim_fill(use, stretch)) {
    places.push_back(stretch.place);
    pipeline.filled(stretch);
    EXPECT_TRUE(pipeline.claim_drain(use, stretch));
    pipeline.drained(stretch);
  }
  EXPECT_TRUE(pipeline.over());
  return places;
}

TEST_F(PipelineTest, messages_lie_one_behind_the_other_until_the_cells_are_used_up) {
  constexpr std::uint64_t kPlaces = 10 * kChunk;
  using Places = std::vector<std::uint64_t>;
  const auto places = [&](std::uint64_t bytes, std::uint32_t chunk) {
    return places_of(*pipeline_, bytes, chunk, kPlaces);
  };
  EXPECT_EQ(places(2ULL * kChunk + 1, kChunk), (Places{0, kChunk, 2 * kChunk}));
  EXPECT_EQ(places(1, 2 * kChunk), (Places{3 * kChunk}));
  EXPECT_EQ(places(5ULL * kChunk, kChunk),
            (Places{5 * kChunk, 6 * kChunk, 7 * kChunk, 8 * kChunk, 9 * kChunk}));
  EXPECT_EQ(places(1, kChunk), (Places{0})) << "again from the beginning";
  EXPECT_EQ(places(1, kPlaces), (Places{0})) << "no room behind the last";
}

TEST_F(PipelineTest, no_place_is_used_twice_before_the_cells_are_used_up) {
  constexpr std::uint64_t kPlaces = 12 * kChunk + 5;
  const std::vector<std::uint64_t> places = places_of(*pipeline_, kBytes, kChunk, kPlaces);
  ASSERT_EQ(places.size(), 101U);
  for (std::size_t i = 0; i < places.size(); ++i) EXPECT_EQ(places[i], i % 12 * kChunk) << i;
}

TEST_F(PipelineTest, cells_of_any_size_stay_within_the_pipeline) {
  for (std::uint64_t room = 8; room < 200; room += 7) {
    for (std::uint32_t chunk = 1; chunk <= room; chunk += 7) {
      for (const std::uint64_t bytes :
           {std::uint64_t{chunk} - 1, std::uint64_t{5} * chunk + 2, room}) {
        for (const std::uint64_t place : places_of(*pipeline_, bytes + 1, chunk, room)) {
          ASSERT_LE(place + chunk, room) << room << ' ' << chunk << ' ' << bytes;
        }
      }
    }
  }
}

TEST_F(PipelineTest, a_message_has_no_more_cells_than_can_be_told_apart) {
  constexpr std::uint64_t kPlaces = 10ULL * Pipeline::kMostCells * kChunk;
  const std::uint32_t use = pipeline_->open(3ULL * Pipeline::kMostCells * kChunk, kChunk, kPlaces);
  for (std::uint32_t i = 0; i < Pipeline::kMostCells; ++i) {
    ASSERT_TRUE(pipeline_->claim_fill(use, stretch_));
    EXPECT_EQ(stretch_.cell, i);
  }
  EXPECT_FALSE(pipeline_->claim_fill(use, stretch_));
}

// A third rank lends its core for a single remaining chunk if the end (sender or receiver) that
// must move the chunk has no thread at work.
TEST_F(PipelineTest, a_single_chunk_is_worth_a_core_where_nobody_is_at_work) {
  const std::uint32_t use = pipeline_->open(2ULL * kChunk, kChunk, kRoom);
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(pipeline_->fills_are_worth_lending(use, kMany));
    EXPECT_FALSE(pipeline_->drains_are_worth_lending(use, kMany)) << "nothing is filled";
    ASSERT_TRUE(pipeline_->claim_fill(use, stretch_));
    EXPECT_FALSE(pipeline_->fills_are_worth_lending(use, kMany)) << "the sender is there";
    EXPECT_FALSE(pipeline_->drains_are_worth_lending(use, kMany)) << "not filled yet";
    pipeline_->filled(stretch_);
    EXPECT_TRUE(pipeline_->drains_are_worth_lending(use, kMany));
    ASSERT_TRUE(pipeline_->claim_drain(use, stretch_));
    EXPECT_FALSE(pipeline_->drains_are_worth_lending(use, kMany)) << "nothing is left to drain";
    pipeline_->drained(stretch_);
  }
  EXPECT_FALSE(pipeline_->fills_are_worth_lending(use, kMany));
  EXPECT_FALSE(pipeline_->drains_are_worth_lending(use, kMany));
}

TEST_F(PipelineTest, an_end_that_is_at_work_is_lent_a_core_for_many_chunks_only) {
  constexpr std::uint32_t kLeast = 3;
  const std::uint32_t use = pipeline_->open(kBytes, kChunk, kRoom);
  std::vector<PipelineChunk> filled(kCells);
  for (std::uint32_t i = 0; i < kCells; ++i) {
    EXPECT_EQ(pipeline_->fills_are_worth_lending(use, kLeast), kCells - i >= kLeast) << i;
    ASSERT_TRUE(pipeline_->claim_fill(use, filled[i]));
  }
  EXPECT_FALSE(pipeline_->fills_are_worth_lending(use, kLeast)) << "no cell is free";
  for (const PipelineChunk& one : filled) pipeline_->filled(one);
  for (std::uint32_t left = kCells; left-- > 0;) {
    ASSERT_TRUE(pipeline_->claim_drain(use, stretch_));
    EXPECT_EQ(pipeline_->drains_are_worth_lending(use, kLeast), left >= kLeast) << left;
  }
}

TEST_F(PipelineTest, a_claim_for_an_earlier_use_gets_nothing) {
  const std::uint32_t first = pipeline_->open(kChunk, kChunk, kRoom);
  ASSERT_TRUE(pipeline_->claim_fill(first, stretch_));
  pipeline_->filled(stretch_);
  ASSERT_TRUE(pipeline_->claim_drain(first, stretch_));
  pipeline_->drained(stretch_);
  const std::uint32_t second = pipeline_->open(kBytes, kChunk, kRoom);
  EXPECT_NE(first, second);
  EXPECT_FALSE(pipeline_->claim_fill(first, stretch_));
  EXPECT_FALSE(pipeline_->claim_drain(first, stretch_));
  EXPECT_FALSE(pipeline_->fills_are_worth_lending(first, 1));
  EXPECT_FALSE(pipeline_->drains_are_worth_lending(first, 1));
  EXPECT_EQ(PipelineTestAccess::fills(*pipeline_), (std::uint64_t{second} << 32U) + 101);
}

// Sends messages one after another through one pipeline, with several threads that fill cells and
// several that drain them. A late thread may claim with the use number of an earlier message, and
// must get nothing.
class Crowd {
 public:
  static constexpr std::uint32_t kMessages = 300;
  static constexpr int kThreads = 3;

  void run() {
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([this] { fill(); });
      threads.emplace_back([this] { drain(); });
    }
    for (std::uint32_t message = 0; message < kMessages; ++message) receive(message);
    ending_.store(true);
    for (std::thread& thread : threads) thread.join();
  }

 private:
  static unsigned char value(std::uint32_t message, std::uint64_t at) {
    return static_cast<unsigned char>(31ULL * message + at / 3);
  }

  void receive(std::uint32_t message) {
    const std::uint64_t bytes = 1 + (message * std::uint64_t{7919}) % (40 * kChunk);
    const std::uint32_t chunk = message % 3 == 0 ? 33 : 64;
    to_.assign(bytes, 0);
    message_ = message;
    use_.store(pipeline_.open(bytes, chunk, kRoom), std::memory_order_release);
    while (!pipeline_.over()) std::this_thread::yield();
    for (std::uint64_t i = 0; i < bytes; ++i) ASSERT_EQ(to_[i], value(message, i)) << message;
  }

  void fill() {
    PipelineChunk stretch{};
    while (!ending_.load(std::memory_order_relaxed)) {
      if (!pipeline_.claim_fill(use_.load(std::memory_order_acquire), stretch)) {
        std::this_thread::yield();
        continue;
      }
      for (std::uint64_t i = 0; i < stretch.bytes; ++i) {
        cells_[stretch.place + i] = value(message_, stretch.offset + i);
      }
      pipeline_.filled(stretch);
    }
  }

  void drain() {
    PipelineChunk stretch{};
    while (!ending_.load(std::memory_order_relaxed)) {
      if (!pipeline_.claim_drain(use_.load(std::memory_order_acquire), stretch)) {
        std::this_thread::yield();
        continue;
      }
      std::memcpy(&to_[stretch.offset], &cells_[stretch.place], stretch.bytes);
      pipeline_.drained(stretch);
    }
  }

  Pipeline pipeline_;
  std::array<unsigned char, kRoom> cells_{};
  std::vector<unsigned char> to_;
  std::uint32_t message_ = 0;  // not atomic: threads read it only after a claim
  std::atomic<std::uint32_t> use_{0};
  std::atomic<bool> ending_{false};
};

TEST(PipelineStress, many_threads_at_many_messages_lose_and_mix_nothing) {
  const auto crowd = std::make_unique<Crowd>();
  crowd->run();
}

}  // namespace
}  // namespace mh::p2p
