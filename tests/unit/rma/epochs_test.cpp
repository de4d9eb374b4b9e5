// SPDX-License-Identifier: BSD-3-Clause
#include "rma/epochs.hpp"

#include <gtest/gtest.h>

namespace mh::rma {
namespace {

using LockState = Epochs::LockState;

TEST(Epochs, nothing_may_be_accessed_before_an_epoch_begins) {
  Epochs epochs(3);
  EXPECT_FALSE(epochs.may_access(1));
  EXPECT_TRUE(epochs.may_access(1, false));
  EXPECT_TRUE(epochs.may_free());
}

TEST(Epochs, a_fence_opens_an_epoch_to_all_unless_nothing_succeeds) {
  Epochs epochs(3);
  EXPECT_TRUE(epochs.fence(true));
  EXPECT_TRUE(epochs.may_access(0));
  EXPECT_TRUE(epochs.fence(false));
  EXPECT_FALSE(epochs.may_access(0));
}

TEST(Epochs, after_a_fence_another_kind_may_begin_only_if_nothing_was_done) {
  Epochs unused(3);
  EXPECT_TRUE(unused.fence(true));
  EXPECT_TRUE(unused.lock(1, LockState::shared));
  EXPECT_EQ(unused.unlock(1), LockState::shared);
  EXPECT_FALSE(unused.may_access(1));

  Epochs used(3);
  EXPECT_TRUE(used.fence(true));
  EXPECT_TRUE(used.may_access(1));
  EXPECT_FALSE(used.lock(1, LockState::shared));
  EXPECT_FALSE(used.start({1}));
  EXPECT_FALSE(used.post(1));
  EXPECT_FALSE(used.lock_all(LockState::shared));
  EXPECT_TRUE(used.fence(true));
}

TEST(Epochs, a_started_epoch_reaches_its_group_alone_until_it_is_completed) {
  Epochs epochs(4);
  EXPECT_FALSE(epochs.is_started());
  EXPECT_TRUE(epochs.start({1, 3}));
  EXPECT_TRUE(epochs.may_access(1));
  EXPECT_FALSE(epochs.may_access(2));
  EXPECT_TRUE(epochs.may_access(3));
  EXPECT_FALSE(epochs.start({2}));
  EXPECT_FALSE(epochs.lock(2, LockState::shared));
  EXPECT_FALSE(epochs.fence(true));
  EXPECT_FALSE(epochs.may_free());
  EXPECT_EQ(epochs.targets().size(), 2U);
  epochs.complete();
  EXPECT_FALSE(epochs.may_access(1));
  EXPECT_TRUE(epochs.may_free());
}

TEST(Epochs, a_rank_may_be_exposed_and_have_started_at_once_but_is_exposed_once) {
  Epochs epochs(4);
  EXPECT_TRUE(epochs.post(2));
  EXPECT_FALSE(epochs.post(1));
  EXPECT_TRUE(epochs.start({1}));
  EXPECT_EQ(epochs.origins(), 2U);
  EXPECT_FALSE(epochs.fence(true));
  epochs.complete();
  EXPECT_FALSE(epochs.fence(true));
  EXPECT_FALSE(epochs.may_free());
  epochs.end_exposure();
  EXPECT_TRUE(epochs.fence(true));
}

TEST(Epochs, targets_are_locked_one_by_one_each_once) {
  Epochs epochs(4);
  EXPECT_FALSE(epochs.is_passive());
  EXPECT_TRUE(epochs.lock(1, LockState::exclusive));
  EXPECT_FALSE(epochs.lock(1, LockState::shared));
  EXPECT_TRUE(epochs.lock(2, LockState::unchecked));
  EXPECT_TRUE(epochs.may_access(2));
  EXPECT_FALSE(epochs.may_access(3));
  EXPECT_TRUE(epochs.may_flush(1));
  EXPECT_FALSE(epochs.may_flush(3));
  EXPECT_FALSE(epochs.lock_all(LockState::shared));
  EXPECT_EQ(epochs.unlock_all(), LockState::none);
  EXPECT_EQ(epochs.unlock(3), LockState::none);
  EXPECT_EQ(epochs.unlock(1), LockState::exclusive);
  EXPECT_TRUE(epochs.is_passive());
  EXPECT_FALSE(epochs.may_free());
  EXPECT_EQ(epochs.unlock(2), LockState::unchecked);
  EXPECT_FALSE(epochs.is_passive());
}

TEST(Epochs, all_targets_are_locked_together) {
  Epochs epochs(4);
  EXPECT_TRUE(epochs.lock_all(LockState::shared));
  EXPECT_TRUE(epochs.may_access(3));
  EXPECT_TRUE(epochs.may_flush(0));
  EXPECT_FALSE(epochs.lock(1, LockState::shared));
  EXPECT_EQ(epochs.unlock(1), LockState::none);
  EXPECT_EQ(epochs.unlock_all(), LockState::shared);
  EXPECT_EQ(epochs.unlock_all(), LockState::none);
}

}  // namespace
}  // namespace mh::rma
