// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/job/heaps.hpp"

#include <dlfcn.h>

#include <chrono>
#include <utility>

#include "mpi/job/agreement.hpp"
#include "mpi/job/config.hpp"
#include "mpi/job/services.hpp"
#include "mpi/next.hpp"

namespace mh::mpi::heaps {
namespace {

constexpr std::chrono::milliseconds kDoorTimeout(20'000);

// The functions of the heap library, if the program runs with that library preloaded; else null,
// and this rank has no shared heap.
const mh_heap_door* g_heap = nullptr;

const mh_heap_door* find_heap() {
  auto* open =
      reinterpret_cast<mh_heap_open_door_function*>(::dlsym(RTLD_DEFAULT, "mh_heap_open_door"));
  const mh_heap_door* door = open != nullptr ? open() : nullptr;
  const bool fits =
      door != nullptr && door->layout == MH_HEAP_DOOR_LAYOUT && door->bytes >= sizeof(mh_heap_door);
  return fits ? door : nullptr;
}

}  // namespace

bool share(bool wanted, node::Door* door, const node::DoorName& name) {
  g_heap = find_heap();
  const int own = wanted && g_heap != nullptr ? g_heap->descriptor() : -1;
  if (!agreement::all(own >= 0, config.node_comm)) return false;
  std::uint32_t attached = 0;
  const node::Door::TakeFd take = [&](std::uint32_t rank, Fd fd) {
    if (services.memory->attach(rank, std::move(fd)).ok()) ++attached;
  };
  const Status done = door != nullptr
                          ? door->exchange(config.me, config.ranks, own, take, kDoorTimeout)
                          : node::Door::exchange_with(name, config.me, own, take, kDoorTimeout);
  return agreement::all(done.ok() && attached == config.ranks - 1, config.node_comm);
}

void stop_growing() {
  if (const mh_heap_door* heap = find_heap(); heap != nullptr) heap->stop_growing();
}

bool contain(const void* address, std::uint64_t bytes) {
  return g_heap->reaches(reinterpret_cast<std::uint64_t>(address), bytes) != 0;
}

std::optional<mh_heap_stats> stats() {
  if (!config.heaps_mapped) return std::nullopt;
  mh_heap_stats now{};
  g_heap->stats(&now);
  return now;
}

}  // namespace mh::mpi::heaps
