// SPDX-License-Identifier: BSD-3-Clause
#include "p2p/send_table.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "p2p/rts_header.hpp"

namespace mh::p2p {
namespace {

class SendTableTest : public testing::Test {
 protected:
  SendTableTest() { send_table_.attach(shared_.get()); }
  static NewSend send(std::int32_t tag) {
    return {.from = {}, .bytes = 1000, .communicator = 7, .tag = tag, .to = 3};
  }
  std::unique_ptr<SharedSendTable> shared_ = std::make_unique<SharedSendTable>();
  SendTable send_table_;
};

TEST_F(SendTableTest, a_posted_send_says_what_the_receiver_has_to_know) {
  const std::uint32_t index = send_table_.post(send(5), kNoFin);
  const SendSlot& slot = send_table_.slot(index);
  EXPECT_EQ(slot.state(), SlotState::posted);
  EXPECT_EQ(slot.bytes, 1000U);
  EXPECT_EQ(slot.communicator, 7U);
  EXPECT_EQ(slot.tag, 5);
  EXPECT_EQ(slot.to, 3U);
  EXPECT_EQ(slot.fin_tag, kNoFin);
}

TEST_F(SendTableTest, own_tags_differ_between_sends_and_between_uses_of_a_slot) {
  std::set<std::uint32_t> tags;
  for (std::uint32_t use = 0; use < SendSlot::kFinUses; ++use) {
    const std::uint32_t first = send_table_.post(send(0), SendTable::kOwnTag);
    const std::uint32_t second = send_table_.post(send(0), SendTable::kOwnTag);
    for (const std::uint32_t index : {first, second}) {
      tags.insert(send_table_.slot(index).fin_tag);
      EXPECT_LT(send_table_.slot(index).fin_tag, SendSlot::kFinTagsOfRank);
      send_table_.release(index);
    }
  }
  EXPECT_EQ(tags.size(), 2 * SendSlot::kFinUses);
}

TEST_F(SendTableTest, a_look_sees_posted_sends_alone) {
  const std::uint32_t index = send_table_.post(send(5), kNoFin);
  const auto fields = send_table_.slot(index).posted();
  ASSERT_TRUE(fields);
  EXPECT_EQ(fields->tag, 5);
  EXPECT_EQ(fields->generation, send_table_.slot(index).generation());
  ASSERT_TRUE(send_table_.slot(index).take(fields->generation));
  EXPECT_FALSE(send_table_.slot(index).posted());
}

// A send of rank A to rank B may end while rank C reads A's slot, and another send may then take
// the slot. C must see one of the two sends.
TEST_F(SendTableTest, a_look_never_sees_parts_of_two_sends) {
  const auto all = [](std::uint32_t value) {
    return NewSend{.from = {},
                   .bytes = value,
                   .communicator = value,
                   .tag = static_cast<std::int32_t>(value),
                   .to = value};
  };
  std::atomic<bool> stop{false};
  const std::uint32_t first = send_table_.post(all(0), kNoFin);
  std::thread sender([&] {
    for (std::uint32_t value = 1; !stop.load(); ++value) {
      send_table_.release(first);
      static_cast<void>(send_table_.post(all(value), kNoFin));
    }
  });
  int seen = 0;
  int mixed = 0;
  for (std::uint32_t last = 0; seen < 1000;) {
    const auto fields = send_table_.slot(first).posted();
    if (!fields || fields->to == last) continue;
    last = fields->to;
    ++seen;
    const bool whole = fields->bytes == last && fields->communicator == last &&
                       fields->tag == static_cast<std::int32_t>(last) && fields->sequence == last;
    if (!whole) ++mixed;
  }
  stop.store(true);
  sender.join();
  EXPECT_EQ(mixed, 0);
}

TEST_F(SendTableTest, a_full_table_refuses_and_takes_again_after_a_release) {
  std::set<std::uint32_t> taken;
  for (std::uint32_t i = 0; i < SharedSendTable::kSlots; ++i)
    taken.insert(send_table_.post(send(1), kNoFin));
  EXPECT_EQ(taken.size(), SharedSendTable::kSlots);
  EXPECT_EQ(taken.count(SendTable::kNone), 0U);
  EXPECT_EQ(send_table_.post(send(1), kNoFin), SendTable::kNone);
  send_table_.release(77);
  EXPECT_EQ(send_table_.post(send(1), kNoFin), 77U);
}

TEST_F(SendTableTest, a_reused_slot_has_another_generation_and_a_later_sequence) {
  const std::uint32_t first = send_table_.post(send(1), kNoFin);
  const std::uint64_t generation = send_table_.slot(first).generation();
  const std::uint64_t sequence = send_table_.slot(first).sequence;
  send_table_.release(first);
  ASSERT_EQ(send_table_.post(send(1), kNoFin), first);
  EXPECT_EQ(send_table_.slot(first).generation(), generation + 1);
  EXPECT_GT(send_table_.slot(first).sequence, sequence);
}

TEST_F(SendTableTest, only_slots_in_use_are_visited) {
  EXPECT_TRUE(send_table_.empty());
  const std::uint32_t first = send_table_.post(send(1), kNoFin);
  const std::uint32_t second = send_table_.post(send(2), kNoFin);
  send_table_.release(first);
  std::vector<std::uint32_t> seen;
  send_table_.for_each([&](std::uint32_t index, SendSlot&) { seen.push_back(index); });
  EXPECT_EQ(seen, std::vector{second});
  EXPECT_FALSE(send_table_.empty());
}

TEST_F(SendTableTest, a_batch_of_resend_requests_is_reported_once) {
  EXPECT_FALSE(send_table_.resends_wanted());
  shared_->resends.fetch_add(2);
  EXPECT_TRUE(send_table_.resends_wanted());
  EXPECT_FALSE(send_table_.resends_wanted());
}

TEST_F(SendTableTest, a_send_is_taken_once) {
  SendSlot& slot = send_table_.slot(send_table_.post(send(1), kNoFin));
  EXPECT_TRUE(slot.take(slot.generation()));
  EXPECT_FALSE(slot.take(slot.generation()));
  slot.change(SlotState::posted);  // the sender could not push
  EXPECT_TRUE(slot.take(slot.generation()));
}

// A receiver may be delayed between reading the RTS header and taking the send that the header
// names. Meanwhile the slot may get a later send, which the receiver must not take.
TEST_F(SendTableTest, a_later_send_is_never_taken_for_an_earlier_one) {
  const std::uint32_t index = send_table_.post(send(1), kNoFin);
  SendSlot& slot = send_table_.slot(index);
  const std::uint64_t first = slot.generation();
  EXPECT_EQ(slot.state_of(first), SlotState::posted);
  ASSERT_TRUE(slot.take(first));
  slot.change(SlotState::done);
  EXPECT_EQ(slot.state_of(first), SlotState::free);
  send_table_.release(index);
  ASSERT_EQ(send_table_.post(send(2), kNoFin), index);
  EXPECT_EQ(slot.state_of(first), SlotState::free);
  EXPECT_FALSE(slot.take(first));
  EXPECT_EQ(slot.state(), SlotState::posted);
}

TEST_F(SendTableTest, threads_never_share_a_slot) {
  constexpr int kRounds = 3000;
  std::atomic<int> owner[SharedSendTable::kSlots] = {};
  std::atomic<int> clashes{0};
  std::vector<std::thread> threads;
  for (int me = 1; me <= 4; ++me) {
    threads.emplace_back([&, me] {
      for (int round = 0; round < kRounds; ++round) {
        const std::uint32_t index = send_table_.post(send(me), kNoFin);
        if (index == SendTable::kNone) continue;
        if (owner[index].exchange(me) != 0) clashes.fetch_add(1);
        if (send_table_.slot(index).tag != me) clashes.fetch_add(1);
        owner[index].store(0);
        send_table_.release(index);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(clashes.load(), 0);
  EXPECT_TRUE(send_table_.empty());
}

TEST(RtsHeader, is_recognised_by_the_key_of_its_job_alone) {
  const std::uint64_t key[2] = {0x1234, 0x5678};
  RtsHeader header{};
  header.key[0] = key[0];
  header.key[1] = key[1];
  EXPECT_TRUE(opens_rts(&header, key));
  header.key[1] ^= 1;
  EXPECT_FALSE(opens_rts(&header, key));
}

TEST(RtsHeader, holds_whole_elements_of_every_common_size) {
  for (std::size_t size : {2U, 4U, 8U, 12U, 16U, 24U, 32U, 48U}) EXPECT_EQ(kRtsBytes % size, 0U);
}

}  // namespace
}  // namespace mh::p2p
