// SPDX-License-Identifier: BSD-3-Clause
#include "openmp/stack.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>

namespace mh::openmp {
namespace {

constexpr std::size_t kKilo = 1024;

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t";
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

// Returns the number of bytes in the unit of size that the letter names (b, k, m, g, t);
// `otherwise` if there is no letter; 0: no unit has this letter.
std::size_t bytes_of(std::string_view letter, std::size_t otherwise) {
  if (letter.empty()) return otherwise;
  const std::size_t power = std::string_view("bkmgt").find(static_cast<char>(letter[0] | 0x20));
  return letter.size() > 1 || power > 4 ? 0 : std::size_t{1} << (10 * power);
}

std::size_t size_asked_for(const char* variable, std::size_t unit) {
  const char* const text = std::getenv(variable);
  return text != nullptr ? stack_size(text, unit).value_or(0) : 0;
}

std::size_t size_of_main_thread() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_STACK, &limit) != 0) return 0;
  return limit.rlim_cur == RLIM_INFINITY ? kStackWithoutLimit : limit.rlim_cur;
}

}  // namespace

std::optional<std::size_t> stack_size(std::string_view text, std::size_t unit) {
  const std::string_view whole = trimmed(text);
  std::uint64_t number = 0;
  const auto end = std::from_chars(whole.data(), whole.data() + whole.size(), number);
  if (end.ec != std::errc{}) return {};
  const std::size_t bytes =
      bytes_of(trimmed(whole.substr(static_cast<std::size_t>(end.ptr - whole.data()))), unit);
  std::size_t size = 0;
  if (bytes == 0 || __builtin_mul_overflow(number, bytes, &size)) return {};
  return size;
}

std::size_t stack_for_loops() {
  return std::max({size_of_main_thread(), size_asked_for("OMP_STACKSIZE", kKilo),
                   size_asked_for("GOMP_STACKSIZE", kKilo), size_asked_for("KMP_STACKSIZE", 1)});
}

}  // namespace mh::openmp
