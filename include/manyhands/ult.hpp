// SPDX-License-Identifier: BSD-3-Clause
// Light tasks: thousands of tasks on a few operating-system threads, each with a stack of its own,
// made to wait for one another and for messages at the cost of some nanoseconds.
//
//   manyhands/ult/scheduler.hpp   workers: start, run, what they did
//   manyhands/ult/task.hpp        spawn, join, yield, wait and signal, storage of a task's own
//   manyhands/ult/group.hpp       fork and join of many children at once
//   manyhands/ult/sync.hpp        locks, barrier, semaphore, event
//   manyhands/ult/future.hpp      results
//   manyhands/ult.h               the same for C
//
// The guide, with a complete program, is docs/light-tasks.md.
//
// Words. A *worker* is an operating-system thread that runs tasks, one at a time. A *task* is a
// function with a stack. Its *home* is the worker whose bit vectors have its bit; a *thief* is a
// worker that runs a task of another home. A task is *ready*, *running* or *blocked*.
//
// Limits that hold for every call: a task may continue on another thread after any call that can
// block, yield or join. So a value of the thread (errno, the address of a thread_local variable,
// a std::mutex that is held) must not be carried over such a call.
#pragma once

#include "manyhands/ult/future.hpp"     // IWYU pragma: export
#include "manyhands/ult/group.hpp"      // IWYU pragma: export
#include "manyhands/ult/scheduler.hpp"  // IWYU pragma: export
#include "manyhands/ult/sync.hpp"       // IWYU pragma: export
#include "manyhands/ult/task.hpp"       // IWYU pragma: export
