// SPDX-License-Identifier: BSD-3-Clause
#include "openmp/stubs.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <unordered_map>

#include "openmp/calls.hpp"
#include "openmp/participation.hpp"
#include "openmp/stubs.h"

extern "C" {
[[gnu::visibility("hidden")]] extern const char mh_openmp_stubs[];
[[gnu::visibility("hidden")]] void* mh_openmp_noticed(std::uint32_t number, const void* caller);
}

namespace mh::openmp::stubs {
namespace {

constexpr std::size_t kBytes = 16;

struct Stub {
  void* real;
  CallRule rule;
};
// The stubs by number. An element is written before stub_for_call() returns the address of the
// stub's entry point, so no call finds the element empty.
std::array<Stub, MH_STUBS> g_stubs;
std::unordered_map<std::string, std::uint32_t>& g_numbers =
    // numbers of the stubs by function; never destroyed, because exit handlers may call stubs
    *new std::unordered_map<std::string, std::uint32_t>;
std::atomic<bool> g_past_the_end{false};  // relaxed: independent of other data

// Takes the place of a call of the run time that a helper skips. 0 means no chunk, no section, not
// chosen for a `single`.
std::uintptr_t return_zero() { return 0; }

bool is_skipped(const CallRule& rule) { return rule.effect != Effect::none && is_helper(); }

}  // namespace

void* stub_for_call(std::string_view name, void* real) {
  const auto number = static_cast<std::uint32_t>(g_numbers.size());
  const auto found = g_numbers.find(std::string(name));
  const std::uint32_t at = found != g_numbers.end() ? found->second : number;
  if (at == MH_STUBS) {
    g_past_the_end.store(true, std::memory_order_relaxed);
    return nullptr;
  }
  if (at == number) {
    g_stubs[at] = {.real = real, .rule = rule_of(name)};
    g_numbers.emplace(name, number);
  }
  return const_cast<char*>(mh_openmp_stubs) + at * kBytes;
}

bool is_exhausted() { return g_past_the_end.load(std::memory_order_relaxed); }

// Notes that the calling thread's region calls the function for which the stub stands in. Returns
// that function, to which the call goes on.
static void* target_of(const Stub& stub) {
  const CallRule& rule = stub.rule;
  if (rule.effect == Effect::begins_region) {
    begin_set_aside();
    return stub.real;
  }
  if (rule.effect == Effect::ends_region) {
    end_set_aside();
    return stub.real;
  }
  if (current == nullptr) return stub.real;
  report_obstacle(rule.obstacle);
  if (rule.effect == Effect::begins_loop) current->begins_other_loop();
  return is_skipped(rule) ? reinterpret_cast<void*>(return_zero) : stub.real;
}

}  // namespace mh::openmp::stubs

void* mh_openmp_noticed(std::uint32_t number, const void* /*caller*/) {
  return mh::openmp::stubs::target_of(mh::openmp::stubs::g_stubs[number]);
}
