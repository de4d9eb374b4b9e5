// SPDX-License-Identifier: BSD-3-Clause
// Devices and endpoints between ranks of one process: every protocol, exhausted resources, and the
// death of a rank.
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "lci/ranks.hpp"

namespace mh::lci {
namespace {

using test::pattern;
using test::Ranks;
using test::same;

// Messages up to 256 bytes are injected, up to 512 bytes go in a packet, and the others are large.
constexpr std::size_t kSizes[] = {0, 1, 64, 256, 257, 512, 513, 5000};

// --- the nine protocols ---------------------------------------------------------------------

class Protocol : public testing::TestWithParam<std::tuple<Buffers, Completion>> {
 protected:
  struct Got {
    std::vector<std::byte> data;
    Kind kind;
    int rank;
    std::uint32_t tag;
    void* context;
  };

  void SetUp() override {
    config.buffers = std::get<0>(GetParam());
    config.completion = std::get<1>(GetParam());
    config.queue = &queue;
    config.handler = [](Message& message, void* self) {
      static_cast<Protocol*>(self)->note(message);
    };
    config.argument = this;
  }
  void note(const Message& message) {
    EXPECT_TRUE(message.status().ok());
    const auto bytes =
        message.kind() == Kind::received ? message.bytes() : std::span<const std::byte>{};
    got.push_back({{bytes.begin(), bytes.end()},
                   message.kind(),
                   message.rank(),
                   message.tag(),
                   message.context()});
  }
  void send(Endpoint from, std::span<const std::byte> data) {
    const Answer answer = synchronizes() ? from.send(1, 9, data, sent) : from.send(1, 9, data);
    EXPECT_TRUE(data.size() <= 512 ? answer.is_done() : answer.is_posted());
  }
  void receive(Endpoint to, std::span<std::byte> buffer) {
    if (!posts()) return;
    Answer answer = Answer::done();
    if (!synchronizes()) {
      answer = to.receive(0, 9, buffer, buffer.data());
    } else if (config.buffers == Buffers::explicit_address) {
      answer = to.receive(0, 9, buffer, received);
    } else {
      answer = to.receive(0, 9, received);
    }
    EXPECT_TRUE(answer.is_done() || answer.is_posted());
  }
  // Passes the completions of all messages to note(), whether a queue, a handler or a synchronizer
  // gets them.
  void collect() {
    ranks.settle();
    while (auto message = queue.pop()) note(*message);
    if (!synchronizes()) return;
    ASSERT_TRUE(received.test());
    note(received.result());
  }
  void check(std::span<const std::byte> data) {
    const bool large = data.size() > 512;
    // With a queue or a handler, the sender's completion of a large message is also among `got`;
    // with a synchronizer only the receiver's.
    ASSERT_EQ(got.size(), large && !synchronizes() ? 2U : 1U);
    EXPECT_TRUE(sent.test() || !large || !synchronizes());
    const Got& message = got[got[0].kind == Kind::received ? 0 : 1];
    EXPECT_EQ(message.kind, Kind::received);
    EXPECT_EQ(message.rank, 0);
    EXPECT_EQ(message.tag, 9U);
    EXPECT_TRUE(same(message.data, data));
  }
  [[nodiscard]] bool synchronizes() const { return config.completion == Completion::synchronizer; }
  [[nodiscard]] bool posts() const {
    return config.buffers == Buffers::explicit_address ||
           config.completion == Completion::synchronizer;
  }

