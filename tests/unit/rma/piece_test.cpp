// SPDX-License-Identifier: BSD-3-Clause
// Operations in pieces give the same results as whole operations, for all layouts and sizes of
// pieces. Ranks on the target's node help with large pieces.
#include "rma/piece.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "base/cacheline.hpp"
#include "layout/layout.hpp"
#include "support/ranks.hpp"
#include "support/shared.hpp"

namespace mh::rma {
namespace {

using layout::LayoutPtr;
using Numbers = std::vector<std::int64_t>;

constexpr std::size_t kNumbers = 40'000;
constexpr std::uint32_t kChunk = 64U << 10U;

enum class Shape : std::uint8_t { contiguous, displaced, grid, list };
constexpr Shape kShapes[] = {Shape::contiguous, Shape::displaced, Shape::grid, Shape::list};

// A layout of about every second number, or of half of the numbers in one block.
LayoutPtr layout_of(Shape shape) {
  const LayoutPtr number = *layout::named(8, 8);
  constexpr auto kHalf = static_cast<std::int64_t>(kNumbers / 2);
  if (shape == Shape::contiguous) return nullptr;
  if (shape == Shape::grid) return *layout::vector(kHalf, 1, 2, *number);
  Numbers places = {77};
  if (shape == Shape::displaced) return *layout::indexed_block(kHalf, places, *number);
  places.clear();
  for (std::int64_t i = 0; i < kHalf; ++i) places.push_back(2 * i + i * i / 3 % 2);
  return *layout::indexed_block(1, places, *number);
}

RmaBuffer end_at(Numbers& numbers, const LayoutPtr& layout) {
  RmaBuffer buffer;
  buffer.base = {reinterpret_cast<std::uint64_t>(numbers.data()), ::getpid(), 0};
  buffer.mapped = reinterpret_cast<std::byte*>(numbers.data());
  buffer.layout = layout.get();
  buffer.count = 1;
  return buffer;
}

Numbers counting(std::int64_t from) {
  Numbers made(kNumbers);
  for (std::size_t i = 0; i < kNumbers; ++i) made[i] = from + static_cast<std::int64_t>(i);
  return made;
}

// Memory with the alignment of message buffers.
class AlignedBytes {
 public:
  explicit AlignedBytes(std::size_t bytes) : lines_(bytes / kCacheLine + 1) {}
  [[nodiscard]] std::byte* data() { return lines_.front().bytes; }

 private:
  struct alignas(kCacheLine) Line {
    std::byte bytes[kCacheLine];
  };
  std::vector<Line> lines_;
};

// A window of two ranks on one node. Rank 0 is the target, and rank 1 may help.
class PieceTest : public ::testing::Test {
 protected:
  PieceTest()
      : ranks_(2),
        shared_(Control::bytes_needed(2)),
        memory_(counting(1000)),
        target_(ranks_.node(0), reach_) {
    const Control control(shared_.span().data(), 2);
    std::vector<Exposed> exposed(2);
    auto* base = reinterpret_cast<std::byte*>(memory_.data());
    exposed[0] = {.base = reinterpret_cast<std::uint64_t>(base),
                  .bytes = kNumbers * 8,
                  .unit = 8,
                  .node_rank = 0,
                  .pid = ::getpid(),
                  .mapped = base};
    exposed[1].node_rank = 1;
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      control.construct(rank);
      windows_.push_back(std::make_unique<Window>(control, rank, exposed));
    }
  }

  // Writes one piece of the operation, of at most `most` bytes, as a message, carries it out at the
  // target, and delivers its result. Returns where the piece ends, in bytes of the operation.
  std::uint64_t play(const BoundOperation& operation, std::uint64_t begin, std::size_t most) {
    const OperationPiece piece(operation, begin, most);
    EXPECT_LE(piece.bytes(), most);
    EXPECT_EQ(piece.range().begin, begin);
    EXPECT_GT(piece.range().end, begin);
    AlignedBytes message(piece.bytes());
    piece.write({.from = 1}, message.data());
    const std::uint64_t bytes = piece.range().end - begin;
    AlignedBytes result(bytes);
    PieceRun run(*windows_[0], target_, *reinterpret_cast<const RmaMessage*>(message.data()),
                 result.data(), kChunk, false);
    while (!run.step(target_)) ::sched_yield();
    EXPECT_TRUE(run.succeeded());
    if (operation.what.has_result)
      std::memcpy(operation.result.mapped + begin, result.data(), bytes);
    return piece.range().end;
  }

