// SPDX-License-Identifier: BSD-3-Clause
#include <dlfcn.h>
#include <gtest/gtest.h>

#include "memory/probe.hpp"

namespace mh::memory {
namespace {

TEST(Devices, ARunTimeThatIsLoadedLaterIsSeen) {
  EXPECT_FALSE(device_runtime_loaded());
  EXPECT_FALSE(device_runtime_loaded());
  ASSERT_NE(dlopen(MH_FAKE_RUNTIME, RTLD_NOW), nullptr) << dlerror();
  EXPECT_TRUE(device_runtime_loaded());
  EXPECT_TRUE(device_runtime_loaded());
}

}  // namespace
}  // namespace mh::memory
