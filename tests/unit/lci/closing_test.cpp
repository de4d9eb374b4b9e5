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

}  // namespace
}  // namespace mh::lci
