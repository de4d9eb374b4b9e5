// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "p2p/posted_receives.hpp"

namespace mh::p2p {
namespace {

constexpr std::uint64_t kUse = 5;

class SettleMoverTest : public testing::Test {
 protected:
  SettleMoverTest() {
    send_.word = SendSlot::word_of(kUse, SlotState::posted);
    posted_.state = PostedState::open;
  }
  Mover asked() { return settle_mover(&send_, kUse, &posted_); }

  SendSlot send_;
  PostedReceive posted_;
};

TEST_F(SettleMoverTest, the_receiver_moves_what_nobody_has_taken) {
  EXPECT_EQ(asked(), Mover::receiver);
  EXPECT_EQ(send_.state(), SlotState::taken);
}

TEST_F(SettleMoverTest, without_a_header_the_message_is_an_ordinary_message) {
  EXPECT_EQ(settle_mover(nullptr, 0, &posted_), Mover::nobody);
  EXPECT_EQ(settle_mover(nullptr, 0, nullptr), Mover::nobody);
}

TEST_F(SettleMoverTest, a_header_of_a_send_that_is_over_is_the_users_bytes) {
  send_.word = SendSlot::word_of(kUse + 1, SlotState::posted);
  EXPECT_EQ(asked(), Mover::nobody);
  EXPECT_EQ(send_.state(), SlotState::posted);
}

// Goes through all steps of a sender that pushes. The receiver has read the RTS header before the
// first step, and asks after each step whether it or the sender moves the data.
TEST_F(SettleMoverTest, a_push_is_never_overlooked) {
  ASSERT_TRUE(send_.take(kUse));
  EXPECT_EQ(asked(), Mover::unsettled);
  posted_.state = PostedState::pushing;
  EXPECT_EQ(asked(), Mover::sender);
  EXPECT_EQ(settle_mover(nullptr, 0, &posted_), Mover::sender);  // the RTS header is overwritten
  posted_.state = PostedState::pushed;
  EXPECT_EQ(asked(), Mover::sender);
  send_.change(SlotState::done);
  EXPECT_EQ(asked(), Mover::sender);
  send_.word = SendSlot::word_of(kUse + 1, SlotState::posted);  // the slot has another message
  EXPECT_EQ(asked(), Mover::sender);
  EXPECT_EQ(send_.state(), SlotState::posted);
}

TEST_F(SettleMoverTest, after_a_push_that_failed_the_receiver_moves_the_message) {
  ASSERT_TRUE(send_.take(kUse));
  posted_.state = PostedState::pushing;
  posted_.state = PostedState::open;
  EXPECT_EQ(asked(), Mover::unsettled);
  send_.change(SlotState::posted);
  EXPECT_EQ(asked(), Mover::receiver);
}

// Sender and receiver act at the same time. Exactly one of them moves each message, and the
// receiver knows which.
TEST_F(SettleMoverTest, one_side_moves_each_message) {
  constexpr std::uint64_t kMessages = 20'000;
  constexpr std::uint64_t kOver = kMessages + 1;
  // Each message needs two time slices of both threads, which take milliseconds on busy cores.
  const auto stop = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  std::atomic<std::uint64_t> posted{0};
  std::atomic<std::uint64_t> received{0};
  std::uint64_t sent = 0;
  std::uint64_t pushed = 0;
  std::thread sender([&] {
    while (sent < kMessages && std::chrono::steady_clock::now() < stop) {
      const std::uint64_t use = ++sent;
      send_.word.store(SendSlot::word_of(use, SlotState::posted), std::memory_order_release);
      posted.store(use, std::memory_order_release);
      if (use % 3 == 0) std::this_thread::yield();
      if (send_.take(use)) {
        posted_.state.store(PostedState::pushing, std::memory_order_release);
        posted_.state.store(PostedState::pushed, std::memory_order_release);
        send_.change(SlotState::done);
        ++pushed;
      }
      while (received.load(std::memory_order_acquire) != use) std::this_thread::yield();
    }
    posted.store(kOver, std::memory_order_release);
  });
  std::uint64_t moved = 0;
  std::uint64_t brought = 0;
  for (std::uint64_t use = 1;; ++use) {
    std::uint64_t seen = 0;
    while ((seen = posted.load(std::memory_order_acquire)) < use) std::this_thread::yield();
    if (seen == kOver) break;
    Mover mover = Mover::unsettled;
    while (mover == Mover::unsettled) mover = settle_mover(&send_, use, &posted_);
    ASSERT_NE(mover, Mover::nobody) << use;
    if (mover == Mover::sender) {
      while (send_.state_of(use) != SlotState::free) std::this_thread::yield();
      posted_.state.store(PostedState::open, std::memory_order_relaxed);
      ++brought;
    } else {
      send_.change(SlotState::done);
      ++moved;
    }
    received.store(use, std::memory_order_release);
  }
  sender.join();
  EXPECT_EQ(moved + brought, sent);
  EXPECT_EQ(brought, pushed);
}

}  // namespace
}  // namespace mh::p2p
