// SPDX-License-Identifier: BSD-3-Clause
// Devices that are closed while messages are under way: other devices lose nothing, and all memory
// of allocators is released.
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <thread>
#include <vector>

#include "lci/ranks.hpp"

namespace mh::lci {
namespace {

using test::pattern;
using test::Ranks;
using test::same;

// Memory of the C library, counted. allocate() fails once `left` blocks are in use.
struct Counted {
  int left = 1 << 20;
  int allocated = 0;
  int released = 0;
  static void* allocate(std::size_t size, void* self) {
    auto& counted = *static_cast<Counted*>(self);
    if (counted.left == 0) return nullptr;
    --counted.left;
    ++counted.allocated;
    return std::malloc(size);
  }
  static void release(void* memory, void* self) {
    auto& counted = *static_cast<Counted*>(self);
    ++counted.left;
    ++counted.released;
    std::free(memory);
  }
  Allocator allocator() { return {allocate, release, this}; }
};

EndpointConfig queued(CompletionQueue& queue, Counted& counted) {
  return {.buffers = Buffers::dynamic,
          .completion = Completion::queue,
          .queue = &queue,
          .allocator = counted.allocator()};
}

// --- completions of other devices in the same queue -------------------------------------------

TEST(Closing, other_devices_completions_stay_in_the_queue) {
  CompletionQueue queue(8);
  Counted counted;
  Ranks others(2);
  auto kept = others.open(queued(queue, counted));
  {
    Ranks closed(2);
    auto endpoints = closed.open(queued(queue, counted));
    for (std::uint32_t tag = 0; tag < 4; ++tag) {
      ASSERT_TRUE(kept[0].send(1, tag, pattern(8, tag)).is_done());
      others.settle();
      ASSERT_TRUE(endpoints[0].send(1, 100, pattern(8, 0)).is_done());
      closed.settle();
    }
  }
  for (std::uint32_t tag = 0; tag < 4; ++tag) {
    const auto message = queue.pop();
    ASSERT_TRUE(message.has_value());
    EXPECT_EQ(message->tag(), tag);
    EXPECT_TRUE(same(message->bytes(), pattern(8, tag)));
  }
  EXPECT_FALSE(queue.pop().has_value());
  others.expect_at_rest();
}

// A thread makes progress on one device, whose completions wait for room in the queue, while other
// devices with the same queue are closed.
TEST(Closing, completions_that_wait_for_room_displace_no_others) {
  constexpr std::size_t kCapacity = 256;
  auto config = test::small_config();
  config.receive_packets = 8 * kCapacity;
  CompletionQueue queue(kCapacity);
  Counted counted;
  Ranks others(2, config);
  auto endpoints = others.open(queued(queue, counted));
  std::uint32_t sent = 0;
  while (sent < 2 * kCapacity && endpoints[0].send(1, sent, pattern(8, sent)).is_done()) ++sent;
  ASSERT_GT(sent, kCapacity);
  others.settle();
  std::atomic<bool> started{false};
  std::atomic<bool> closed{false};
  std::thread server([&] {
    for (; !closed.load(); started.store(true)) others.devices[1]->progress();
  });
  while (!started.load()) std::this_thread::yield();
  for (int round = 0; round < 300; ++round) {
    Ranks closing(1);
    (void)closing.open(queued(queue, counted));
  }
  closed.store(true);
  server.join();
  std::vector<int> seen(sent, 0);
  for (int round = 0; round < 4; ++round) {
    others.settle();
    while (const auto message = queue.pop()) ++seen[message->tag()];
  }
  EXPECT_EQ(seen, std::vector<int>(sent, 1));
  others.expect_at_rest();
}

TEST(Closing, devices_with_one_queue_close_at_a_time) {
  for (int round = 0; round < 50; ++round) {
    CompletionQueue queue(64);
    std::atomic<int> ready{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&] {
        Ranks ranks(2);
        auto endpoints = ranks.open(
            {.buffers = Buffers::piggy_back, .completion = Completion::queue, .queue = &queue});
        for (int sent = 0; sent < 6; ++sent) (void)endpoints[0].send(1, 0, pattern(8, 1));
        ranks.settle();
        ++ready;
        while (ready.load() != 3) std::this_thread::yield();
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_FALSE(queue.pop().has_value());
  }
}

// --- memory of messages that were not delivered -----------------------------------------------

void expect_all_released(const Counted& counted, int allocated) {
  EXPECT_EQ(counted.allocated, allocated);
  EXPECT_EQ(counted.released, allocated);
}

TEST(Closing, messages_that_wait_for_room_in_the_queue_are_released) {
  for (const std::size_t size : {8U, 2000U}) {
    CompletionQueue queue(2);
    CompletionQueue sends(64);
    Counted counted;
    {
      Ranks ranks(2);
      Endpoint from = Ranks::open_at(*ranks.devices[0], queued(sends, counted));
      (void)Ranks::open_at(*ranks.devices[1], queued(queue, counted));
      const auto data = pattern(size, 1);
      for (std::uint32_t tag = 0; tag < 4; ++tag) {
        ASSERT_FALSE(from.send(1, tag, data).is_error());
      }
      for (int i = 0; i < 8; ++i) ranks.settle();
    }
    expect_all_released(counted, 4);
  }
}

// Closes the devices after the receiver has made memory for a large message. The sender does not
// see the receiver's answer; the network refuses the answer `refused` times.
void close_before_the_answer(int refused) {
  Counted counted;
  CompletionQueue queue(64);
  {
    Ranks ranks(2);
    auto endpoints = ranks.open(queued(queue, counted));
    const auto data = pattern(2000, 1);
    ASSERT_TRUE(endpoints[0].send(1, 0, data).is_posted());
    ranks.network.refuse(1, refused);
    ranks.devices[1]->progress();
  }
  expect_all_released(counted, 1);
}

TEST(Closing, a_message_whose_answer_the_network_refuses_is_released) {
  close_before_the_answer(1000);
}

TEST(Closing, a_message_that_is_still_under_way_is_released) { close_before_the_answer(0); }

TEST(Closing, a_message_without_memory_has_nothing_to_release) {
  Counted counted{.left = 1};
  CompletionQueue queue(64);
  {
    Ranks ranks(2);
    auto endpoints = ranks.open(queued(queue, counted));
    const auto data = pattern(2000, 1);
    for (const std::size_t size : {8U, 8U, 2000U}) {
      ASSERT_FALSE(endpoints[0].send(1, 0, std::span(data).first(size)).is_error());
    }
    ranks.settle();
  }
  expect_all_released(counted, 1);
}

}  // namespace
}  // namespace mh::lci
