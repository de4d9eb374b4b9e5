// SPDX-License-Identifier: BSD-3-Clause
// Stacks for virtual threads, the calls of a region's function for each thread number
// (virtual_threads.hpp). A virtual thread stops at a barrier and goes on later, perhaps on another
// thread.
//
// A *fibre* is such a stack with what runs on it. A fibre belongs to one thread at a time. The
// thread that hands a fibre to another thread orders the memory (virtual_threads.cpp). Stacks are
// kept for the next team. Limits: one team at a time in a process; no stacks where the address
// space is limited (ulimit -v). Rounding modes and floating-point exceptions are those of the
// thread that runs the fibre.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mh::openmp {

class TeamFibre {
 public:
  using Entry = void (*)(void*);

  TeamFibre() = default;
  TeamFibre(const TeamFibre&) = delete;
  TeamFibre& operator=(const TeamFibre&) = delete;

  // Prepares the stack of the fibre for a new run: the next resume() calls entry(data) on it.
  void begin(Entry entry, void* data);
  // Runs the fibre on the calling thread until it pauses or ends. Returns true if it has ended.
  bool resume();
  // Called by the code that runs on the fibre: resume() returns in the thread that runs the fibre,
  // and pause() returns after the next resume(). Not inlined: the fibre may go on in another
  // thread, where addresses of thread-local variables differ.
  [[gnu::noinline]] void pause();

  // Data that the virtual thread on this fibre leaves when it pauses, for the thread that combines
  // a reduction.
  void* left = nullptr;

 private:
  friend class TeamFibres;
  static void enter(TeamFibre* fibre);

  void* here_ = nullptr;  // stack pointers: of the paused fibre, of the thread that runs it
  void* back_ = nullptr;
  Entry entry_ = nullptr;
  void* data_ = nullptr;
  char* stack_ = nullptr;  // its lowest byte
  std::size_t bytes_ = 0;
  bool ended_ = false;
};

class TeamFibres {
 public:
  static constexpr std::uint32_t kMost = 256;
  // Returns the process's fibres, of which at least the first `count` have stacks; null if there is
  // no memory. Any thread may call this function. The fibres are used only by the team of the
  // thread that has entered the process's shared region (region.hpp).
  static TeamFibre* with_stacks(std::uint32_t count);
};

}  // namespace mh::openmp
