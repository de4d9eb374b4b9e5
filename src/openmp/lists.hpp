// SPDX-License-Identifier: BSD-3-Clause
// The user's lists of OpenMP regions whose loops are to be shared with other ranks or not
// (MH_OPENMP_ONLY, MH_OPENMP_EXCLUDE).
//
// A pattern is a name with `*` for any characters. It is compared with every spelling of a region's
// name (names.hpp) and with the region's address. "object:pattern" applies to one program or
// library only. Thread-safe, except for set(). Limit: `used()` covers the first 64 patterns only.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "openmp/names.hpp"

namespace mh::openmp {

// True if `text` matches the pattern, in which `*` stands for any characters, or none.
bool matches_text(std::string_view pattern, std::string_view text);
bool matches_name(std::string_view pattern, const RegionName& name);

class Lists {
 public:
  static constexpr std::size_t kMost = 64;

  // Sets the patterns of both lists. Call before loops are shared. An empty `only` stands for all
  // regions.
  void set(std::vector<std::string> exclude, std::vector<std::string> only) {
    exclude_ = std::move(exclude);
    only_ = std::move(only);
  }
  [[nodiscard]] bool empty() const { return exclude_.empty() && only_.empty(); }

  // True if the lists permit that a region of this name is shared.
  bool admits(const RegionName& name) {
    const bool excluded = any(exclude_, 0, name);
    const bool named = any(only_, exclude_.size(), name);
    return !excluded && (named || only_.empty());
  }

  // True if the list `only` has a pattern that matches the region.
  bool names_to_share(const RegionName& name) { return any(only_, exclude_.size(), name); }

  // Returns a bit for each pattern that has matched a region so far: first those of the list
  // `exclude`, then those of `only`.
  [[nodiscard]] std::uint64_t used() const { return used_.load(std::memory_order_relaxed); }

 private:
  bool any(const std::vector<std::string>& patterns, std::size_t first, const RegionName& name) {
    bool found = false;
    for (std::size_t i = 0; i < patterns.size(); ++i) {
      if (!matches_name(patterns[i], name)) continue;
      found = true;
      // relaxed: a bit says that its pattern has matched, and publishes no other data.
      if (first + i < kMost) used_.fetch_or(1ULL << (first + i), std::memory_order_relaxed);
    }
    return found;
  }

  std::vector<std::string> exclude_;
  std::vector<std::string> only_;
  std::atomic<std::uint64_t> used_{0};
};

}  // namespace mh::openmp
