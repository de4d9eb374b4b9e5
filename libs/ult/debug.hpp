// SPDX-License-Identifier: BSD-3-Clause
// How a debugger finds the tasks of a process: a list of schedulers in plain structures
// (debug.cpp), which a debugger reads without debug information, on a core file of an optimized
// build too (tasks_gdb.py).
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

namespace mh::ult::detail {

struct Record;

struct DebugWorker {
  const char* name;
  Record* const* current;
  const std::atomic<Record*>* slots;
};

struct DebugCore {
  std::uint32_t workers;
  std::uint32_t slots;  // of each worker
  const DebugWorker* list;
  DebugCore* next;
};

// A scheduler in the list, as long as this lives.
class DebugEntry {
 public:
  DebugEntry(std::vector<DebugWorker> workers, std::uint32_t slots);
  ~DebugEntry();
  DebugEntry(const DebugEntry&) = delete;
  DebugEntry& operator=(const DebugEntry&) = delete;

 private:
  std::vector<DebugWorker> workers_;
  DebugCore core_{};
};

}  // namespace mh::ult::detail
