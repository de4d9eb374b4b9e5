// SPDX-License-Identifier: BSD-3-Clause
// Counters of the stand-in wrappers: for each MPI call, how often the program made it. Relaxed
// order is enough: the call that ends MPI writes the report, after all other calls.
#include "stand_in.hpp"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "mpi/abi.hpp"
#include "mpi/front/entry.hpp"
#include "mpi/wrappers.hpp"

namespace mh::mpi::stand_in {
namespace {
std::array<std::atomic<std::uint64_t>, kCalls> counts;
}  // namespace

void count(std::uint32_t call) { counts[call].fetch_add(1, std::memory_order_relaxed); }

void report() {
  const char* prefix = std::getenv("MH_TEST_COUNTS");
  if (prefix == nullptr) return;
  const std::string name = std::string(prefix) + "." + std::to_string(getpid());
  std::FILE* file = std::fopen(name.c_str(), "w");
  if (file == nullptr) return;
  std::fprintf(file, "%s\n", kAbiName);
  for (std::uint32_t call = 0; call < kCalls; ++call) {
    const auto value = counts[call].load(std::memory_order_relaxed);
    if (value != 0) std::fprintf(file, "%s %ju\n", kNextNames[call], std::uintmax_t{value});
  }
  std::fclose(file);
}

}  // namespace mh::mpi::stand_in

namespace mh::mpi {
mh_marker marker() { return nullptr; }
mh_locker locker() { return nullptr; }
const mh_idle_work* idle_work() { return nullptr; }
}  // namespace mh::mpi
