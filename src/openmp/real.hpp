// SPDX-License-Identifier: BSD-3-Clause
// The OpenMP run time of the process: the functions that the program would call without us.
//
// Signatures are those of GCC's libgomp (its ABI is kept since GCC 4.2; LLVM's libomp offers the
// same names). Written once by bind(), before any of our functions can be reached; null where the
// run time lacks a function, which then nobody calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

namespace mh::openmp {

using Body = void (*)(void*);  // a region's code, outlined by the compiler

struct Real {
  void (*parallel)(Body, void*, unsigned, unsigned);
  void (*loop_end)();
  void (*loop_end_nowait)();

  // What a region may do that keeps its loop from being shared.
  void (*parallel_loop_static)(Body, void*, unsigned, long, long, long, long, unsigned);
  void (*parallel_sections)(Body, void*, unsigned, unsigned, unsigned);
  unsigned (*parallel_reductions)(Body, void*, unsigned, unsigned);
  void (*barrier)();
  void (*sections_end)();
  void* (*single_copy_start)();
  void (*single_copy_end)(void*);
  // Of any OpenMP run time.
  int (*thread_num)();
  int (*num_threads)();
  int (*in_parallel)();
  int (*level)();
  int (*active_level)();
  void (*set_num_threads)(int);
  void (*set_num_threads_4)(const std::int32_t*);
  void (*set_num_threads_8)(const std::int64_t*);

  // Asked, not answered, by us.
  int (*max_threads)();
  void (*get_schedule)(int*, int*);
};

extern Real real;

// One name of the run time, our function for it, and where the run time's own is kept.
struct Binding {
  std::string name;
  void* ours;  // null: it is only asked
  void** real;
};

template <class Function>
void add(std::vector<Binding>& table, const std::string& name, std::type_identity_t<Function>* ours,
         Function*& place) {
  table.push_back({name, reinterpret_cast<void*>(ours), reinterpret_cast<void**>(&place)});
}

template <class Function>
void ask(std::vector<Binding>& table, const std::string& name, Function*& place) {
  table.push_back({name, nullptr, reinterpret_cast<void**>(&place)});
}

}  // namespace mh::openmp
