// SPDX-License-Identifier: BSD-3-Clause
#include "p2p/exchange_detector.hpp"

#include <gtest/gtest.h>

namespace mh::p2p {
namespace {

class ExchangesTest : public testing::Test {
 protected:
  bool exchange(int messages = 1) {
    bool expected = false;
    for (int i = 0; i < messages; ++i) expected = exchanges_.starts_send();
    for (int i = 0; i < messages; ++i) exchanges_.starts_receive();
    exchanges_.completes();
    return expected;
  }
  bool send() {
    const bool expected = exchanges_.starts_send();
    exchanges_.completes();
    return expected;
  }
  void receive() {
    exchanges_.starts_receive();
    exchanges_.completes();
  }

  ExchangeDetector exchanges_;
};

TEST_F(ExchangesTest, one_exchange_lets_expect_another) {
  EXPECT_FALSE(exchange());
  EXPECT_TRUE(exchange());
  EXPECT_TRUE(exchange(8));
}

TEST_F(ExchangesTest, a_receive_behind_a_wait_is_none) {
  for (int round = 0; round < 10; ++round) {
    EXPECT_FALSE(send());
    receive();
  }
}

TEST_F(ExchangesTest, all_messages_of_a_round_are_of_one_kind) {
  exchange();
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(exchanges_.starts_send());
}

TEST_F(ExchangesTest, sends_alone_are_believed_after_some_rounds) {
  exchange();
  for (std::uint32_t round = 0; round < ExchangeDetector::kRemembered; ++round) EXPECT_TRUE(send());
  EXPECT_FALSE(send());
  EXPECT_FALSE(exchange());
  EXPECT_TRUE(exchange());
}

TEST_F(ExchangesTest, an_exchange_in_between_is_remembered_anew) {
  exchange();
  for (std::uint32_t round = 1; round < ExchangeDetector::kRemembered; ++round) send();
  EXPECT_TRUE(exchange());
  for (std::uint32_t round = 0; round < ExchangeDetector::kRemembered; ++round) EXPECT_TRUE(send());
}

}  // namespace
}  // namespace mh::p2p
