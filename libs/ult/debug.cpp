// SPDX-License-Identifier: BSD-3-Clause
#include "ult/debug.hpp"

#include <mutex>
#include <utility>

#include "manyhands/ult/group.hpp"

extern "C" {

extern MH_ULT_API mh::ult::detail::DebugCore* mh_ult_debug_cores;
mh::ult::detail::DebugCore* mh_ult_debug_cores = nullptr;

}  // extern "C"

namespace mh::ult::detail {
namespace {
std::mutex cores_mutex;  // guards the list; a debugger reads the list while all threads are stopped
}

DebugEntry::DebugEntry(std::vector<DebugWorker> workers, std::uint32_t slots)
    : workers_(std::move(workers)),
      core_{.workers = static_cast<std::uint32_t>(workers_.size()),
            .slots = slots,
            .list = workers_.data(),
            .next = nullptr} {
  const std::lock_guard lock(cores_mutex);
  core_.next = std::exchange(mh_ult_debug_cores, &core_);
}

DebugEntry::~DebugEntry() {
  const std::lock_guard lock(cores_mutex);
  DebugCore** place = &mh_ult_debug_cores;
  while (*place != &core_) place = &(*place)->next;
  *place = core_.next;
}

}  // namespace mh::ult::detail
