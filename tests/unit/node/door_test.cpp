// SPDX-License-Identifier: BSD-3-Clause
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <vector>

#include "node/segment.hpp"
#include "support/child.hpp"
#include "support/deny.hpp"

namespace mh::node {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kBytes = 64U << 10U;
constexpr milliseconds kPatience{20'000};  // limit for events that happen
constexpr milliseconds kShort{60};         // limit for events that never happen
constexpr int kSkip = 77;

std::atomic<int>& cell(const Segment& segment, int index) {
  return reinterpret_cast<std::atomic<int>*>(segment.data())[index];
}

int fetch_and_sign(const DoorName& name, int index) {
  Result<Fd> fd = Door::fetch(name, kPatience);
  if (!fd) return 1;
  if ((::fcntl(fd->get(), F_GETFD) & FD_CLOEXEC) == 0) return 2;
  Result<Segment> segment = Segment::attach(std::move(*fd), kBytes);
  if (!segment) return 3;
  cell(*segment, index).store(100 + index);
  return 0;
}

TEST(Door, hands_one_segment_to_all_peers) {
  constexpr int kPeers = 12;
  Result<Segment> segment = Segment::create(kBytes);
  Result<Door> door = Door::open();
  ASSERT_TRUE(segment.ok() && door.ok());
  std::vector<test::Child> peers;
  for (int i = 0; i < kPeers; ++i) {
    peers.emplace_back([&, i] { return fetch_and_sign(door->name(), i); });
  }
  EXPECT_TRUE(door->hand_over(kPeers, segment->fd(), kPatience).ok());
  for (auto& peer : peers) EXPECT_EQ(peer.wait(), 0);
  for (int i = 0; i < kPeers; ++i) EXPECT_EQ(cell(*segment, i).load(), 100 + i);
}

TEST(Door, no_peers_is_done_at_once) {
  Result<Door> door = Door::open();
  ASSERT_TRUE(door.ok());
  EXPECT_TRUE(door->hand_over(0, 0, milliseconds(0)).ok());
}

TEST(Door, a_peer_that_never_comes_costs_the_timeout_and_no_more) {
  Result<Segment> segment = Segment::create(kBytes);
  Result<Door> door = Door::open();
  ASSERT_TRUE(segment.ok() && door.ok());
  test::Child only_one([&] { return fetch_and_sign(door->name(), 0); });
  const auto start = Clock::now();
  const Status status = door->hand_over(2, segment->fd(), milliseconds(1500));
  EXPECT_EQ(status.code, Code::gone);
  EXPECT_GE(Clock::now() - start, milliseconds(1400));
  EXPECT_LT(Clock::now() - start, milliseconds(15'000));
  EXPECT_EQ(only_one.wait(), 0);
}

TEST(Door, a_root_that_never_serves_costs_the_timeout_and_no_more) {
  Result<Door> door = Door::open();
  ASSERT_TRUE(door.ok());
  EXPECT_EQ(Door::fetch(door->name(), kShort).status().code, Code::gone);
}

TEST(Door, a_door_that_is_not_there_refuses_at_once) {
  DoorName closed{};
  {
    Result<Door> door = Door::open();
    ASSERT_TRUE(door.ok());
    closed = door->name();
  }
  const auto start = Clock::now();
  EXPECT_EQ(Door::fetch(closed, kPatience).status().code, Code::refused);
  EXPECT_LT(Clock::now() - start, kPatience / 2);
}

TEST(Door, names_never_repeat) {
  Result<Door> first = Door::open();
  Result<Door> second = Door::open();
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE(first->name(), second->name());
}

TEST(Door, from_another_network_namespace_is_a_refusal) {
  Result<Door> door = Door::open();
  ASSERT_TRUE(door.ok());
  test::Child far([&] {
    if (::unshare(CLONE_NEWNET) != 0) return kSkip;
    return static_cast<int>(Door::fetch(door->name(), kPatience).status().code);
  });
  const int code = far.wait();
  if (code == kSkip) GTEST_SKIP() << "network namespaces need privilege";
  EXPECT_EQ(static_cast<Code>(code), Code::refused);
}

TEST(Door, another_user_is_turned_away_and_not_counted) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to become another user";
  Result<Segment> segment = Segment::create(kBytes);
  Result<Door> door = Door::open();
  ASSERT_TRUE(segment.ok() && door.ok());
  test::Child stranger([&] {
    if (::setuid(65534) != 0) return kSkip;
    return static_cast<int>(Door::fetch(door->name(), kPatience).status().code);
  });
  test::Child friendly([&] { return fetch_and_sign(door->name(), 0); });
  EXPECT_TRUE(door->hand_over(1, segment->fd(), kPatience).ok());
  EXPECT_EQ(friendly.wait(), 0);
  EXPECT_EQ(door->hand_over(1, segment->fd(), kShort).code, Code::gone)
      << "the stranger is no peer";
  EXPECT_EQ(static_cast<Code>(stranger.wait()), Code::refused);
}

TEST(Door, a_visitor_that_leaves_at_once_is_survived) {
  Result<Segment> segment = Segment::create(kBytes);
  Result<Door> door = Door::open();
  ASSERT_TRUE(segment.ok() && door.ok());
  EXPECT_EQ(Door::fetch(door->name(), milliseconds(0)).status().code, Code::gone);
  test::Child friendly([&] { return fetch_and_sign(door->name(), 0); });
  EXPECT_TRUE(door->hand_over(1, segment->fd(), kPatience).ok()) << "the one that left is no peer";
  EXPECT_EQ(friendly.wait(), 0);
}

TEST(Door, a_sandbox_without_sockets_is_a_refusal) {
  test::Child child([] {
    if (!test::deny(SYS_socket, EPERM)) return kSkip;
    return static_cast<int>(Door::open().status().code);
  });
  EXPECT_EQ(static_cast<Code>(child.wait()), Code::refused);
}

// Plays a rank that gives a file with its number, and receives the files of the other ranks.
int exchange_numbers(std::uint32_t me, std::uint32_t ranks, Door* root, const DoorName& name,
                     std::uint32_t silent) {
  Result<Segment> own = Segment::create(kBytes);
  if (!own) return 1;
  cell(*own, 0).store(static_cast<int>(100 + me));
  std::uint32_t right = 0;
  const Door::TakeFd take = [&](std::uint32_t rank, Fd fd) {
    Result<Segment> theirs = Segment::attach(std::move(fd), kBytes);
    if (theirs && cell(*theirs, 0).load() == static_cast<int>(100 + rank)) ++right;
  };
  const int fd = me == silent ? -1 : own->fd();
  const Status status = root != nullptr ? root->exchange(me, ranks, fd, take, kPatience)
                                        : Door::exchange_with(name, me, fd, take, kPatience);
  if (!status) return 2;
  return right == ranks - 1 - (me == silent ? 0 : 1) ? 0 : 3;
}

TEST(Door, every_rank_gets_what_every_other_gives) {
  constexpr std::uint32_t kRanks = 9;
  constexpr std::uint32_t kRoot = 4;
  constexpr std::uint32_t kSilent = 2;  // this rank gives no file
  Result<Door> door = Door::open();
  ASSERT_TRUE(door.ok());
  std::vector<test::Child> ranks;
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    ranks.emplace_back([&, rank] {
      Door* root = rank == kRoot ? &*door : nullptr;
      return exchange_numbers(rank, kRanks, root, door->name(), kSilent);
    });
  }
  for (test::Child& rank : ranks) EXPECT_EQ(rank.wait(), 0);
}

TEST(Door, an_exchange_survives_one_that_leaves_and_ends_when_one_never_comes) {
  Result<Door> door = Door::open();
  Result<Segment> segment = Segment::create(kBytes);
  ASSERT_TRUE(door.ok() && segment.ok());
  EXPECT_EQ(Door::fetch(door->name(), milliseconds(0)).status().code, Code::gone);
  const Door::TakeFd nothing = [](std::uint32_t, Fd) {};
  test::Child peer([&] {
    const Status status = Door::exchange_with(door->name(), 1, -1, nothing, kPatience);
    return static_cast<int>(status.code);
  });
  EXPECT_EQ(door->exchange(0, 3, segment->fd(), nothing, milliseconds(500)).code, Code::gone);
  EXPECT_EQ(static_cast<Code>(peer.wait()), Code::refused);
}

TEST(Door, leaves_no_descriptor_and_no_name) {
  const auto descriptors = [] {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return std::distance(begin(all), end(all));
  };
  const auto before = descriptors();
  {
    Result<Door> door = Door::open();
    ASSERT_TRUE(door.ok());
    EXPECT_FALSE(Door::fetch(door->name(), milliseconds(1)).ok());
  }
  EXPECT_EQ(descriptors(), before);
}

}  // namespace
}  // namespace mh::node
