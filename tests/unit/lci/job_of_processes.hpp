// SPDX-License-Identifier: BSD-3-Clause
// A job whose ranks are child processes, each with an LCI device, for tests of LCI.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <vector>

#include "manyhands/lci.hpp"
#include "support/child.hpp"

// Checks a condition in a child process. If it fails, the child's exit code is the line number
// modulo 199, plus 1, so that it is never 0.
#define MH_CHECK(condition) \
  if (!(condition)) return __LINE__ % 199 + 1

namespace mh::test {

class JobOfProcesses {
 public:
  using Body = std::function<int(lci::Job& job, lci::Device& device)>;

  JobOfProcesses() {
    static int jobs = 0;
    root_ = testing::TempDir() + "lci-" + std::to_string(::getpid()) + "-" + std::to_string(++jobs);
  }

  [[nodiscard]] lci::JobConfig config(int rank, int size) const {
    return {.rank = rank, .size = size, .root = root_, .timeout_s = 30};
  }
  // Starts the ranks as child processes. Each child calls `before` with its rank, joins the job,
  // opens its device and calls `body`.
  std::vector<Child> start(int size, const lci::DeviceConfig& device_config, const Body& body,
                           const std::function<void(int rank)>& before = {}) const {
    std::vector<Child> ranks;
    for (int rank = 0; rank < size; ++rank) {
      ranks.emplace_back([&] {
        if (before) before(rank);
        auto job = lci::Job::join(config(rank, size));
        MH_CHECK(job.ok());
        auto device = lci::Device::open(*job, device_config);
        MH_CHECK(device.ok());
        return body(*job, *device);
      });
    }
    return ranks;
  }
  void run(int size, const lci::DeviceConfig& device_config, const Body& body,
           const std::function<void(int rank)>& before = {}) const {
    auto ranks = start(size, device_config, body, before);
    for (int rank = 0; rank < size; ++rank) {
      EXPECT_EQ(ranks[static_cast<std::size_t>(rank)].wait(), 0) << "rank " << rank;
    }
  }
  // Returns the path of a file that no other job uses.
  [[nodiscard]] std::string file(const std::string& name) const { return root_ + '-' + name; }

 private:
  std::string root_;
};

}  // namespace mh::test
