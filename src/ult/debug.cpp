// SPDX-License-Identifier: BSD-3-Clause
// What a debugger reads (tasks_gdb.py): plain structures under plain names, so that it needs no
// debug information and works on a core file of an optimized build.
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "ult/worker.hpp"

extern "C" {

// Offsets in a Record. A change of meaning gets a new version.
struct mh_ult_debug_layout_t {
  std::uint32_t version, state, borrows, context, stack, name;
};
extern MH_ULT_API const mh_ult_debug_layout_t mh_ult_debug_layout;
const mh_ult_debug_layout_t mh_ult_debug_layout = {1,
                                                   offsetof(mh::ult::detail::Record, state),
                                                   offsetof(mh::ult::detail::Record, borrows),
                                                   offsetof(mh::ult::detail::Record, context),
                                                   offsetof(mh::ult::detail::Record, stack),
                                                   offsetof(mh::ult::detail::Record, name)};

extern MH_ULT_API mh::ult::detail::DebugCore* mh_ult_debug_cores;
mh::ult::detail::DebugCore* mh_ult_debug_cores = nullptr;

}  // extern "C"

namespace mh::ult::detail {
namespace {
std::mutex cores_mutex;  // of the list; the debugger looks when everything stands
}

DebugEntry::DebugEntry(const Core& core) {
  for (const auto& worker : core.workers) workers_.push_back(worker->debug());
  core_ = {
      .workers = core.count, .slots = core.shape.slots, .list = workers_.data(), .next = nullptr};
  const std::lock_guard lock(cores_mutex);
  core_.next = std::exchange(mh_ult_debug_cores, &core_);
}

DebugEntry::~DebugEntry() {
  const std::lock_guard lock(cores_mutex);
  DebugCore** place = &mh_ult_debug_cores;
  while (*place != &core_) place = &(*place)->next;
  *place = core_.next;
}

DebugWorker Worker::debug() const { return {name, &current, slots_.get()}; }

}  // namespace mh::ult::detail
