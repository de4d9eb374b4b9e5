// SPDX-License-Identifier: BSD-3-Clause
// Light tasks: thousands of tasks on a few operating-system threads. Each task has its own stack.
// Starting, suspending or waking a task takes some tens of nanoseconds.
//
//   manyhands/ult/scheduler.hpp   workers: start, run, counters
//   manyhands/ult/task.hpp        spawn, join, yield, wait and signal, variables of a task
//   manyhands/ult/group.hpp       fork and join of many children at once
//   manyhands/ult/sync.hpp        locks, barrier, semaphore, event
//   manyhands/ult/future.hpp      results
//   manyhands/ult.h               the C interface
//
// The guide, with a complete program, is docs/light-tasks.md.
//
// Words. A *worker* is an operating-system thread that runs tasks, one at a time. A *task* is a
// function with its own stack. The *home* of a task is the worker whose bit vectors hold the task's
// bit. A *thief* is a worker that runs a task of another home. A task is *ready*, *running* or
// *blocked*.
//
// Limits of every call: a task may continue on another thread after a call that can block, yield or
// join. Do not keep a value of the thread over such a call: errno, the address of a thread_local
// variable, or a held std::mutex.
#pragma once

#include "manyhands/ult/future.hpp"     // IWYU pragma: export
#include "manyhands/ult/group.hpp"      // IWYU pragma: export
#include "manyhands/ult/scheduler.hpp"  // IWYU pragma: export
#include "manyhands/ult/sync.hpp"       // IWYU pragma: export
#include "manyhands/ult/task.hpp"       // IWYU pragma: export
