// SPDX-License-Identifier: BSD-3-Clause
#include "p2p/transfer.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "support/child.hpp"
#include "support/ranks.hpp"

namespace mh::p2p {
namespace {

constexpr std::uint64_t kBytes = 1'000'003;
constexpr std::uint32_t kChunk = 64U << 10U;

class TransferTest : public testing::Test {
 protected:
  TransferTest() : source_(kBytes), target_(kBytes) {
    std::iota(source_.begin(), source_.end(), static_cast<unsigned char>(3));
    slot_.from = view(source_.data());
    slot_.bytes = kBytes;
    slot_.change(SlotState::posted);
  }
  static memory::View view(const void* address) {
    return {.address = reinterpret_cast<std::uint64_t>(address), .pid = ::getpid(), .rank = 0};
  }
  Transfer transfer(steal::SlotKeeper& keeper, std::uint64_t bytes = kBytes) {
    EXPECT_TRUE(slot_.take(0));
    const steal::CopySpec work{.to = view(target_.data()),
                               .from = slot_.from,
                               .bytes = bytes,
                               .chunk_bytes = kChunk,
                               .order = steal::CopyOrder::low_to_high};
    return Transfer(work, keeper, ranks_.area(0).slots(), &slot_);
  }

  test::Ranks ranks_{2};
  steal::Thief receiver_ = ranks_.thief(0, Strategy::mixed);
  steal::Thief sender_ = ranks_.thief(1, Strategy::mixed);
  std::vector<unsigned char> source_;
  std::vector<unsigned char> target_;
  SendSlot slot_;
};

TEST_F(TransferTest, the_receiver_alone_brings_every_byte) {
  steal::SlotKeeper keeper = ranks_.keeper(0);
  Transfer message = transfer(keeper);
  while (!message.step(receiver_)) {
  }
  EXPECT_TRUE(message.close());
  EXPECT_EQ(target_, source_);
  EXPECT_FALSE(keeper.any_in_use());
}

TEST_F(TransferTest, the_sender_finds_the_job_through_its_slot_and_shares_the_work) {
  steal::SlotKeeper keeper = ranks_.keeper(0);
  Transfer message = transfer(keeper);
  ASSERT_EQ(slot_.state(), SlotState::moving);
  steal::Job& job = ranks_.area(0).slots().jobs[slot_.job.load()];
  int by_sender = 0;
  for (bool done = false; !done; done = message.step(receiver_)) {
    by_sender += sender_.run_one_chunk(job, 0) ? 1 : 0;
  }
  EXPECT_TRUE(message.close());
  EXPECT_GT(by_sender, 5);
  EXPECT_EQ(target_, source_);
}

TEST_F(TransferTest, only_the_wanted_part_is_written) {
  steal::SlotKeeper keeper = ranks_.keeper(0);
  constexpr std::uint64_t kPart = 100'001;
  Transfer message = transfer(keeper, kPart);
  while (!message.step(receiver_)) {
  }
  EXPECT_TRUE(message.close());
  EXPECT_EQ(std::memcmp(target_.data(), source_.data(), kPart), 0);
  EXPECT_EQ(target_[kPart], 0);
}

TEST_F(TransferTest, nothing_wanted_is_done_at_once) {
  steal::SlotKeeper keeper = ranks_.keeper(0);
  Transfer message = transfer(keeper, 0);
  EXPECT_TRUE(message.step(receiver_));
  EXPECT_TRUE(message.close());
}

TEST_F(TransferTest, without_a_free_job_the_receiver_copies_by_itself) {
  steal::SlotKeeper keeper = ranks_.keeper(0);
  std::vector<steal::Job*> others;
  while (steal::Job* job = keeper.open({.to = {},
                                        .from = {},
                                        .bytes = 1,
                                        .chunk_bytes = 1,
                                        .order = steal::CopyOrder::low_to_high})) {
    others.push_back(job);
  }
  Transfer message = transfer(keeper);
  EXPECT_EQ(slot_.state(), SlotState::taken);  // the transfer has no job to help with
  while (!message.step(receiver_)) {
  }
  EXPECT_TRUE(message.close());
  EXPECT_EQ(target_, source_);
}

TEST_F(TransferTest, memory_that_cannot_be_read_is_reported_at_the_close) {
  slot_.from.address = 64;  // never mapped
  slot_.from.pid = ::getppid();
  steal::SlotKeeper keeper = ranks_.keeper(0);
  Transfer message = transfer(keeper);
  while (!message.step(receiver_)) {
  }
  EXPECT_FALSE(message.close());
  EXPECT_FALSE(keeper.any_in_use());
}

TEST_F(TransferTest, a_chunk_in_dead_hands_is_copied_again) {
  steal::SlotKeeper keeper = ranks_.keeper(0);
  Transfer message = transfer(keeper);
  steal::Chunk lost{};
  ASSERT_TRUE(ranks_.area(0).slots().jobs[slot_.job.load()].claim(lost));  // never finished
  for (int i = 0; i < 100; ++i) ASSERT_FALSE(message.step(receiver_));
  ASSERT_TRUE(message.all_claimed());
  message.recover();
  EXPECT_FALSE(message.all_claimed()) << "there is nothing to recover any more";
  while (!message.step(receiver_)) {
  }
  EXPECT_TRUE(message.close());
  EXPECT_EQ(target_, source_);
  EXPECT_FALSE(keeper.any_in_use());
}

}  // namespace
}  // namespace mh::p2p
