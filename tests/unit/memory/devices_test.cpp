// SPDX-License-Identifier: BSD-3-Clause
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "memory/probe.hpp"

namespace mh::memory {
namespace {

TEST(Devices, a_run_time_that_is_loaded_later_is_seen) {
  EXPECT_FALSE(device_runtime_loaded());
  EXPECT_FALSE(device_runtime_loaded());
  ASSERT_NE(dlopen(MH_FAKE_RUNTIME, RTLD_NOW), nullptr) << dlerror();
  EXPECT_TRUE(device_runtime_loaded());
  EXPECT_TRUE(device_runtime_loaded());
}

TEST(Devices, an_accelerator_is_found_by_the_file_of_its_driver) {
  std::string folder = ::testing::TempDir() + "mh-devices-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  EXPECT_FALSE(has_accelerator(folder));
  std::filesystem::create_directories(folder + "/dri");
  EXPECT_FALSE(has_accelerator(folder)) << "a display without a processor";
  std::ofstream(folder + "/dri/renderD128").put('x');
  EXPECT_TRUE(has_accelerator(folder));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace mh::memory
