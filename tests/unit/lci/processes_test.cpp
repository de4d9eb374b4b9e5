// SPDX-License-Identifier: BSD-3-Clause
// LCI between processes: through shared memory of the node, and over libfabric's shm, tcp with rxm,
// and tcp alone if libfabric supports it.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lci/job_of_processes.hpp"
#include "lci/ranks.hpp"
#include "manyhands/ult.hpp"
#include "support/sanitizer.hpp"

namespace mh::lci {
namespace {

using test::Child;
using test::JobOfProcesses;
using test::pattern;
using test::same;

class Processes : public testing::TestWithParam<const char*> {
 protected:
  using Body = JobOfProcesses::Body;
  [[nodiscard]] static bool is_node() { return std::string(GetParam()) == "node"; }
  [[nodiscard]] static DeviceConfig device_config() {
    DeviceConfig config;
    if (!is_node()) config.provider = GetParam();
    config.node = is_node();
    return config;
  }
  std::vector<Child> start(int size, const Body& body) const {
    return job_.start(size, device_config(), body);
  }
  void run(int size, const Body& body) const { job_.run(size, device_config(), body); }

  JobOfProcesses job_;
};

TEST_P(Processes, exchange_messages_of_all_sizes) {
  run(2, [](Job& /*job*/, Device& device) {
    auto opened = Communicator::open(device);
    MH_CHECK(opened.ok());
    const int other = 1 - device.rank();
    for (const std::size_t size : {0U, 1U, 64U, 4096U, 7000U, 8000U, 8001U, 100'000U, 3'000'000U}) {
      const auto mine = pattern(size, static_cast<unsigned>(device.rank()));
      std::vector<std::byte> theirs(size);
      Synchronizer received;
      MH_CHECK(opened->start_receive(other, 1, theirs, received).ok());
      MH_CHECK(opened->send(other, 1, mine).ok());
      const auto bytes = opened->wait(received);
      MH_CHECK(bytes.ok() && *bytes == size);
      MH_CHECK(same(theirs, pattern(size, static_cast<unsigned>(other))));
    }
    MH_CHECK(device.counters().large_received == 3);
    return 0;
  });
}

TEST_P(Processes, collectives_give_what_they_should) {
  run(3, [](Job& /*job*/, Device& device) {
    auto all = Communicator::open(device);
    MH_CHECK(all.ok());
    const int rank = device.rank();
    for (int round = 0; round < 20; ++round) {
      MH_CHECK(all->barrier().ok());
      std::vector<std::int64_t> sums(round == 7 ? 5000 : 3, rank + round);
      MH_CHECK(all->all_reduce(std::span(sums), std::plus<std::int64_t>{}).ok());
      for (const auto sum : sums) MH_CHECK(sum == 3 + 3 * round);
      const int root = round % 3;
      auto data = pattern(5000, static_cast<unsigned>(rank));
      MH_CHECK(all->broadcast(root, data).ok());
      MH_CHECK(same(data, pattern(5000, static_cast<unsigned>(root))));
      std::vector<int> send(3);
      std::vector<int> got(3);
      for (int i = 0; i < 3; ++i) send[static_cast<std::size_t>(i)] = 10 * rank + i;
      MH_CHECK(all->all_to_all(std::as_bytes(std::span(send)),
                               std::as_writable_bytes(std::span(got)), sizeof(int))
                   .ok());
      for (int i = 0; i < 3; ++i) MH_CHECK(got[static_cast<std::size_t>(i)] == 10 * i + rank);
    }
    return 0;
  });
}

TEST_P(Processes, a_reduction_takes_every_kind_of_contiguous_range) {
  run(2, [](Job& /*job*/, Device& device) {
    auto all = Communicator::open(device);
    MH_CHECK(all.ok());
    const int mine = device.rank() + 1;
    int plain[2] = {mine, 10 * mine};
    std::array<int, 2> array{mine, 10 * mine};
    std::vector<int> vector{mine, 10 * mine};
    MH_CHECK(all->all_reduce(plain, std::plus<>{}).ok());
    MH_CHECK(plain[0] == 3 && plain[1] == 30);
    MH_CHECK(all->all_reduce(array, std::plus<>{}).ok());
    MH_CHECK((array == std::array{3, 30}));
    MH_CHECK(all->all_reduce(std::span(array), std::plus<>{}).ok());  // a fixed extent
    MH_CHECK((array == std::array{6, 60}));
    MH_CHECK(all->all_reduce(vector, std::plus<>{}).ok());
    MH_CHECK((vector == std::vector{3, 30}));
    MH_CHECK(all->all_reduce(std::span(vector), std::plus<>{}).ok());
    MH_CHECK((vector == std::vector{6, 60}));
    return 0;
  });
}

// Plays one task of this rank, `rounds` times: rank 0 sends a number (the ball) to rank 1 and gets
// it back. Returns false if a call failed or the number is wrong.
bool plays_well(Communicator& all, std::uint32_t tag, int rounds) {
  const int other = 1 - all.rank();
  for (int round = 0; round < rounds; ++round) {
    std::uint64_t ball = std::uint64_t{tag} << 32U | static_cast<unsigned>(round);
    const std::uint64_t expected = ball;
    const auto bytes = std::as_writable_bytes(std::span(&ball, 1));
    const bool ok = all.rank() == 0
                        ? all.send(other, tag, bytes).ok() && all.receive(other, tag, bytes).ok()
                        : all.receive(other, tag, bytes).ok() && all.send(other, tag, bytes).ok();
    if (!ok || ball != expected) return false;
  }
  return true;
}

// Starts `tasks` tasks on this rank. Each plays with the task of the same number on the other rank.
int play(Device& device, std::uint32_t tasks, int rounds) {
  auto all = Communicator::open(device);
  auto scheduler = ult::Scheduler::start(
      {.workers = 2, .tasks_per_worker = std::max(tasks, 512U), .guard_pages = false});
  MH_CHECK(all.ok() && scheduler.ok());
  std::atomic<bool> stop{false};
  auto server = scheduler->spawn([&] { serve(device, stop); });
  MH_CHECK(server.ok());
  std::atomic<int> wrong{0};
  const auto run = scheduler->run([&] {
    ult::Group group;
    for (std::uint32_t tag = 0; tag < tasks; ++tag) {
      group.spawn([&, tag] {
        if (!plays_well(*all, tag, rounds)) ++wrong;
      });
    }
    (void)group.wait();
  });
  stop = true;
  (void)server->join();
  MH_CHECK(run.ok());
  MH_CHECK(wrong == 0);
  return 0;
}

TEST_P(Processes, light_tasks_play_ping_pong) {
  run(2,
      [](Job& /*job*/, Device& device) { return play(device, test::kSanitized ? 200 : 1500, 3); });
}

// Rank 0 sends as fast as it can, and rank 1 sleeps between messages. The memory limit of the queue
// bounds the number of messages by which rank 0 is ahead.
int hold_up(Device& device, std::size_t grant_bytes) {
  constexpr std::size_t kLimit = 200'000;
  constexpr std::uint32_t kMessages = 3000;
  auto opened = Queue::open(device, kLimit, grant_bytes);
  MH_CHECK(opened.ok());
  Queue& queue = *opened;
  const auto size_of = [](std::uint32_t tag) { return tag % 10 == 0 ? 20'000U : 1000U; };
  if (device.rank() == 0) {
    std::atomic<std::uint32_t> sent{0};
    std::uint32_t posted = 0;
    std::vector<std::vector<std::byte>> kept;
    for (std::uint32_t tag = 0; tag < kMessages; ++tag) {
      kept.push_back(pattern(size_of(tag), tag));
      const Answer answer =
          insist(device, [&] { return queue.send_enqueue(1, tag, kept.back(), &sent); });
      MH_CHECK(!answer.is_error());
      if (answer.is_posted()) ++posted;
      MH_CHECK(!queue.receive_dequeue());
    }
    while (sent.load() != posted) {
      device.progress();
      MH_CHECK(!queue.receive_dequeue());
    }
    const Counters counters = device.counters();
    MH_CHECK(counters.large_sent == posted);
    return 0;
  }
  std::vector<int> seen(kMessages, 0);
  for (std::uint32_t count = 0; count < kMessages;) {
    device.progress();
    const auto message = queue.receive_dequeue();
    if (!message) continue;
    MH_CHECK(message->status().ok());
    MH_CHECK(same(message->bytes(), pattern(size_of(message->tag()), message->tag())));
    MH_CHECK(++seen[message->tag()] == 1);
    ++count;
    if (count % 50 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    MH_CHECK(queue.most_memory() <= kLimit + grant_bytes);
  }
  return 0;
}

TEST_P(Processes, a_fast_producer_is_held_up) {
  run(2, [](Job& /*job*/, Device& device) { return hold_up(device, 0); });
}

TEST_P(Processes, a_fast_producer_into_granted_buffers_is_held_up) {
  run(2, [](Job& /*job*/, Device& device) { return hold_up(device, 20'000); });
}

// The queue has memory for one message at a time: each message must give its memory back, although
// the receiver tries to take it.
int try_to_take(Device& device) {
  constexpr std::size_t kSize = 20'000;
  auto queue = Queue::open(device, kSize);
  MH_CHECK(queue.ok());
  const auto data = pattern(kSize, 1);
  std::atomic<std::uint32_t> sent{0};
  for (std::uint32_t i = 0; i < 10; ++i) {
    if (device.rank() == 0) {
      const auto send = [&] { return queue->send_enqueue(1, i, data, &sent); };
      MH_CHECK(insist(device, send).is_posted());
      while (sent.load() != i + 1) device.progress();
      continue;
    }
    auto message = queue->receive_dequeue();
    for (; !message; message = queue->receive_dequeue()) device.progress();
    MH_CHECK(message->take() == nullptr);
    const Message moved = std::move(*message);
    MH_CHECK(same(moved.bytes(), data));
  }
  MH_CHECK(queue->memory() == 0);
  return 0;
}

TEST_P(Processes, the_memory_of_a_queue_cannot_be_taken) {
  run(2, [](Job& /*job*/, Device& device) { return try_to_take(device); });
}

TEST_P(Processes, a_killed_peer_is_an_error) {
  auto ranks = start(3, [](Job& /*job*/, Device& device) {
    auto all = Communicator::open(device);
    MH_CHECK(all.ok());
    MH_CHECK(all->barrier().ok());
    if (device.rank() == 2) ::kill(::getpid(), SIGKILL);
    std::byte byte{};
    const auto got = all->receive(2, 0, {&byte, 1});
    MH_CHECK(got.status().code == Code::gone);
    MH_CHECK(all->send(2, 0, {&byte, 1}).code == Code::gone);
    // The two living ranks can still exchange messages.
    const int other = 1 - device.rank();
    MH_CHECK(all->send(other, 3, {&byte, 1}).ok());
    MH_CHECK(all->receive(other, 3, {&byte, 1}).ok());
    return 0;
  });
  const std::string dead = std::to_string(ranks[2].pid()) + ":";
  EXPECT_EQ(ranks[2].wait(), -SIGKILL);
  EXPECT_EQ(ranks[0].wait(), 0);
  EXPECT_EQ(ranks[1].wait(), 0);
  for (const auto& file : std::filesystem::directory_iterator("/dev/shm")) {
    EXPECT_FALSE(file.path().filename().string().starts_with(dead)) << file.path();
  }
}

// The peer dies while an RTS header to it and an RTS header from it are under way.
TEST_P(Processes, a_killed_peer_ends_large_messages) {
  auto ranks = start(2, [](Job& /*job*/, Device& device) {
    auto all = Communicator::open(device);
    MH_CHECK(all.ok());
    const auto data = pattern(1'000'000, 1);
    std::vector<std::byte> buffer(data.size());
    Synchronizer sent;
    Synchronizer received;
    if (device.rank() == 1) {
      MH_CHECK(all->start_send(0, 0, data, sent).ok());
      MH_CHECK(all->barrier().ok());
      ::kill(::getpid(), SIGKILL);
    }
    MH_CHECK(all->start_send(1, 0, data, sent).ok());
    MH_CHECK(all->barrier().ok());
    while (device.alive(1)) device.progress();
    MH_CHECK(all->wait(sent).status().code == Code::gone);
    // The RTS header of the dead peer has arrived; its data cannot arrive any more.
    const auto started = all->start_receive(1, 0, buffer, received);
    MH_CHECK(started.ok() && all->wait(received).status().code == Code::gone);
    return 0;
  });
  EXPECT_EQ(ranks[1].wait(), -SIGKILL);
  EXPECT_EQ(ranks[0].wait(), 0);
}

TEST_P(Processes, ranks_that_disagree_do_not_open_a_device) {
  std::vector<Child> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&] {
      auto job = Job::join(job_.config(rank, 2));
      MH_CHECK(job.ok());
      DeviceConfig config = device_config();
      config.receive_packets = 100 + static_cast<std::size_t>(rank);
      MH_CHECK(Device::open(*job, config).status().code == Code::mismatch);
      config.receive_packets = 100;
      config.provider = "no_such_provider";
      MH_CHECK(Device::open(*job, config).status().code == Code::unsupported);
      return 0;
    });
  }
  for (Child& rank : ranks) EXPECT_EQ(rank.wait(), 0);
}

// The shared-memory ring between two ranks of a node has room for only some of the messages.
TEST_P(Processes, large_messages_by_the_hundred_arrive_whole) {
  run(2, [](Job& /*job*/, Device& device) {
    constexpr std::size_t kMessages = 100;
    constexpr std::size_t kSize = 300'000;
    auto all = Communicator::open(device);
    MH_CHECK(all.ok());
    const int other = 1 - device.rank();
    const auto mine = pattern(kSize, static_cast<unsigned>(device.rank()));
    std::vector<std::vector<std::byte>> theirs(kMessages, std::vector<std::byte>(kSize));
    std::vector<Synchronizer> received(kMessages);
    std::vector<Synchronizer> sent(kMessages);
    for (std::uint32_t tag = 0; tag < kMessages; ++tag) {
      MH_CHECK(all->start_receive(other, tag, theirs[tag], received[tag]).ok());
    }
    for (std::uint32_t tag = 0; tag < kMessages; ++tag) {
      MH_CHECK(all->start_send(other, tag, mine, sent[tag]).ok());
    }
    for (std::size_t i = 0; i < kMessages; ++i) {
      MH_CHECK(all->wait(sent[i]).ok() && all->wait(received[i]).ok());
      MH_CHECK(same(theirs[i], pattern(kSize, static_cast<unsigned>(other))));
    }
    return 0;
  });
}

INSTANTIATE_TEST_SUITE_P(transports, Processes,
                         testing::Values("node", "tcp", "tcp;ofi_rxm", "shm"),
                         [](const auto& chosen) {
                           std::string name = chosen.param;
                           std::replace(name.begin(), name.end(), ';', '_');
                           return name;
                         });

}  // namespace
}  // namespace mh::lci
