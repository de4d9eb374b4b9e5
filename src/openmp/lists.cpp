// SPDX-License-Identifier: BSD-3-Clause
#include "openmp/lists.hpp"

#include <algorithm>

namespace mh::openmp {

bool matches_text(std::string_view pattern, std::string_view text) {
  constexpr std::size_t kNone = std::string_view::npos;
  std::size_t p = 0;
  std::size_t star = kNone;  // position of the last star in the pattern
  std::size_t resume = 0;    // position in the text up to which the star stands for characters
  for (std::size_t t = 0; t < text.size();) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p;
      ++t;
    } else if (star != kNone) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == kNone;
}

namespace {

// Returns the position of the colon in a pattern "object:pattern", a colon that is not part of
// "::"; npos: there is none.
std::size_t lone_colon(std::string_view pattern) {
  for (std::size_t at = 0; at < pattern.size(); ++at) {
    if (pattern[at] != ':') continue;
    if (at + 1 == pattern.size() || pattern[at + 1] != ':') return at;
    ++at;
  }
  return std::string_view::npos;
}

}  // namespace

bool matches_name(std::string_view pattern, const RegionName& name) {
  const std::size_t colon = lone_colon(pattern);
  if (colon != std::string_view::npos) {
    if (!matches_text(pattern.substr(0, colon), name.object)) return false;
    pattern.remove_prefix(colon + 1);
  }
  const auto same = [&](std::string_view text) {
    return !text.empty() && matches_text(pattern, text);
  };
  return same(name.function) || same(name.at) ||
         std::any_of(name.symbols.begin(), name.symbols.end(), same);
}

}  // namespace mh::openmp
