// SPDX-License-Identifier: BSD-3-Clause
#include "p2p/pipeline_engine.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "support/shared.hpp"

namespace mh::p2p {
namespace {

struct Area {
  observe::RankCounters counters;
  lend::Lendings lendings;
  SharedSendTable send_table;
  Pipelines pipelines;
};

// A node of two or more ranks in this process, each with a pipeline engine.
class PipelineEngineTest : public testing::Test {
 protected:
  static constexpr PipelineEngine::Offsets kOffsets{.send_table = offsetof(Area, send_table),
                                                    .pipelines = offsetof(Area, pipelines),
                                                    .cells = sizeof(Area)};

  explicit PipelineEngineTest(std::uint32_t ranks = 2)
      : memory_(node::Node::bytes_needed(ranks, area_bytes(ranks))) {
    EXPECT_TRUE(node::Node::initialise(memory_.span(), ranks, area_bytes(ranks), {}).ok());
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      nodes_.push_back(*node::Node::join(memory_.span(), rank, ranks, rank));
      new (nodes_[rank].area(rank)) Area{};
    }
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      nodes_[rank].settle();
      pools_.push_back(std::make_unique<lend::Pool>(nodes_[rank], area(rank).lendings, 0));
      engines_.push_back(std::make_unique<PipelineEngine>(
          nodes_[rank], kOffsets, area(rank).counters, *pools_[rank], reach_));
    }
    send_table_.attach(&area(0).send_table);
  }

  static std::size_t area_bytes(std::uint32_t ranks) { return sizeof(Area) + cells_bytes(ranks); }
  Area& area(std::uint32_t rank) { return *reinterpret_cast<Area*>(nodes_[rank].area(rank)); }

  // Rank 0 posts a rendezvous send to rank 1, and rank 1 takes the send. Returns the number of its
  // slot in the send table.
  std::uint32_t send(const End& from, std::uint64_t bytes) {
    const std::uint32_t slot = send_table_.post(
        {.from = {}, .bytes = bytes, .communicator = 0, .tag = 0, .to = 1, .contiguous = false},
        kNoFin);
    engines_[0]->announce(slot, from);
    EXPECT_TRUE(send_table_.slot(slot).take(send_table_.slot(slot).generation()));
    return slot;
  }
  // Asks who_is_late() of `rank` until it names a rank, and returns that rank. It names the late
  // rank, on which a pipeline waits, only after `rank` has had no work for some time.
  std::uint32_t late_for(std::uint32_t rank) {
    for (;;) {
      if (const auto late = engines_[rank]->who_is_late()) return *late;
    }
  }
  void settle(std::uint32_t slot) {
    send_table_.slot(slot).change(SlotState::done);
    engines_[0]->withdraw(slot);
    send_table_.release(slot);
  }

  // All ranks are this process. Copies from rank 0's memory nevertheless go through the kernel, as
  // if rank 0 were another process.
  memory::Reach reach_{1, 2, memory::Reach::KernelCopies::yes};
  test::SharedMemory memory_;
  std::vector<node::Node> nodes_;
  std::vector<std::unique_ptr<lend::Pool>> pools_;
  std::vector<std::unique_ptr<PipelineEngine>> engines_;
  SendTable send_table_;
};

// Memory with blocks of bytes: with gaps, in descending order, or contiguous.
class Scattered {
 public:
  static constexpr std::uint64_t kRoom = 1U << 20U;

  Scattered(std::mt19937& random, std::uint64_t least) : bytes_(2 * kRoom, 0xee) {
    const auto below = [&](std::uint64_t n) { return random() % n; };
    const std::uint64_t block = 1 + below(3000);
    const auto count = static_cast<std::int64_t>(least / block + 1);
    const std::uint64_t most = kRoom / static_cast<std::uint64_t>(count);
    const auto stride = static_cast<std::int64_t>(block + below(most - block));
    const layout::LayoutPtr byte = *layout::named(1, 1);
    layout_ = *layout::hvector(count, static_cast<std::int64_t>(block),
                               below(2) == 0 ? stride : -stride, *byte);
  }
  [[nodiscard]] End end() {
    return {.layout = layout_.get(), .count = 1, .base = layout::address_of(&bytes_[kRoom])};
  }
  [[nodiscard]] layout::Elements elements() {
    return {.layout = layout_.get(), .count = 1, .base = end().base};
  }
  [[nodiscard]] std::vector<unsigned char>& bytes() { return bytes_; }

