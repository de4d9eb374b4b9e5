// SPDX-License-Identifier: BSD-3-Clause
// Stealing between processes: every rank is a forked process with its own memory, and the kernel
// copies as in a real run.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <vector>

#include "memory/probe.hpp"
#include "support/child.hpp"
#include "support/deny.hpp"
#include "support/ranks.hpp"
#include "support/sanitizer.hpp"

namespace mh::steal {
namespace {

constexpr std::uint32_t kRounds = test::kSanitized ? 300 : 2'000;
constexpr std::uint32_t kRanks = 4;
constexpr std::uint32_t kChunk = 4'096;
constexpr std::size_t kBytes = 10 * kChunk + 123;
constexpr std::uint32_t kChunks = 11;

bool cma_works() {
  const std::uint64_t value = 17;
  const memory::View view{reinterpret_cast<std::uint64_t>(&value), ::getpid(), 0};
  return memory::probe_read(view, value).ok();
}

std::uint8_t byte_of(std::uint32_t rank, std::uint32_t round, std::size_t i) {
  return static_cast<std::uint8_t>(i * 7 + std::size_t{rank} * 31 + std::size_t{round} * 13 +
                                   i / 4'096);
}

// The memory that the processes share besides the node segment.
struct Board {
  test::Barrier barrier;
  std::atomic<std::uint64_t> source[kRanks];  // address of each rank's source buffer
  std::atomic<std::uint32_t> rounds_done{0};
  std::atomic<std::uint32_t> wrong{0};
};

struct Stage {
  Stage() : shared(sizeof(Board)), board(new (shared.span().data()) Board{}), ranks(kRanks) {}
  test::SharedMemory shared;
  Board* board;
  test::Ranks ranks;
};

// Plays a rank of the stress test. In each round one rank receives from its neighbour, and all
// other ranks claim chunks of that copy.
class Rank {
 public:
  Rank(Stage& stage, std::uint32_t me)
      : stage_(stage),
        me_(me),
        keeper_(stage.ranks.keeper(me)),
        thief_(stage.ranks.thief(me, Strategy::mixed)),
        source_(kBytes),
        target_(kBytes) {
    stage_.ranks.node(me).mine().pid = ::getpid();
    stage_.board->source[me].store(reinterpret_cast<std::uint64_t>(source_.data()));
  }

  int run() {
    for (std::uint32_t round = 0; round < kRounds; ++round) {
      for (std::size_t i = 0; i < kBytes; ++i) source_[i] = byte_of(me_, round, i);
      meet();
      if (round % kRanks == me_) {
        receive(round);
      } else {
        help(round);
      }
      meet();
    }
    return 0;
  }

 private:
  void meet() { stage_.board->barrier.wait(kRanks); }

  void receive(std::uint32_t round) {
    std::fill(target_.begin(), target_.end(), std::uint8_t{0});
    const std::uint32_t sender = (me_ + 1) % kRanks;
    const memory::View from{stage_.board->source[sender].load(),
                            stage_.ranks.node(0).record(sender).pid, sender};
    const memory::View to{reinterpret_cast<std::uint64_t>(target_.data()), ::getpid(), me_};
    const CopyOrder order = round % 3 == 0 ? CopyOrder::high_to_low : CopyOrder::low_to_high;
    Job* job = keeper_.open({to, from, kBytes, kChunk, order});
    // In every fifth round the owner claims no chunk, and in every tenth round the sender claims
    // none, either. Otherwise a third rank might never get a chunk on a machine with few cores.
    while (round % 5 != 0 && thief_.run_one_chunk(*job, me_)) {
    }
    while (!job->finished()) ::sched_yield();
    bool right = !job->failed();
    for (std::size_t i = 0; i < kBytes; ++i)
      right = right && target_[i] == byte_of(sender, round, i);
    if (!right) stage_.board->wrong.fetch_add(1);
    keeper_.close(*job);
    stage_.board->rounds_done.store(round + 1);
  }

  // Claims chunks of other ranks until the receiver of this round has finished.
  void help(std::uint32_t round) {
    const bool sender = me_ == (round + 1) % kRanks;
    while (stage_.board->rounds_done.load() == round) {
      if (!(sender && round % 10 == 0)) thief_.help();
      ::sched_yield();
    }
  }

  Stage& stage_;
  std::uint32_t me_;
  SlotKeeper keeper_;
  Thief thief_;
  std::vector<std::uint8_t> source_;
  std::vector<std::uint8_t> target_;
};

TEST(Processes, copy_every_byte_of_thousands_of_jobs_exactly_once) {
  if (!cma_works()) GTEST_SKIP() << "process_vm_readv is not permitted here";
  Stage stage;
  std::vector<test::Child> children;
  for (std::uint32_t me = 0; me < kRanks; ++me) {
    children.emplace_back([&, me] { return Rank(stage, me).run(); });
  }
  for (auto& child : children) EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(stage.board->wrong.load(), 0U);
  std::uint64_t chunks = 0;
  std::uint64_t bytes = 0;
  std::uint64_t by_third = 0;
  std::uint64_t helped = 0;
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    const auto& counters = stage.ranks.area(rank).counters();
    chunks += counters.own_chunks_received.get() + counters.own_chunks_sent.get() +
              counters.others_chunks.get();
    bytes += counters.own_bytes_received.get() + counters.own_bytes_sent.get() +
             counters.others_bytes.get();
    by_third += counters.others_bytes.get();
    for (std::uint32_t victim = 0; victim < kRanks; ++victim) {
      helped += stage.ranks.area(rank).helped(victim).get();
    }
    EXPECT_EQ(stage.ranks.area(rank).helped(rank).get(), 0U) << "nobody helps itself";
  }
  EXPECT_EQ(chunks, std::uint64_t{kRounds} * kChunks) << "a chunk was copied twice or never";
  EXPECT_EQ(bytes, std::uint64_t{kRounds} * kBytes);
  EXPECT_EQ(helped, by_third);
  EXPECT_GE(by_third, kRounds / 10 * kBytes);
}

TEST(Processes, a_third_party_that_is_refused_fails_the_job_once_and_retires) {
  if (!cma_works()) GTEST_SKIP() << "process_vm_readv is not permitted here";
  test::Ranks ranks(3);
  std::vector<std::uint8_t> source(10'000, 5);
  std::vector<std::uint8_t> target(10'000, 0);
  test::Child sender([] { return ::pause(); });
  test::Child receiver([] { return ::pause(); });
  auto keeper = ranks.keeper(1);
  const auto expose = [&] {
    return keeper.open({{reinterpret_cast<std::uint64_t>(target.data()), receiver.pid(), 1},
                        {reinterpret_cast<std::uint64_t>(source.data()), sender.pid(), 0},
                        source.size(),
                        kChunk,
                        CopyOrder::low_to_high});
  };
  Job* job = expose();
  test::Child helper([&] {
    Thief thief = ranks.thief(2, Strategy::localized);
    if (!test::deny(SYS_process_vm_readv, EPERM)) return 1;
    if (!thief.help()) return 2;
    if (!thief.retired()) return 3;
    return thief.help() ? 4 : 0;
  });
  EXPECT_EQ(helper.wait(), 0);
  Thief owner = ranks.thief(1, Strategy::localized);
  while (owner.run_one_chunk(*job, 1)) {
  }
  EXPECT_TRUE(job->finished());
  EXPECT_TRUE(job->failed()) << "so that the owner asks for the data another way";
}

TEST(Processes, an_owner_tells_a_dead_thief_from_a_slow_one) {
  if (!cma_works()) GTEST_SKIP() << "process_vm_readv is not permitted here";
  test::Ranks ranks(3);
  auto keeper = ranks.keeper(0);
  const memory::View nowhere{0, ::getpid(), 0};
  Job* job = keeper.open({nowhere, nowhere, 100, 100, CopyOrder::low_to_high});
  test::Child thief([&] {
    // Leaves the state of a thief with two threads, of which the first is in run_one_chunk() when
    // the process dies.
    const node::ClaimIntent intent(ranks.node(2).mine(), 0);
    { const node::ClaimIntent elsewhere(ranks.node(2).mine(), 1); }
    Chunk chunk{};
    if (!job->claim(chunk)) return 1;
    return ::pause();
  });
  const node::Node& node = ranks.node(0);
  node.record(2).pid = thief.pid();
  node.record(2).start_time = node::start_time_of(thief.pid()).value_or(0);
  while (job->has_work()) ::sched_yield();
  EXPECT_TRUE(node.is_alive(2)) << "slow";
  thief.kill(SIGKILL);
  thief.wait_for_zombie();
  EXPECT_FALSE(job->finished());
  EXPECT_TRUE(node::may_hold_chunk_of(node.record(2), 0));
  EXPECT_FALSE(node::may_hold_chunk_of(node.record(2), 1));
  EXPECT_FALSE(node.is_alive(2)) << "dead";
  keeper.close(*job);
  EXPECT_FALSE(node.board().posted(0));
}

}  // namespace
}  // namespace mh::steal
