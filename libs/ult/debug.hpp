// SPDX-License-Identifier: BSD-3-Clause
// The list of a process's schedulers for a debugger. The list consists of plain structures
// (debug.cpp). The gdb script tasks_gdb.py reads them without debug information, also in a core
// file of an optimized build.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

namespace mh::ult::detail {

struct TaskRecord;

struct DebugWorker {
  const char* name;
  TaskRecord* const* current;             // the address of Worker::current
  const std::atomic<TaskRecord*>* slots;  // the worker's table from slots to records
};

struct DebugCore {
  std::uint32_t workers;
  std::uint32_t slots;  // of each worker
  const DebugWorker* list;
  DebugCore* next;
};

// Keeps a scheduler in the debugger's list: the constructor adds the scheduler, the destructor
// removes it.
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