 private:
  std::vector<unsigned char> bytes_;
  layout::LayoutPtr layout_;
};

TEST_F(PipelineEngineTest, any_layout_arrives_in_any_other_and_nothing_else_is_written) {
  std::mt19937 random(7);
  std::atomic<bool> ending{false};
  std::thread sender([&] {
    while (!ending.load()) {
      if (!engines_[0]->move_one()) std::this_thread::yield();
    }
  });
  for (int round = 0; round < 30; ++round) {
    const std::uint64_t bytes = 1 + random() % (round % 4 == 0 ? 5000 : 400'000);
    Scattered from(random, bytes);
    Scattered to(random, bytes);
    std::vector<unsigned char> stream(bytes);
    for (auto& byte : stream) byte = static_cast<unsigned char>(random());
    layout::unpack_range(from.elements(), {0, bytes}, stream.data());
    std::vector<unsigned char> expected = to.bytes();
    layout::unpack_range({.layout = to.elements().layout,
                          .count = 1,
                          .base = layout::address_of(&expected[Scattered::kRoom])},
                         {0, bytes}, stream.data());
    const std::uint32_t slot = send(from.end(), bytes);
    const auto pipeline = engines_[1]->begin(send_table_.slot(slot), 0, to.end(), bytes);
    ASSERT_TRUE(pipeline);
    while (!engines_[1]->over(*pipeline)) {
      if (!engines_[1]->drain(*pipeline)) std::this_thread::yield();
    }
    EXPECT_TRUE(engines_[1]->finish(*pipeline));
    settle(slot);
    ASSERT_EQ(to.bytes(), expected) << "round " << round;
  }
  ending.store(true);
  sender.join();
}

TEST_F(PipelineEngineTest, a_third_message_waits_for_a_pipeline) {
  std::vector<unsigned char> data(100'000);
  const End end{.base = layout::address_of(data.data())};
  std::vector<std::uint32_t> slots;
  for (std::uint32_t i = 0; i < kPipelines; ++i) {
    slots.push_back(send(end, data.size()));
    EXPECT_EQ(engines_[1]->begin(send_table_.slot(slots[i]), 0, end, data.size()), i);
  }
  slots.push_back(send(end, data.size()));
  EXPECT_FALSE(engines_[1]->begin(send_table_.slot(slots[kPipelines]), 0, end, data.size()));
  EXPECT_EQ(send_table_.slot(slots[kPipelines]).state(), SlotState::taken);
}

TEST(Pipelines, are_smaller_where_there_are_many_ranks) {
  EXPECT_EQ(pipeline_bytes(1), 2U << 20U);
  EXPECT_EQ(pipeline_bytes(16), 2U << 20U);
  EXPECT_EQ(pipeline_bytes(17), 1U << 20U);
  EXPECT_EQ(pipeline_bytes(100), 256U << 10U);
  EXPECT_EQ(pipeline_bytes(512), 64U << 10U);
  EXPECT_EQ(pipeline_bytes(4096), 64U << 10U);
  for (std::uint32_t ranks = 1; ranks <= 512; ++ranks) {
    ASSERT_LE(ranks * cells_bytes(ranks), kPipelineBytesOfNode) << ranks;
  }
}

TEST_F(PipelineEngineTest, each_end_knows_when_the_other_is_late) {
  std::vector<unsigned char> out(2U << 20U, 1);
  std::vector<unsigned char> in(out.size());
  EXPECT_FALSE(engines_[1]->unit(0, ~std::uint64_t{0}));
  const std::uint32_t slot = send({.base = layout::address_of(out.data())}, out.size());
  ASSERT_TRUE(engines_[1]->begin(send_table_.slot(slot), 0, {.base = layout::address_of(in.data())},
                                 out.size()));
  EXPECT_EQ(late_for(1), 0U) << "nothing is filled";
  EXPECT_FALSE(engines_[0]->who_is_late());
  while (engines_[0]->move_one()) {
  }
  EXPECT_EQ(late_for(0), 1U) << "all cells are full";
  EXPECT_FALSE(engines_[1]->who_is_late());
  // Runs a unit of the receiver's helper, which drains a cell. Outside of tests, the helper runs on
  // the core that the sender lends.
  EXPECT_TRUE(engines_[1]->unit(0, ~std::uint64_t{0}));
  EXPECT_FALSE(engines_[0]->who_is_late());
}

class InvitationTest : public PipelineEngineTest {
 protected:
  explicit InvitationTest(std::uint32_t ranks = 3) : PipelineEngineTest(ranks) {
    // Marks all ranks as having helpers that can run units of pipelines.
    for (std::uint32_t rank = 0; rank < ranks; ++rank) expose(rank, true);
  }
  void expose(std::uint32_t rank, bool now) {
    area(rank).lendings.offer.exposed = now ? lend::bit_of(lend::WorkKind::pipelines) : 0;
  }
  bool invites(std::uint32_t rank) {
    return area(rank).lendings.offer.ends[static_cast<std::size_t>(lend::WorkKind::pipelines)] != 0;
  }
  std::uint32_t begin(std::uint64_t bytes) {
    const std::uint32_t slot = send({.base = layout::address_of(out_.data())}, bytes);
    const End to{.base = layout::address_of(in_.data())};
    EXPECT_TRUE(engines_[1]->begin(send_table_.slot(slot), 0, to, bytes));
    return slot;
  }

  std::vector<unsigned char> out_ = std::vector<unsigned char>(2U << 20U, 1);
  std::vector<unsigned char> in_ = std::vector<unsigned char>(out_.size());
};

TEST_F(InvitationTest, third_ranks_may_come_to_both_ends_while_there_is_something_to_begin) {
  begin(out_.size());
  EXPECT_TRUE(invites(0));
  EXPECT_TRUE(invites(1));
  EXPECT_FALSE(invites(2));
  bool filled = true;
  for (bool drained = true; filled || drained;) {
    filled = engines_[0]->move_one();
    drained = engines_[1]->move_one();
  }
  EXPECT_EQ(in_, out_);
  EXPECT_FALSE(invites(0));
  EXPECT_FALSE(invites(1));
}

TEST_F(InvitationTest, nobody_comes_for_a_short_message_or_where_there_are_no_helpers) {
  begin(100'000);
  EXPECT_FALSE(invites(0));
  EXPECT_FALSE(invites(1));
  expose(0, false);
  begin(out_.size());
  EXPECT_FALSE(invites(0));
  EXPECT_TRUE(invites(1));
}

TEST_F(InvitationTest, a_short_message_does_not_take_back_what_a_long_one_offers) {
  begin(out_.size());
  begin(100'000);
  EXPECT_TRUE(invites(0));
  EXPECT_TRUE(invites(1));
}

class ManyIdleTest : public InvitationTest {
 protected:
  ManyIdleTest() : InvitationTest(10) {}
  // The number of chunks of a new message of `bytes` bytes, before any is moved.
  std::uint32_t chunks_of(std::uint64_t bytes) {
    const std::uint32_t slot = send({.base = layout::address_of(out_.data())}, bytes);
    const End to{.base = layout::address_of(in_.data())};
    const auto index = engines_[1]->begin(send_table_.slot(slot), 0, to, bytes);
    EXPECT_TRUE(index);
    return area(1).pipelines.pipelines[index.value_or(0)].drains_left(1);
  }
};

TEST_F(ManyIdleTest, a_message_has_the_usual_chunks_while_all_others_compute) {
  EXPECT_EQ(chunks_of(out_.size()), 16U);
}

TEST_F(ManyIdleTest, each_core_that_may_come_finds_two_chunks) {
  for (std::uint32_t rank = 2; rank < 10; ++rank) nodes_[rank].mine().idle = 1;
  EXPECT_GE(chunks_of(out_.size()), 18U);
  EXPECT_EQ(chunks_of(100'000), 7U) << "nobody is invited to a short message";
}

class PairTest : public InvitationTest {
 protected:
  PairTest() : InvitationTest(2) {}
};

TEST_F(PairTest, a_node_of_two_ranks_invites_no_third_rank) {
  begin(out_.size());
  EXPECT_FALSE(invites(0));
  EXPECT_FALSE(invites(1));
}

// A message that goes through a pipeline and is contiguous at both ends. Its receiver may read the
// sender's memory, too, so it can fetch chunks itself.
class ContiguousTest : public PipelineEngineTest {
 protected:
  static constexpr unsigned char kSent = 7;

  ContiguousTest() {
    const auto pipeline = engines_[1]->begin(send_table_.slot(slot_), 0,
                                             {.base = layout::address_of(in_.data())}, in_.size());
    EXPECT_TRUE(pipeline);
    pipeline_ = pipeline.value_or(0);
  }
  void SetUp() override {
    unsigned char byte = 0;
    if (!memory::read_remote(&byte, there_, 1).ok())
      GTEST_SKIP() << "the kernel does not copy here";
  }

  bool fetch() { return engines_[1]->fetch(pipeline_, there_); }
  bool drain() { return engines_[1]->drain(pipeline_); }
  bool fill() { return engines_[0]->fill(slot_); }
  bool over() { return engines_[1]->over(pipeline_); }
  // True if the whole message arrived.
  bool finish() { return engines_[1]->finish(pipeline_); }

  std::vector<unsigned char> out_ = std::vector<unsigned char>(300'000, kSent);
  std::vector<unsigned char> in_ = std::vector<unsigned char>(out_.size());
  memory::View there_{
      .address = layout::address_of(out_.data()), .pid = nodes_[0].mine().pid, .rank = 0};
  std::uint32_t slot_ = send({.base = there_.address}, out_.size());
  std::uint32_t pipeline_ = 0;
};

TEST_F(ContiguousTest, a_receiver_fetches_by_itself_what_it_can_read) {
  while (!over()) ASSERT_TRUE(drain() || fetch());
  EXPECT_TRUE(finish());
  EXPECT_EQ(in_, out_);
}

TEST_F(ContiguousTest, either_process_fills_the_next_cell) {
  ASSERT_TRUE(fetch());
  EXPECT_TRUE(drain());
  EXPECT_EQ(in_[0], kSent);
  ASSERT_TRUE(fill());
  EXPECT_TRUE(drain());
  EXPECT_FALSE(drain()) << "nothing is filled";
  EXPECT_GT(area(0).counters.own_copy_ticks.get(), 0U);
  EXPECT_GT(area(1).counters.own_copy_ticks.get(), 0U);
  // The remaining chunks are moved by both processes: the receiver fetches every third chunk, the
  // sender fills the others.
  for (int turn = 0; !over(); ++turn) {
    ASSERT_TRUE(turn % 3 == 0 ? fetch() : fill());
    EXPECT_TRUE(drain());
  }
  EXPECT_TRUE(finish());
  EXPECT_EQ(in_, out_);
}

TEST_F(ContiguousTest, what_cannot_be_fetched_is_said_at_the_end) {
  there_ = {.address = 8, .pid = 0x3fffffff, .rank = 0};  // above the largest pid of Linux
  ASSERT_TRUE(fetch());
  EXPECT_FALSE(fetch()) << "once is enough";
  while (!over()) ASSERT_TRUE(drain() || fill());
  EXPECT_FALSE(finish());
}

}  // namespace
}  // namespace mh::p2p
