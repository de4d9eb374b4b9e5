// SPDX-License-Identifier: BSD-3-Clause
// Pointers to the functions of the OpenMP run time that the program would call without Manyhands.
//
// The functions have the signatures of GCC's libgomp, whose ABI is stable since GCC 4.2. LLVM's
// libomp exports the same functions. rebind_all() fills the table once, before any replacement can
// run. A pointer is null, and never called, if the run time lacks the function.
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

  // Functions that keep a region from being shared with helpers if the region calls them.
  void (*parallel_loop_static)(Body, void*, unsigned, long, long, long, long, unsigned);
  void (*parallel_sections)(Body, void*, unsigned, unsigned, unsigned);
  unsigned (*parallel_reductions)(Body, void*, unsigned, unsigned);
  void (*barrier)();
  void (*sections_end)();
  void* (*single_copy_start)();
  void (*single_copy_end)(void*);
  // Functions with omp_ names, which every OpenMP run time has. Manyhands answers some of their
  // callers itself.
  int (*thread_num)();
  int (*num_threads)();
  int (*in_parallel)();
  int (*level)();
  int (*active_level)();
  void (*set_num_threads)(int);
  void (*set_num_threads_4)(const std::int32_t*);
  void (*set_num_threads_8)(const std::int64_t*);
  int (*max_threads)();

  // Called by Manyhands itself; calls of the program are not replaced.
  void (*get_schedule)(int*, int*);
};

extern Real real;

// A function of the OpenMP run time by name, Manyhands' replacement, and the pointer in which
// rebind_all() stores the run time's own function.
struct Binding {
  std::string name;
  void* ours;  // null: not replaced
  void** real;
};

template <class Function>
void add_binding(std::vector<Binding>& table, const std::string& name,
                 std::type_identity_t<Function>* ours, Function*& slot) {
  table.push_back({name, reinterpret_cast<void*>(ours), reinterpret_cast<void**>(&slot)});
}

template <class Function>
void add_query(std::vector<Binding>& table, const std::string& name, Function*& slot) {
  table.push_back({name, nullptr, reinterpret_cast<void**>(&slot)});
}

}  // namespace mh::openmp
