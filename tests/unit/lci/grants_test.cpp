// SPDX-License-Identifier: BSD-3-Clause
// Buffers that a receiver grants to each sender in advance, among ranks of one process: messages of
// all sizes, a buffer that is not free, a full network, and the death of a rank.
#include <gtest/gtest.h>

#include <algorithm>

#include "lci/ranks.hpp"

namespace mh::lci {
namespace {

using test::pattern;
using test::Ranks;
using test::same;

constexpr std::size_t kGrant = 4000;

class Grants : public testing::Test {
 protected:
  // Opens an endpoint at each rank, with a queue of its own and granted buffers of `grant` bytes.
  std::vector<Endpoint> open(std::size_t grant = kGrant) {
    std::vector<Endpoint> endpoints;
    for (std::size_t i = 0; i < ranks.devices.size(); ++i) {
      endpoints.push_back(Ranks::open_at(*ranks.devices[i], {.buffers = Buffers::dynamic,
                                                             .completion = Completion::queue,
                                                             .queue = &queues[i],
                                                             .grant_bytes = grant}));
    }
    ranks.settle();
    return endpoints;
  }
  std::uint64_t large_sent(std::size_t rank) { return ranks.devices[rank]->counters().large_sent; }

  std::vector<CompletionQueue> queues = std::vector<CompletionQueue>(3);
  Ranks ranks{3};
};

TEST_F(Grants, messages_of_all_sizes_arrive) {
  auto endpoints = open();
  std::uint32_t tag = 0xFFFF'FFF0U;
  for (const std::size_t size : {0U, 512U, 513U, 4000U, 4001U, 9000U}) {
    ranks.settle();
    const auto data = pattern(size, tag);
    ASSERT_FALSE(endpoints[2].send(1, ++tag, data).is_retry());
    ranks.settle();
    const auto message = queues[1].pop();
    ASSERT_TRUE(message.has_value());
    EXPECT_TRUE(message->status().ok());
    EXPECT_EQ(message->rank(), 2);
    EXPECT_EQ(message->tag(), tag);
    EXPECT_TRUE(same(message->bytes(), data));
    if (size > 512) {
      EXPECT_EQ(queues[2].pop()->kind(), Kind::sent);
    }
  }
  EXPECT_EQ(large_sent(2), 4U);
  ranks.expect_at_rest();
}

TEST_F(Grants, a_rank_sends_to_itself) {
  auto endpoints = open();
  const auto data = pattern(3000, 1);
  ASSERT_TRUE(endpoints[0].send(0, 7, data).is_posted());
  ranks.settle();
  int received = 0;
  while (const auto message = queues[0].pop()) {
    if (message->kind() == Kind::sent) continue;
    EXPECT_TRUE(same(message->bytes(), data));
    ++received;
  }
  EXPECT_EQ(received, 1);
  ranks.expect_at_rest();
}

TEST_F(Grants, the_next_waits_until_the_message_has_been_released) {
  auto endpoints = open();
  const auto data = pattern(3000, 1);
  for (int turn = 0; turn < 50; ++turn) {
    ASSERT_TRUE(endpoints[0].send(1, 0, data).is_posted());
    EXPECT_EQ(endpoints[0].send(1, 0, data).reason(), Retry::credit);
    EXPECT_TRUE(endpoints[2].send(1, 0, data).is_posted());  // rank 2 has its own granted buffer
    ranks.settle();
    EXPECT_TRUE(endpoints[0].send(1, 0, data).is_retry());
    for (int i = 0; i < 2; ++i) {
      auto message = queues[1].pop();
      ASSERT_TRUE(message.has_value());
      EXPECT_EQ(message->take(), nullptr);
      EXPECT_TRUE(same(message->bytes(), data));
    }
    ranks.settle();
    while (queues[0].pop()) {
    }
    while (queues[2].pop()) {
    }
  }
  ranks.expect_at_rest();
}

TEST_F(Grants, a_full_network_loses_nothing) {
  auto endpoints = open();
  for (int turn = 0; turn < 20; ++turn) {
    const auto data = pattern(3000, static_cast<unsigned>(turn));
    ranks.network.refuse(0, 3);  // refuses the put
    ASSERT_TRUE(endpoints[0].send(1, 0, data).is_posted());
    ranks.settle();
    auto message = queues[1].pop();
    ASSERT_TRUE(message.has_value());
    EXPECT_TRUE(same(message->bytes(), data));
    ranks.network.refuse(1, 3);  // refuses the next grant
    message.reset();
    ranks.settle();
    EXPECT_TRUE(queues[0].pop().has_value());
    ranks.settle();
  }
  ranks.expect_at_rest();
}

TEST_F(Grants, a_full_queue_holds_up_the_message) {
  CompletionQueue few(2);
  Ranks two(2);
  std::vector<Endpoint> endpoints;
  for (std::size_t i = 0; i < 2; ++i) {
    endpoints.push_back(Ranks::open_at(*two.devices[i], {.buffers = Buffers::dynamic,
                                                         .completion = Completion::queue,
                                                         .queue = i == 1 ? &few : queues.data(),
                                                         .grant_bytes = kGrant}));
  }
  two.settle();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(endpoints[0].send(1, 0, pattern(8, 0)).is_done());
  const auto data = pattern(3000, 3);
  ASSERT_TRUE(endpoints[0].send(1, 1, data).is_posted());
  two.settle();
  int large = 0;
  for (int i = 0; i < 4; ++i) {
    two.settle();
    const auto message = few.pop();
    ASSERT_TRUE(message.has_value());
    if (message->tag() != 1) continue;
    EXPECT_TRUE(same(message->bytes(), data));
    ++large;
  }
  EXPECT_EQ(large, 1);
  two.expect_at_rest();
}

TEST_F(Grants, a_peer_that_dies_keeps_its_own_and_the_others_go_on) {
  auto endpoints = open();
  const auto data = pattern(3000, 1);
  ASSERT_TRUE(endpoints[1].send(0, 5, data).is_posted());
  ranks.settle();
  ranks.network.kill(1);
  ranks.settle();
  EXPECT_EQ(endpoints[0].send(1, 0, data).code(), Code::gone);
  int received = 0;
  int notices = 0;
  while (const auto message = queues[0].pop()) {
    ++(message->kind() == Kind::gone ? notices : received);
    if (message->kind() == Kind::received) {
      EXPECT_TRUE(same(message->bytes(), data));
    }
  }
  EXPECT_EQ(received, 1);
  EXPECT_EQ(notices, 1);
  ASSERT_TRUE(endpoints[2].send(0, 6, data).is_posted());
  ranks.settle();
  const auto message = queues[0].pop();
  ASSERT_TRUE(message.has_value());
  EXPECT_EQ(message->rank(), 2);
}

TEST_F(Grants, a_put_to_a_peer_that_has_died_has_failed) {
  auto endpoints = open();
  const auto data = pattern(3000, 1);
  ranks.network.kill(1);  // the device does not know of the death yet
  ASSERT_TRUE(endpoints[0].send(1, 0, data).is_posted());
  ranks.settle();
  bool failed = false;
  while (const auto message = queues[0].pop()) {
    if (message->kind() == Kind::sent) failed = message->status().code == Code::gone;
  }
  EXPECT_TRUE(failed);
}

TEST_F(Grants, where_they_make_no_sense_they_are_misuse) {
  lci::detail::DeviceState& device = *ranks.devices[0];
  EndpointConfig config{.buffers = Buffers::dynamic,
                        .completion = Completion::queue,
                        .queue = queues.data(),
                        .grant_bytes = std::size_t{1} << 20U};
  EXPECT_EQ(device.open_endpoint(config).status().code, Code::misuse);
  config.grant_bytes = kGrant;
  config.buffers = Buffers::piggy_back;
  EXPECT_EQ(device.open_endpoint(config).status().code, Code::misuse);
  config.buffers = Buffers::dynamic;
  config.completion = Completion::synchronizer;
  EXPECT_EQ(device.open_endpoint(config).status().code, Code::misuse);
}

}  // namespace
}  // namespace mh::lci