  test::Ranks ranks_;
  memory::Reach reach_;
  test::SharedMemory shared_;
  Numbers memory_;
  RmaContext target_;
  std::vector<std::unique_ptr<Window>> windows_;
};

TEST_F(PieceTest, pieces_of_any_size_give_what_the_whole_gives) {
  for (const Shape shape : kShapes) {
    for (const Shape from : {Shape::contiguous, Shape::list}) {
      for (const std::size_t most :
           {sizeof(RmaMessage) + 120, std::size_t{5000}, std::size_t{1} << 18U}) {
        const LayoutPtr there = layout_of(shape);
        const LayoutPtr here = layout_of(from);
        Numbers origin = counting(7);
        Numbers result(kNumbers, -1);
        Numbers expected = memory_;
        Numbers fetched = result;
        BoundOperation operation;
        operation.what = {.op = Op::sum,
                          .type = Type::int64,
                          .atomic = true,
                          .has_origin = true,
                          .has_result = true,
                          .element = 8,
                          .bytes = kNumbers / 2 * 8};
        operation.origin = end_at(origin, here);
        StripeLocks locks;
        BoundOperation whole = operation;
        whole.target = end_at(expected, there);
        whole.result = end_at(fetched, nullptr);
        whole.locks = &locks;
        ASSERT_TRUE(target_.executor().run(whole, {0, operation.what.bytes}).ok());
        operation.target = end_at(memory_, there);
        operation.target.mapped = nullptr;  // the origin does not map the target
        operation.result = end_at(result, nullptr);
        for (std::uint64_t at = 0; at < operation.what.bytes;) at = play(operation, at, most);
        ASSERT_EQ(memory_, expected) << static_cast<int>(shape) << " in " << most;
        ASSERT_EQ(result, fetched) << static_cast<int>(shape) << " in " << most;
      }
    }
  }
}

TEST_F(PieceTest, puts_and_gets_travel_likewise) {
  for (const Shape shape : kShapes) {
    const LayoutPtr there = layout_of(shape);
    Numbers origin = counting(-50'000);
    Numbers result(kNumbers, 0);
    BoundOperation put;
    put.what = {.op = Op::replace, .has_origin = true, .bytes = kNumbers / 2 * 8};
    put.origin = end_at(origin, nullptr);
    put.target = end_at(memory_, there);
    BoundOperation get;
    get.what = {.op = Op::no_op, .has_result = true, .bytes = kNumbers / 2 * 8};
    get.target = put.target;
    get.result = end_at(result, nullptr);
    for (std::uint64_t at = 0; at < put.what.bytes;) at = play(put, at, 3000);
    for (std::uint64_t at = 0; at < get.what.bytes;) at = play(get, at, 7000);
    origin.resize(kNumbers / 2);
    result.resize(kNumbers / 2);
    ASSERT_EQ(result, origin) << static_cast<int>(shape);
  }
}

TEST_F(PieceTest, swaps_carry_what_they_compare_with_behind_their_origin) {
  Numbers origin = {5};
  Numbers result = {-1};
  BoundOperation operation;
  operation.what = {
      .op = Op::replace, .has_origin = true, .has_result = true, .element = 8, .bytes = 8};
  operation.origin = end_at(origin, nullptr);
  operation.target = end_at(memory_, nullptr);
  const OperationPiece piece(operation, 0, 1000);
  // The first swap changes the number, so the second finds a number that differs from the compared
  // one, and changes nothing.
  for (const std::int64_t before : {1000, 5}) {
    const std::int64_t compare = 1000;
    AlignedBytes message(piece.bytes() + 8);
    piece.write({.kind = RmaMessageKind::swap}, message.data());
    std::memcpy(message.data() + piece.bytes(), &compare, 8);
    PieceRun run(*windows_[0], target_, *reinterpret_cast<const RmaMessage*>(message.data()),
                 reinterpret_cast<std::byte*>(result.data()), kChunk, true);
    EXPECT_TRUE(run.step(target_));
    EXPECT_TRUE(run.succeeded());
    EXPECT_EQ(memory_[0], 5);
    EXPECT_EQ(result[0], before);
    origin[0] = 6;
  }
}

// Another rank of the target's node carries out a whole large piece. For a grid, it carries out
// exactly the part of the grid that is in the piece.
TEST_F(PieceTest, neighbours_of_the_target_help) {
  for (const Shape shape : {Shape::contiguous, Shape::grid}) {
    const LayoutPtr there = layout_of(shape);
    Numbers origin = counting(1);
    Numbers expected = memory_;
    BoundOperation operation;
    operation.what = {.op = Op::sum,
                      .type = Type::int64,
                      .atomic = true,
                      .has_origin = true,
                      .element = 8,
                      .bytes = kNumbers / 2 * 8};
    operation.origin = end_at(origin, nullptr);
    operation.target = end_at(memory_, there);
    constexpr std::uint64_t kFrom = 800;
    for (std::size_t i = kFrom / 8; i < kNumbers / 2; ++i) {
      expected[shape == Shape::grid ? 2 * i : i] += origin[i];
    }
    const OperationPiece piece(operation, kFrom, 1U << 20U);
    AlignedBytes message(piece.bytes());
    piece.write({}, message.data());
    PieceRun run(*windows_[0], target_, *reinterpret_cast<const RmaMessage*>(message.data()),
                 nullptr, kChunk, true);
    RmaContext helper(ranks_.node(1), reach_);
    HelpedChunk helped;
    std::uint64_t by_helper = 0;
    while (windows_[1]->help(
        helper, [](std::uint32_t) { return true; }, helped)) {
      EXPECT_EQ(helped.owner, 0U);
      by_helper += helped.bytes;
    }
    EXPECT_GE(by_helper, operation.what.bytes - kFrom);
    EXPECT_TRUE(run.step(target_));
    EXPECT_TRUE(run.succeeded());
    EXPECT_EQ(memory_, expected);
  }
}

}  // namespace
}  // namespace mh::rma
