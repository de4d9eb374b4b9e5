// SPDX-License-Identifier: BSD-3-Clause
// Many threads at two devices of one process, with messages of all sizes over a network that
// refuses sends. Each message arrives once, and each waiting thread is woken.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "lci/ranks.hpp"
#include "support/sanitizer.hpp"

namespace mh::lci {
namespace {

using test::pattern;
using test::Ranks;
using test::same;

// Starts a thread for each device, which makes the device's progress. The network sometimes refuses
// sends.
class Running {
 public:
  explicit Running(Ranks& ranks) {
    for (std::size_t i = 0; i < ranks.devices.size(); ++i) {
      threads_.emplace_back([this, i, &ranks] {
        for (int turn = 0; !stop_; ++turn) {
          if (ranks.devices[i]->progress() == 0) std::this_thread::yield();
          if (turn % 512 == 0) ranks.network.refuse(static_cast<int>(i), 3);
        }
      });
    }
  }
  ~Running() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

template <class Call>
Answer until_taken(Call call) {
  for (;;) {
    const Answer answer = call();
    if (!answer.is_retry()) return answer;
    std::this_thread::yield();
  }
}

TEST(Threads, exchange_messages_of_all_sizes_at_once) {
  const int rounds = test::kSanitized ? 60 : 600;
  Ranks ranks(2);
  auto endpoints = ranks.open({});
  {
    const Running running(ranks);
    std::vector<std::thread> players;
    for (std::uint32_t tag = 0; tag < 2; ++tag) {
      for (std::size_t rank = 0; rank < 2; ++rank) {
        players.emplace_back([&, tag, rank] {
          const int other = 1 - static_cast<int>(rank);
          for (int round = 0; round < rounds; ++round) {
            const std::size_t size =
                std::vector<std::size_t>{0, 8, 300, 2000}[(static_cast<unsigned>(round) + tag) % 4];
            const auto data = pattern(size, tag + static_cast<unsigned>(round));
            std::vector<std::byte> buffer(size);
            Synchronizer received;
            Synchronizer sent;
            ASSERT_FALSE(until_taken([&] {
                           return endpoints[rank].receive(other, tag, buffer, received);
                         }).is_error());
            const Answer answer =
                until_taken([&] { return endpoints[rank].send(other, tag, data, sent); });
            ASSERT_FALSE(answer.is_error());
            received.wait();
            if (answer.is_posted()) sent.wait();
            ASSERT_TRUE(same(buffer, data));
          }
        });
      }
    }
    for (std::thread& player : players) player.join();
  }
  ranks.expect_at_rest();
}

TEST(Threads, share_a_queue) {
  const std::uint32_t count = test::kSanitized ? 500 : 5000;
  CompletionQueue queue(16);
  Ranks ranks(2);
  auto endpoints =
      ranks.open({.buffers = Buffers::dynamic, .completion = Completion::queue, .queue = &queue});
  std::vector<std::atomic<int>> seen(std::size_t{2} * count);
  std::atomic<std::uint32_t> left{2 * count};
  {
    const Running running(ranks);
    std::vector<std::thread> threads;
    for (std::uint32_t half = 0; half < 2; ++half) {
      threads.emplace_back([&, half] {
        for (std::uint32_t i = 0; i < count; ++i) {
          const std::uint32_t tag = half * count + i;
          ASSERT_TRUE(
              until_taken([&] { return endpoints[0].send(1, tag, pattern(40, tag)); }).is_done());
        }
      });
      threads.emplace_back([&] {
        while (left.load() != 0) {
          const auto message = queue.pop();
          if (!message) {
            std::this_thread::yield();
            continue;
          }
          EXPECT_TRUE(same(message->bytes(), pattern(40, message->tag())));
          ++seen[message->tag()];
          --left;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  for (const auto& times : seen) ASSERT_EQ(times, 1);
  ranks.expect_at_rest();
}

}  // namespace
}  // namespace mh::lci
