// SPDX-License-Identifier: BSD-3-Clause
#include "heap/extents.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

#include "support/sanitizer.hpp"

namespace mh::heap {
namespace {

// An Extents object (the heap's runs of pages) with a table for `pages` pages.
struct Stage {
  explicit Stage(Page pages) { add(pages); }
  void add(Page pages) {
    ASSERT_TRUE(extents.reach(std::size_t{extents.size()} + pages));
    extents.add(pages);
  }
  Extents extents;
};

TEST(Extents, an_empty_heap_gives_no_pages) {
  Extents extents;
  EXPECT_FALSE(extents.take(1, 1));
  EXPECT_FALSE(extents.leave(1));
  EXPECT_EQ(extents.check(), nullptr);
}

TEST(Extents, fresh_pages_read_as_zero_and_used_ones_do_not) {
  Stage stage(100);
  const Taken fresh = stage.extents.take(100, 1);
  ASSERT_TRUE(fresh);
  EXPECT_TRUE(fresh.zero);
  EXPECT_FALSE(stage.extents.take(1, 1));
  stage.extents.give(fresh.first);
  EXPECT_EQ(stage.extents.kept(), 100U);
  const Taken again = stage.extents.take(100, 1);
  ASSERT_TRUE(again);
  EXPECT_FALSE(again.zero);
}

TEST(Extents, a_freed_extent_is_used_again_before_fresh_pages) {
  Stage stage(10'000);
  const Taken first = stage.extents.take(257, 1);
  const Taken behind = stage.extents.take(5, 1);
  ASSERT_TRUE(first && behind);
  for (int i = 0; i < 100; ++i) {
    stage.extents.give(first.first);
    const Taken again = stage.extents.take(257, 1);
    ASSERT_TRUE(again);
    EXPECT_EQ(again.first, first.first);
  }
}

TEST(Extents, a_block_of_which_the_end_was_given_back_is_used_again) {
  Stage stage(10'000);
  const Taken large = stage.extents.take(1000, 1);
  stage.extents.give(large.first);
  const heap::Run run = stage.extents.leave(300);
  stage.extents.left(run.first);
  const Taken again = stage.extents.take(1000, 1);
  ASSERT_TRUE(again);
  EXPECT_EQ(again.first, large.first);
  EXPECT_FALSE(again.zero);
  EXPECT_EQ(stage.extents.check(), nullptr);
}

TEST(Extents, empty_pages_are_taken_where_asked_for) {
  Stage stage(1000);
  const Taken old = stage.extents.take(10, 1);
  stage.extents.give(old.first);
  const Taken fresh = stage.extents.take(10, 1, 0, Extents::From::empty);
  ASSERT_TRUE(fresh);
  EXPECT_TRUE(fresh.zero);
}

TEST(Extents, alignment_counts_from_the_origin) {
  Stage stage(4096);
  ASSERT_TRUE(stage.extents.take(3, 1));
  for (const Page origin : {0U, 1U, 100U, 511U}) {
    const Taken taken = stage.extents.take(7, 512, origin);
    ASSERT_TRUE(taken);
    EXPECT_EQ((taken.first + origin) % 512, 0U);
  }
  EXPECT_EQ(stage.extents.check(), nullptr);
}

TEST(Extents, grows_in_place_over_free_neighbours_of_both_kinds) {
  Stage stage(100);
  const Taken first = stage.extents.take(10, 1);
  const Taken second = stage.extents.take(10, 1);
  ASSERT_EQ(second.first, first.first + 10);
  EXPECT_FALSE(stage.extents.resize(first.first, 11));
  stage.extents.give(second.first);
  EXPECT_TRUE(stage.extents.resize(first.first, 30));
  EXPECT_EQ(stage.extents.pages_of(first.first), 30U);
  EXPECT_EQ(stage.extents.kept(), 0U);
  EXPECT_FALSE(stage.extents.resize(first.first, 101));
  EXPECT_TRUE(stage.extents.resize(first.first, 5));
  EXPECT_EQ(stage.extents.kept(), 25U);
  EXPECT_EQ(stage.extents.check(), nullptr);
}

TEST(Extents, what_was_kept_longest_leaves_first_and_from_its_end) {
  Stage stage(100);
  std::vector<Page> firsts;
  for (int i = 0; i < 9; ++i) firsts.push_back(stage.extents.take(10, 1).first);
  stage.extents.give(firsts[4]);
  stage.extents.give(firsts[1]);
  const heap::Run run = stage.extents.leave(4);
  EXPECT_EQ(run.first, firsts[4] + 6);
  EXPECT_EQ(run.pages, 4U);
  EXPECT_EQ(stage.extents.kept(), 16U);
  // leave() has taken the run of pages out of use, and left() has not been called yet. Between the
  // two calls the run must not merge with a neighbour that is freed.
  stage.extents.give(firsts[5]);
  EXPECT_EQ(stage.extents.check(), nullptr);
  stage.extents.left(run.first);
  EXPECT_EQ(stage.extents.check(), nullptr);
}

TEST(Extents, a_number_of_64_bits_stays_with_a_used_extent) {
  Stage stage(10);
  const Taken taken = stage.extents.take(2, 1);
  stage.extents.note(taken.first, 0x123456789abcdefULL);
  stage.extents.resize(taken.first, 5);
  EXPECT_EQ(stage.extents.noted(taken.first), 0x123456789abcdefULL);
}

TEST(Extents, only_the_first_page_of_a_used_extent_begins_one) {
  Stage stage(20);
  const Taken taken = stage.extents.take(5, 1);
  for (Page page = 0; page < 25; ++page) {
    EXPECT_EQ(stage.extents.begins_used(page), page == taken.first);
  }
  stage.extents.give(taken.first);
  EXPECT_FALSE(stage.extents.begins_used(taken.first));
}

// Makes random calls of Extents, compares the results with a plain map of used pages, and checks
// the invariants of Extents after each step.
class Model {
 public:
  explicit Model(unsigned seed) : random_(seed), stage_(below(3000) + 100) {}

  void step() {
    switch (below(10)) {
      case 0:
      case 1:
      case 2:
      case 3:
        return take();
      case 4:
      case 5:
      case 6:
        return give();
      case 7:
        return resize();
      case 8:
        return leave();
      default:
        if (stage_.extents.size() < 20'000) stage_.add(below(500) + 1);
    }
  }
  void check() {
    ASSERT_STREQ(stage_.extents.check(), nullptr);
    for (const auto& [first, pages] : used_) {
      ASSERT_TRUE(stage_.extents.begins_used(first));
      ASSERT_EQ(stage_.extents.pages_of(first), pages);
      ASSERT_EQ(stage_.extents.noted(first), first * 7ULL);
    }
  }

 private:
  Page below(Page bound) { return static_cast<Page>(random_() % bound); }
  Page some_length() { return below(8) == 0 ? below(600) + 1 : below(40) + 1; }
  std::map<Page, Page>::iterator any() {
    return std::next(used_.begin(), below(static_cast<Page>(used_.size())));
  }
  bool is_free(Page first, Page pages) const {
    const auto next = used_.lower_bound(first);
    if (next != used_.end() && next->first < first + pages) return false;
    return next == used_.begin() || std::prev(next)->first + std::prev(next)->second <= first;
  }
  void take() {
    const Page pages = some_length();
    const Page alignment = 1U << below(6);
    const Taken taken = stage_.extents.take(pages, alignment);
    if (!taken) return;
    ASSERT_EQ(taken.first % alignment, 0U);
    ASSERT_TRUE(is_free(taken.first, pages));
    stage_.extents.note(taken.first, taken.first * 7ULL);
    used_[taken.first] = pages;
  }
  void give() {
    if (used_.empty()) return;
    const auto one = any();
    stage_.extents.give(one->first);
    used_.erase(one);
  }
  void resize() {
    if (used_.empty()) return;
    const auto one = any();
    const Page pages = some_length();
    const Page now = one->second;
    const bool done = stage_.extents.resize(one->first, pages);
    ASSERT_TRUE(done || pages > now);
    ASSERT_TRUE(pages <= now || !done || is_free(one->first + now, pages - now));
    if (done) one->second = pages;
  }
  void leave() {
    const Run run = stage_.extents.leave(below(100) + 1);
    if (!run) return;
    ASSERT_TRUE(is_free(run.first, run.pages));
    if (below(2) == 0) take();
    if (below(8) == 0) return stage_.extents.give(run.first);
    stage_.extents.left(run.first);
  }

  std::mt19937 random_;
  Stage stage_;
  std::map<Page, Page> used_;
};

TEST(Extents, random_use_keeps_all_invariants) {
  const unsigned seeds = test::kSanitized ? 5 : 40;
  for (unsigned seed = 1; seed <= seeds; ++seed) {
    Model model(seed);
    for (int i = 0; i < 1500; ++i) {
      model.step();
      if (i % 10 == 0) model.check();
      if (testing::Test::HasFatalFailure()) FAIL() << "seed " << seed << ", step " << i;
    }
  }
}

}  // namespace
}  // namespace mh::heap
