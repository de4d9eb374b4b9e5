// SPDX-License-Identifier: BSD-3-Clause
#include "p2p/pack_pipeline.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace mh::p2p {
namespace {

constexpr std::uint64_t kChunk = 64;

End end_at(std::vector<std::byte>& bytes) { return {.base = layout::address_of(bytes.data())}; }

std::byte value(std::uint32_t message, std::uint64_t at) {
  return static_cast<std::byte>(31ULL * message + at / 3);
}

std::vector<std::byte> message_of(std::uint32_t message, std::uint64_t bytes) {
  std::vector<std::byte> made(bytes);
  for (std::uint64_t i = 0; i < bytes; ++i) made[i] = value(message, i);
  return made;
}

class PackPipelineTest : public testing::Test {
 protected:
  std::unique_ptr<PackPipeline> pack_pipeline_ = std::make_unique<PackPipeline>();
  std::array<std::array<std::byte, kChunk>, PackPipeline::kCells> buffers_{};
  std::vector<std::byte> bytes_ = message_of(1, 20 * kChunk);

  PackedChunk chunk(std::uint64_t index) {
    return {.range = {index * kChunk, (index + 1) * kChunk},
            .buffer = buffers_[index % PackPipeline::kCells].data()};
  }
};

TEST_F(PackPipelineTest, chunks_are_collected_in_the_order_in_which_they_were_offered) {
  pack_pipeline_->open(end_at(bytes_), PackKind::pack);
  EXPECT_TRUE(pack_pipeline_->empty());
  EXPECT_EQ(pack_pipeline_->work(), 0U) << "nothing was offered";
  pack_pipeline_->offer(chunk(0));
  pack_pipeline_->offer(chunk(1));
  EXPECT_FALSE(pack_pipeline_->collect()) << "nobody has worked at it";
  EXPECT_EQ(pack_pipeline_->work(), kChunk);
  EXPECT_EQ(pack_pipeline_->work(), kChunk);
  EXPECT_EQ(pack_pipeline_->work(), 0U);
  for (std::uint64_t index = 0; index < 2; ++index) {
    const auto chunk = pack_pipeline_->collect();
    ASSERT_TRUE(chunk);
    EXPECT_EQ(chunk->range.begin, index * kChunk);
    EXPECT_EQ(chunk->buffer[5], value(1, index * kChunk + 5));
  }
  EXPECT_TRUE(pack_pipeline_->empty());
}

TEST_F(PackPipelineTest, it_is_full_until_the_oldest_chunk_is_collected) {
  pack_pipeline_->open(end_at(bytes_), PackKind::pack);
  for (std::uint64_t index = 0; index < PackPipeline::kCells; ++index) {
    EXPECT_LT(pack_pipeline_->outstanding(), PackPipeline::kCells);
    pack_pipeline_->offer(chunk(index));
  }
  EXPECT_EQ(pack_pipeline_->outstanding(), PackPipeline::kCells);
  pack_pipeline_->work();
  EXPECT_EQ(pack_pipeline_->outstanding(), PackPipeline::kCells);
  EXPECT_TRUE(pack_pipeline_->collect());
  EXPECT_LT(pack_pipeline_->outstanding(), PackPipeline::kCells);
  EXPECT_EQ(pack_pipeline_->outstanding(), PackPipeline::kCells - 1);
}

TEST_F(PackPipelineTest, unpacking_writes_the_range_and_nothing_else) {
  std::vector<std::byte> to(3 * kChunk);
  pack_pipeline_->open(end_at(to), PackKind::unpack);
  std::fill(buffers_[0].begin(), buffers_[0].end(), std::byte{7});
  pack_pipeline_->offer({.range = {kChunk, kChunk + 10}, .buffer = buffers_[0].data()});
  EXPECT_EQ(pack_pipeline_->work(), 10U);
  EXPECT_TRUE(pack_pipeline_->collect());
  for (std::uint64_t i = 0; i < to.size(); ++i) {
    EXPECT_EQ(to[i], i >= kChunk && i < kChunk + 10 ? std::byte{7} : std::byte{0}) << i;
  }
}

// Moves a series of messages: several threads pack each message on one pipeline and unpack it on
// another. These threads do not know where a message begins or ends, and may be late.
class Crowd {
 public:
  static constexpr std::uint32_t kMessages = 300;
  static constexpr int kThreads = 3;

  void run() {
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) threads.emplace_back([this] { work(); });
    for (std::uint32_t message = 0; message < kMessages; ++message) move(message);
    ending_.store(true);
    for (std::thread& thread : threads) thread.join();
  }

 private:
  void work() {
    while (!ending_.load(std::memory_order_relaxed)) {
      if (packing_.work() == 0 && unpacking_.work() == 0) std::this_thread::yield();
    }
  }

  // Moves a message. This thread, the owner of both pipelines, only offers pieces and collects
  // them; the other threads pack and unpack.
  void move(std::uint32_t message) {
    const std::uint64_t bytes = 1 + (7919ULL * message) % (40 * kChunk);
    std::vector<std::byte> from = message_of(message, bytes);
    std::vector<std::byte> to(bytes);
    packing_.open(end_at(from), PackKind::pack);
    unpacking_.open(end_at(to), PackKind::unpack);
    std::vector<std::byte*> free;
    for (auto& buffer : buffers_) free.push_back(buffer.data());
    for (std::uint64_t offered = 0, there = 0; there < bytes;) {
      if (offered < bytes && packing_.outstanding() < PackPipeline::kCells && !free.empty()) {
        const std::uint64_t next = std::min(bytes, offered + kChunk);
        packing_.offer({.range = {offered, next}, .buffer = free.back()});
        free.pop_back();
        offered = next;
      }
      if (unpacking_.outstanding() < PackPipeline::kCells) {
        if (const auto packed = packing_.collect()) unpacking_.offer(*packed);
      }
      if (const auto done = unpacking_.collect()) {
        there = done->range.end;
        free.push_back(done->buffer);
      }
    }
    ASSERT_EQ(to, from) << message;
  }

  PackPipeline packing_;
  PackPipeline unpacking_;
  std::array<std::array<std::byte, kChunk>, 6> buffers_{};
  std::atomic<bool> ending_{false};
};

TEST(PackPipelineStress, many_threads_at_many_messages_lose_and_mix_nothing) {
  const auto crowd = std::make_unique<Crowd>();
  crowd->run();
}

}  // namespace
}  // namespace mh::p2p