  CompletionQueue queue{64};
  Ranks ranks{2};
  EndpointConfig config;
  Synchronizer sent;
  Synchronizer received;
  std::vector<Got> got;
};

TEST_P(Protocol, delivers_messages_of_all_sizes) {
  const auto endpoints = ranks.open(config);
  for (const bool early : {false, true}) {  // early: the message arrives before the receive
    for (const std::size_t size : kSizes) {
      if (size > 512 && config.buffers == Buffers::piggy_back) continue;
      SCOPED_TRACE(std::to_string(size) + (early ? " early" : ""));
      const auto data = pattern(size, 3);
      std::vector<std::byte> buffer(size);
      if (early) {
        send(endpoints[0], data);
        ranks.settle();
        receive(endpoints[1], buffer);
      } else {
        receive(endpoints[1], buffer);
        send(endpoints[0], data);
      }
      collect();
      check(data);
      EXPECT_EQ(same(buffer, data), size == 0 || config.buffers == Buffers::explicit_address);
      got.clear();
    }
  }
  ranks.expect_at_rest();
}

std::string protocol_name(const testing::TestParamInfo<Protocol::ParamType>& chosen) {
  const std::array buffers{"explicit", "piggy_back", "dynamic"};
  const std::array completions{"synchronizer", "queue", "handler"};
  return std::string(buffers[static_cast<std::size_t>(std::get<0>(chosen.param))]) + "_" +
         completions[static_cast<std::size_t>(std::get<1>(chosen.param))];
}

INSTANTIATE_TEST_SUITE_P(all, Protocol,
                         testing::Combine(testing::Values(Buffers::explicit_address,
                                                          Buffers::piggy_back, Buffers::dynamic),
                                          testing::Values(Completion::synchronizer,
                                                          Completion::queue, Completion::handler)),
                         protocol_name);

// --- matching of sends and receives ---------------------------------------------------------

TEST(Device, matches_by_rank_and_tag) {
  Ranks ranks(3);
  auto endpoints = ranks.open({});
  Synchronizer from_one;
  Synchronizer from_two;
  Synchronizer other_tag;
  std::vector<std::byte> a(4);
  std::vector<std::byte> b(4);
  std::vector<std::byte> c(4);
  EXPECT_TRUE(endpoints[0].receive(1, 5, a, from_one).is_posted());
  EXPECT_TRUE(endpoints[0].receive(2, 5, b, from_two).is_posted());
  EXPECT_TRUE(endpoints[0].receive(1, 6, c, other_tag).is_posted());
  Synchronizer unused;
  EXPECT_TRUE(endpoints[2].send(0, 5, pattern(4, 2), unused).is_done());
  ranks.settle();
  EXPECT_FALSE(from_one.test());
  EXPECT_TRUE(from_two.test());
  EXPECT_TRUE(endpoints[1].send(0, 6, pattern(4, 1), unused).is_done());
  ranks.settle();
  EXPECT_FALSE(from_one.test());
  EXPECT_TRUE(other_tag.test());
  EXPECT_TRUE(endpoints[1].send(0, 5, pattern(4, 3), unused).is_done());
  ranks.settle();
  EXPECT_TRUE(from_one.test());
  EXPECT_TRUE(same(a, pattern(4, 3)) && same(b, pattern(4, 2)) && same(c, pattern(4, 1)));
}

TEST(Device, a_short_buffer_gets_what_fits_and_is_told) {
  Ranks ranks(2);
  auto endpoints = ranks.open({});
  for (const std::size_t size : {100U, 2000U}) {
    std::vector<std::byte> buffer(50);
    Synchronizer sent;
    Synchronizer received;
    (void)endpoints[1].receive(0, 1, buffer, received);
    const auto data = pattern(size, 1);
    (void)endpoints[0].send(1, 1, data, sent);
    ranks.settle();
    ASSERT_TRUE(received.test());
    const Message message = received.result();
    EXPECT_EQ(message.status().code, Code::mismatch);
    EXPECT_EQ(message.size(), size);
    EXPECT_TRUE(same(buffer, std::span(data).first(50)));
  }
  ranks.expect_at_rest();
}

TEST(Device, a_rank_sends_to_itself) {
  Ranks ranks(1);
  auto endpoints = ranks.open({});
  const auto data = pattern(3000, 7);
  std::vector<std::byte> buffer(3000);
  Synchronizer sent;
  Synchronizer received;
  EXPECT_TRUE(endpoints[0].send(0, 0, data, sent).is_posted());
  EXPECT_FALSE(endpoints[0].receive(0, 0, buffer, received).is_error());
  ranks.settle();
  EXPECT_TRUE(sent.test() && received.test());
  EXPECT_TRUE(same(buffer, data));
}

TEST(Device, messages_for_an_endpoint_that_is_not_open_yet_wait) {
  CompletionQueue queue;
  Ranks ranks(2);
  const EndpointConfig config{
      .buffers = Buffers::dynamic, .completion = Completion::queue, .queue = &queue};
  Endpoint early = Ranks::open_at(*ranks.devices[0], config);
  EXPECT_TRUE(early.send(1, 2, pattern(10, 1)).is_done());
  ranks.settle();
  EXPECT_FALSE(queue.pop().has_value());
  (void)Ranks::open_at(*ranks.devices[1], config);
  ranks.settle();
  EXPECT_TRUE(queue.pop().has_value());
}

// --- wrong arguments ------------------------------------------------------------------------

TEST(Device, calls_that_do_not_fit_are_misuse) {
  CompletionQueue queue;
  Ranks ranks(2);
  const auto synchronized = ranks.open({});
  const auto piggy = ranks.open(
      {.buffers = Buffers::piggy_back, .completion = Completion::queue, .queue = &queue});
  Endpoint matched = synchronized[0];
  Endpoint queued = piggy[0];
  Synchronizer done;
  std::vector<std::byte> buffer(600);
  EXPECT_EQ(matched.send(2, 0, buffer, done).code(), Code::misuse) << "no such rank";
  EXPECT_EQ(matched.send(-1, 0, buffer, done).code(), Code::misuse);
  EXPECT_EQ(matched.send(1, 0, buffer).code(), Code::misuse) << "no synchronizer";
  EXPECT_EQ(matched.receive(1, 0, buffer, nullptr).code(), Code::misuse);
  EXPECT_EQ(queued.send(1, 0, buffer).code(), Code::misuse) << "longer than a packet";
  EXPECT_EQ(queued.receive(1, 0, buffer, nullptr).code(), Code::misuse) << "nothing is posted";
  EXPECT_EQ(ranks.devices[0]->open_endpoint({.completion = Completion::queue}).status().code,
            Code::misuse)
      << "no queue";
  ranks.expect_at_rest();
}

// --- exhausted resources ---------------------------------------------------------------------

TEST(BackPressure, credits_run_out_and_come_back) {
  CompletionQueue queue(1024);
  Ranks ranks(2);
  auto endpoints = ranks.open(
      {.buffers = Buffers::piggy_back, .completion = Completion::queue, .queue = &queue});
  const std::size_t credits = ranks.devices[0]->shares.credits;
  std::size_t sent = 0;
  while (endpoints[0].send(1, 0, pattern(8, 1)).is_done()) ++sent;
  EXPECT_EQ(sent, credits);
  ranks.settle();
  EXPECT_EQ(endpoints[0].send(1, 0, pattern(8, 1)).reason(), Retry::credit) << "not consumed yet";
  EXPECT_EQ(ranks.devices[0]->counters().retries[static_cast<int>(Retry::credit)], 2U);
  for (std::size_t i = 0; i < credits; ++i) ASSERT_TRUE(queue.pop().has_value());
  ranks.settle();
  EXPECT_TRUE(endpoints[0].send(1, 0, pattern(8, 1)).is_done());
  ranks.settle();
  ASSERT_TRUE(queue.pop().has_value());
  ranks.expect_at_rest();
}

TEST(BackPressure, packets_run_out) {
  auto config = test::small_config();
  config.send_packets = 4;
  Ranks ranks(2, config);
  auto endpoints = ranks.open({});
  Synchronizer unused;
  int sent = 0;
  Answer answer = Answer::done();
  // Each message is too large for inject(), so it holds a packet until the transport reports that
  // the message is sent. The rank has four packets.
  while ((answer = endpoints[0].send(1, 0, pattern(400, 1), unused)).is_done()) ++sent;
  EXPECT_EQ(sent, 4);
  EXPECT_EQ(answer.reason(), Retry::packet);
  ranks.settle();
  EXPECT_TRUE(endpoints[0].send(1, 0, pattern(400, 1), unused).is_done());
}

TEST(BackPressure, large_messages_run_out) {
  Ranks ranks(2);
  auto endpoints = ranks.open({});
  const auto data = pattern(1000, 1);
  std::array<Synchronizer, 8> sent;
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_TRUE(endpoints[0].send(1, 0, data, sent[i]).is_posted());
  }
  EXPECT_EQ(endpoints[0].send(1, 0, data, sent[4]).reason(), Retry::record);
  std::vector<std::byte> buffer(1000);
  Synchronizer received;
  (void)endpoints[1].receive(0, 0, buffer, received);
  ranks.settle();
  EXPECT_TRUE(received.test() && sent[0].test());
  EXPECT_TRUE(endpoints[0].send(1, 0, data, sent[4]).is_posted());
}

// All ranks start as many large messages as possible to all other ranks before any rank receives.
// Each rank must keep some of its records of large messages free for those that it will receive.
TEST(BackPressure, large_messages_to_many_leave_room_for_those_that_come) {
  constexpr int kRanks = 4;
  Ranks ranks(kRanks);
  auto endpoints = ranks.open({});
  const auto sent = pattern(2000, 7);
  std::vector<std::unique_ptr<Synchronizer>> done;
  std::vector<std::pair<int, int>> started;
  for (int from = 0; from < kRanks; ++from) {
    const auto begin = static_cast<std::size_t>(from);
    for (int i = 0; i < 4 * (kRanks - 1); ++i) {
      const int to = (from + 1 + i % (kRanks - 1)) % kRanks;
      auto& one = done.emplace_back(std::make_unique<Synchronizer>());
      if (!endpoints[begin].send(to, 1, sent, *one).is_posted()) {
        done.pop_back();
        continue;
      }
      started.emplace_back(from, to);
    }
  }
  EXPECT_GE(started.size(), std::size_t{kRanks} * 4);
  std::vector<std::vector<std::byte>> got(started.size(), std::vector<std::byte>(sent.size()));
  for (std::size_t i = 0; i < started.size(); ++i) {
    auto& one = done.emplace_back(std::make_unique<Synchronizer>());
    const auto to = static_cast<std::size_t>(started[i].second);
    EXPECT_FALSE(endpoints[to].receive(started[i].first, 1, got[i], *one).is_error());
  }
  ranks.settle();
  for (const auto& one : done) EXPECT_TRUE(one->test());
  for (const auto& data : got) EXPECT_TRUE(same(data, sent));
  ranks.expect_at_rest();
}

TEST(BackPressure, a_full_network_is_a_retry_and_nothing_is_lost) {
  Ranks ranks(2);
  auto endpoints = ranks.open({});
  const auto data = pattern(1000, 1);
  std::vector<std::byte> buffer(1000);
  Synchronizer sent;
  Synchronizer received;
  ranks.network.refuse(0, 1);
  EXPECT_EQ(endpoints[0].send(1, 0, data, sent).reason(), Retry::network);
  EXPECT_TRUE(endpoints[0].send(1, 0, data, sent).is_posted());
  // The network refuses the receiver's RTR (its answer to the RTS header) three times, and then the
  // sender's put (the data) three times.
  ranks.network.refuse(1, 3);
  (void)endpoints[1].receive(0, 0, buffer, received);
  ranks.devices[1]->progress();
  ranks.network.refuse(0, 3);
  for (int i = 0; i < 20; ++i) ranks.settle();
  EXPECT_TRUE(sent.test() && received.test());
  EXPECT_TRUE(same(buffer, data));
  EXPECT_GE(ranks.devices[0]->counters().deferred, 3U);
  ranks.expect_at_rest();
}

TEST(BackPressure, a_full_queue_holds_up_its_messages) {
  CompletionQueue queue(2);
  Ranks ranks(2);
  auto endpoints =
      ranks.open({.buffers = Buffers::dynamic, .completion = Completion::queue, .queue = &queue});
  for (std::uint32_t tag = 0; tag < 8; ++tag) {
    ASSERT_TRUE(endpoints[0].send(1, tag, pattern(8, tag)).is_done());
  }
  std::vector<int> seen(8, 0);
  for (int round = 0; round < 8; ++round) {
    ranks.settle();
    while (auto message = queue.pop()) {
      EXPECT_TRUE(same(message->bytes(), pattern(8, message->tag())));
      ++seen[message->tag()];
    }
  }
  EXPECT_EQ(seen, std::vector<int>(8, 1));
  ranks.expect_at_rest();
}

struct Budget {
  int left;
  static void* allocate(std::size_t size, void* self) {
    auto& budget = *static_cast<Budget*>(self);
    if (budget.left == 0) return nullptr;
    --budget.left;
    return std::malloc(size);
  }
  static void release(void* memory, void* self) {
    ++static_cast<Budget*>(self)->left;
    std::free(memory);
  }
};

TEST(BackPressure, an_allocator_that_refuses_is_asked_again) {
  CompletionQueue queue(64);
  Budget budget{1};
  Ranks ranks(2);
  auto endpoints = ranks.open({.buffers = Buffers::dynamic,
                               .completion = Completion::queue,
                               .queue = &queue,
                               .allocator = {Budget::allocate, Budget::release, &budget}});
  for (const std::size_t size : {8U, 2000U, 8U, 2000U}) {
    const auto data = pattern(size, 1);
    std::size_t received = 0;
    ASSERT_FALSE(endpoints[0].send(1, 0, data).is_error());
    ASSERT_FALSE(endpoints[0].send(1, 0, data).is_error());
    for (int round = 0; round < 20 && received < 2; ++round) {
      ranks.settle();
      std::size_t held = 0;
      while (auto message = queue.pop()) {
        if (message->kind() == Kind::sent) continue;
        ++received;
        ++held;
      }
      EXPECT_LE(held, 2U);
    }
    EXPECT_EQ(received, 2U);
    EXPECT_EQ(budget.left, 1);
  }
  ranks.expect_at_rest();
}

TEST(BackPressure, the_transport_never_waits_for_a_posted_packet) {
  CompletionQueue queue(4);
  Ranks ranks(2);
  auto endpoints = ranks.open(
      {.buffers = Buffers::piggy_back, .completion = Completion::queue, .queue = &queue});
  std::uint32_t sent = 0;
  std::uint32_t received = 0;
  for (int i = 0; i < 5000; ++i) {
    while (endpoints[0].send(1, sent, pattern(8, sent)).is_done()) ++sent;
    ranks.devices[0]->progress();
    ranks.devices[1]->progress();
    if (i % 3 != 0) continue;  // the consumer is slow
    if (const auto message = queue.pop()) {
      EXPECT_TRUE(same(message->bytes(), pattern(8, message->tag())));
      ++received;
    }
  }
  EXPECT_GT(received, 1000U);
  EXPECT_LE(ranks.network.most_unposted(1), ranks.devices[1]->shares.credits);
}

TEST(BackPressure, a_transport_that_takes_few_packets_gives_fewer_credits) {
  CompletionQueue queue(1024);
  auto config = test::small_config();
  config.receive_packets = 1000;
  Ranks ranks(2, config, 64);
  EXPECT_EQ(ranks.devices[0]->unposted[false].load(), 0U);
  auto endpoints = ranks.open(
      {.buffers = Buffers::piggy_back, .completion = Completion::queue, .queue = &queue});
  int received = 0;
  for (int i = 0; i < 1000; ++i) {
    ASSERT_FALSE(endpoints[0].send(1, 0, pattern(8, 1)).is_error());
    ranks.settle();
    while (queue.pop()) ++received;
  }
  EXPECT_EQ(received, 1000) << "credits come back";
}

// --- the death of a rank --------------------------------------------------------------------

TEST(Death, ends_everything_that_waits_for_the_dead) {
  CompletionQueue queue(64);
  Ranks ranks(3);
  auto matched = ranks.open({});
  auto queued = ranks.open({.completion = Completion::queue, .queue = &queue});
  std::vector<std::byte> buffer(1000);
  Synchronizer from_dead;
  Synchronizer from_living;
  Synchronizer sent;
  EXPECT_TRUE(matched[0].receive(1, 0, buffer, from_dead).is_posted());
  EXPECT_TRUE(matched[0].receive(2, 0, buffer, from_living).is_posted());
  EXPECT_TRUE(queued[0].receive(1, 3, buffer, &buffer).is_posted());
  const auto data = pattern(1000, 1);
  EXPECT_TRUE(matched[0].send(1, 7, data, sent).is_posted());
  ranks.network.kill(1);
  ranks.devices[0]->progress();
  ASSERT_TRUE(from_dead.test());
  EXPECT_EQ(from_dead.result().status().code, Code::gone);
  ASSERT_TRUE(sent.test());
  EXPECT_EQ(sent.result().status().code, Code::gone);
  EXPECT_FALSE(from_living.test());
  std::map<Kind, int> kinds;
  while (const auto message = queue.pop()) {
    ++kinds[message->kind()];
    EXPECT_EQ(message->rank(), 1);
    EXPECT_EQ(message->status().code, Code::gone);
  }
  EXPECT_EQ(kinds[Kind::received], 1);
  EXPECT_EQ(kinds[Kind::gone], 1);
  Synchronizer late;
  EXPECT_EQ(matched[0].receive(1, 0, buffer, late).code(), Code::gone);
  EXPECT_EQ(matched[0].send(1, 0, data, late).code(), Code::gone);
  EXPECT_TRUE(matched[2].send(0, 0, pattern(5, 5), late).is_done());
  ranks.settle();
  EXPECT_TRUE(from_living.test());
}

TEST(Death, a_message_that_arrived_before_can_be_received) {
  Ranks ranks(2);
  auto endpoints = ranks.open({});
  Synchronizer done;
  EXPECT_TRUE(endpoints[1].send(0, 0, pattern(5, 5), done).is_done());
  ranks.settle();
  ranks.network.kill(1);
  ranks.settle();
  std::vector<std::byte> buffer(5);
  EXPECT_TRUE(endpoints[0].receive(1, 0, buffer, done).is_done());
  EXPECT_TRUE(done.result().status().ok());
  EXPECT_TRUE(same(buffer, pattern(5, 5)));
}

TEST(Death, a_full_queue_hears_of_it_later) {
  CompletionQueue queue(2);
  Ranks ranks(2);
  auto endpoints = ranks.open({.completion = Completion::queue, .queue = &queue});
  std::vector<std::byte> buffer(8);
  for (std::uint32_t tag = 0; tag < 6; ++tag) {
    EXPECT_TRUE(endpoints[0].receive(1, tag, buffer, nullptr).is_posted());
  }
  ranks.network.kill(1);
  int failures = 0;
  int notices = 0;
  for (int round = 0; round < 10; ++round) {
    ranks.settle();
    while (const auto message = queue.pop()) {
      // Both ranks of this test share the queue, and the devices of both report the death of rank
      // 1, the killed rank.
      if (message->rank() == 1) ++(message->kind() == Kind::gone ? notices : failures);
    }
  }
  EXPECT_EQ(failures, 6);
  EXPECT_EQ(notices, 2);
}

}  // namespace
}  // namespace mh::lci
