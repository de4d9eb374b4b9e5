// SPDX-License-Identifier: BSD-3-Clause
#include "openmp/objects.hpp"

#include <link.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <iterator>
#include <mutex>
#include <string>
#include <vector>

#include "openmp/calls.hpp"
#include "openmp/lists.hpp"
#include "openmp/rebind.hpp"

namespace mh::openmp {
namespace {

CallsOfAll operator|(const CallsOfAll& a, const CallsOfAll& b) {
  return {.needs_teams = a.needs_teams || b.needs_teams,
          .meets = a.meets || b.meets,
          .is_numbered = a.is_numbered || b.is_numbered};
}

struct LoadedObject {
  mh_object known{};
  Obstacle calls = Obstacle::none;  // the first obstacle among its calls of the run time
  CallsOfAll all{};
  bool thread_data = false;
};

void note_call(const char* name, void** /*slot*/, void* data) {
  if (!rebind::is_of_run_time(name)) return;
  auto& object = *static_cast<LoadedObject*>(data);
  const Obstacle found = virtual_obstacle_of(name);
  if (object.calls == Obstacle::none) object.calls = found;
  object.all =
      object.all | CallsOfAll{.needs_teams = found != Obstacle::none && found != Obstacle::nested,
                              .meets = is_meeting(name),
                              .is_numbered = is_numbered(name)};
}

// True for libraries of the system, on whose thread-local data no loop body depends. Virtual
// threads, which may run on any thread, may therefore call them.
bool is_of_system(std::string_view name) {
  constexpr std::string_view kNames[] = {
      "libc.so*",        "libm.so*",        "libmvec.so*",  "libstdc++.so*",  "libgcc_s.so*",
      "libgfortran.so*", "libquadmath.so*", "ld-linux*",    "libpthread.so*", "libmanyhands*",
      "libasan.so*",     "libtsan.so*",     "libubsan.so*", "libatomic.so*",
  };
  return std::any_of(std::begin(kNames), std::end(kNames),
                     [&](std::string_view pattern) { return matches_text(pattern, name); });
}

int note_object(dl_phdr_info* info, std::size_t /*bytes*/, void* all) {
  LoadedObject object{.known = mh_object_of(info)};
  if (object.known.dynamic == nullptr) return 0;
  if (!rebind::is_run_time(object.known)) mh_imports(&object.known, note_call, &object);
  object.thread_data = has_thread_data(object.known) && !is_of_system(mh_soname(&object.known));
  static_cast<std::vector<LoadedObject>*>(all)->push_back(object);
  return 0;
}

// The programs and libraries that were loaded when look_again() last listed them. Never destroyed:
// exit handlers of the program may have parallel regions.
struct Looked {
  std::mutex looking;
  std::vector<LoadedObject> objects;
};
Looked& g_looked = *new Looked;
// The value of rebind::changes_so_far() when look_again() last listed the objects. release:
// publishes g_all, pairs with the acquire in calls_of_all().
std::atomic<std::uint64_t> g_changes{0};
std::atomic<CallsOfAll> g_all{CallsOfAll{}};

// Lists the loaded objects anew if an object was loaded or unloaded since the last call of this
// function. The caller holds g_looked.looking.
void look_again() {
  const std::uint64_t changes = rebind::changes_so_far();
  if (g_changes.load(std::memory_order_relaxed) == changes) return;
  g_looked.objects.clear();
  ::dl_iterate_phdr(note_object, &g_looked.objects);
  CallsOfAll all{};
  for (const LoadedObject& object : g_looked.objects) all = all | object.all;
  g_all.store(all, std::memory_order_relaxed);
  g_changes.store(changes, std::memory_order_release);
}

// True for functions whose results differ from thread to thread, so that a virtual thread, which
// may run on any thread, must not call them.
bool tells_threads_apart(std::string_view name) {
  constexpr std::string_view kNames[] = {
      "__tls_get_addr",
      "pthread_self",
      "pthread_getspecific",
      "pthread_setspecific",
      "tss_*",
      "thrd_current",
      "gettid",
      "sched_getcpu",
      "_gfortran_random*",
      "_gfortran_arandom*",
  };
  return std::any_of(std::begin(kNames), std::end(kNames),
                     [&](std::string_view pattern) { return matches_text(pattern, name); });
}

bool is_of_mpi(std::string_view name) {
  constexpr std::string_view kNames[] = {"MPI_*", "PMPI_*", "mpi_*", "pmpi_*"};
  return std::any_of(std::begin(kNames), std::end(kNames),
                     [&](std::string_view pattern) { return matches_text(pattern, name); });
}

}  // namespace

bool has_thread_data(const mh_object& object) {
  return std::any_of(object.parts, object.parts + object.part_count, [](const ElfW(Phdr) & part) {
    return part.p_type == PT_TLS && part.p_memsz != 0;
  });
}

Obstacle obstacle_behind_import(std::string_view name, bool thread_data_permitted) {
  if (is_of_mpi(name)) return Obstacle::mpi;
  if (!thread_data_permitted && tells_threads_apart(name)) return Obstacle::thread_data;
  const std::lock_guard<std::mutex> hold(g_looked.looking);
  look_again();
  const std::string text(name);
  const auto& all = g_looked.objects;
  const auto owner = std::find_if(all.begin(), all.end(), [&](const LoadedObject& object) {
    return mh_symbol(&object.known, text.c_str()) != nullptr;
  });
  if (owner == all.end()) return Obstacle::none;  // never called: no object defines it
  if (owner->calls != Obstacle::none) return Obstacle::unknown_code;
  const bool own_data = owner->thread_data && !thread_data_permitted;
  return own_data ? Obstacle::thread_data : Obstacle::none;
}

CallsOfAll calls_of_all() {
  if (g_changes.load(std::memory_order_acquire) != rebind::changes_so_far()) [[unlikely]] {
    const std::lock_guard<std::mutex> hold(g_looked.looking);
    look_again();
  }
  return g_all.load(std::memory_order_relaxed);
}

}  // namespace mh::openmp
