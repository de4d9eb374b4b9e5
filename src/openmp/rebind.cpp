// SPDX-License-Identifier: BSD-3-Clause
#include "openmp/rebind.hpp"

#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string_view>
#include <unordered_map>
#include <utility>

#include "openmp/calls.hpp"
#include "openmp/participation.hpp"
#include "openmp/stubs.hpp"

extern "C" {
#include "base/elf.h"
}

namespace mh::openmp::rebind {
namespace {

constexpr const char* kMark = "GOMP_parallel";  // every run time for GCC's code has this function

// The calls of this process that are redirected to Manyhands' functions. Changed under the loader's
// lock (dl_iterate_phdr()).
struct Rebinding {
  std::vector<Binding> bindings;
  std::unordered_map<std::string_view, void*> ours;  // replacements by name
  mh_object run_time{};
  unsigned long long changes = 0;  // changes_so_far() at the last rebinding
};
Rebinding g_rebinding;

// The part of a loaded object (PT_GNU_RELRO) that the loader made read-only after it had filled the
// slots of imported functions. It is made writable while slots are changed.
struct ReadOnlyPart {
  std::uintptr_t low = 0;
  std::uintptr_t high = 0;
  bool opened = false;  // writable for the moment
};

ReadOnlyPart read_only_part(const dl_phdr_info& info) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = info.dlpi_phdr[i];
    if (part.p_type != PT_GNU_RELRO) continue;
    const std::uintptr_t low = info.dlpi_addr + part.p_vaddr;
    return {.low = low & -page, .high = (low + part.p_memsz) & -page};
  }
  return {};
}

bool set_protection(const ReadOnlyPart& part, int protection) {
  return ::mprotect(reinterpret_cast<void*>(part.low), part.high - part.low, protection) == 0;
}

void* function_of_run_time(const char* name) {
  if (!is_run_time_name(name)) return nullptr;
  const ElfW(Sym)* symbol = mh_symbol(&g_rebinding.run_time, name);
  if (symbol == nullptr || ELF64_ST_TYPE(symbol->st_info) != STT_FUNC) return nullptr;
  return reinterpret_cast<void*>(g_rebinding.run_time.base + symbol->st_value);
}

// Returns the function that calls of the function `name` are to reach from now on: Manyhands'
// replacement or a stub; null: the call stays as it is.
void* instead_of(const char* name) {
  const auto found = g_rebinding.ours.find(name);
  if (found != g_rebinding.ours.end()) return found->second;
  void* const real = function_of_run_time(name);
  const bool is_permitted = real == nullptr || rule_of(name).obstacle == Obstacle::none;
  return is_permitted ? nullptr : stubs::stub_for_call(name, real);
}

// A loaded object whose slots are to be changed.
struct ReboundObject {
  const mh_object& known;
  ReadOnlyPart part;
  bool is_new = false;  // a slot did not have the function of Manyhands
};

// Called before the first slot of a newly loaded object is changed. The object may lie where
// another one was, whose regions have sites.
void forget_what_was_here(const mh_object& object) {
  for (int i = 0; i < object.part_count; ++i) {
    const ElfW(Phdr)& part = object.parts[i];
    if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0) continue;
    const std::uintptr_t low = object.base + part.p_vaddr;
    sites.forget(low, low + part.p_memsz);
  }
}

void rebind_one(const char* name, void** slot, void* data) {
  void* const ours = instead_of(name);
  if (ours == nullptr || *slot == ours) return;
  auto& object = *static_cast<ReboundObject*>(data);
  if (!std::exchange(object.is_new, true)) forget_what_was_here(object.known);
  ReadOnlyPart& part = object.part;
  const auto address = reinterpret_cast<std::uintptr_t>(slot);
  if (address >= part.low && address < part.high && !part.opened) {
    part.opened = set_protection(part, PROT_READ | PROT_WRITE);
    if (!part.opened) return;
  }
  // Another thread may be calling through the slot: it reads the old or the new function. release:
  // pairs with the load of the new function by such a call, which then sees its site forgotten.
  __atomic_store_n(slot, ours, __ATOMIC_RELEASE);
}

int rebind_object(dl_phdr_info* info, std::size_t /*bytes*/, void* /*data*/) {
  g_rebinding.changes = info->dlpi_adds + info->dlpi_subs;
  const mh_object object = mh_object_of(info);
  if (object.dynamic == nullptr || object.dynamic == g_rebinding.run_time.dynamic) return 0;
  ReboundObject rebound{.known = object, .part = read_only_part(*info)};
  mh_imports(&object, rebind_one, &rebound);
  if (rebound.part.opened) set_protection(rebound.part, PROT_READ);
  return 0;
}

struct RunTimes {
  mh_object first{};
  int count = 0;
};

int look_for_run_time(dl_phdr_info* info, std::size_t /*bytes*/, void* data) {
  auto& found = *static_cast<RunTimes*>(data);
  const mh_object object = mh_object_of(info);
  if (mh_symbol(&object, kMark) == nullptr) return 0;
  if (found.count++ == 0) found.first = object;
  return 0;
}

struct ImportSearch {
  std::string_view name;
  bool found = false;
};

void compare_import(const char* name, void** /*slot*/, void* data) {
  auto& search = *static_cast<ImportSearch*>(data);
  search.found = search.found || search.name == name;
}

int search_object(dl_phdr_info* info, std::size_t /*bytes*/, void* data) {
  const mh_object object = mh_object_of(info);
  mh_imports(&object, compare_import, data);
  return static_cast<ImportSearch*>(data)->found ? 1 : 0;
}

int count_changes(dl_phdr_info* info, std::size_t /*bytes*/, void* changes) {
  *static_cast<unsigned long long*>(changes) = info->dlpi_adds + info->dlpi_subs;
  return 1;
}

}  // namespace

bool is_imported(const char* name) {
  ImportSearch search{.name = name};
  return ::dl_iterate_phdr(search_object, &search) != 0;
}

void* in_run_time(const char* name) {
  RunTimes found;
  ::dl_iterate_phdr(look_for_run_time, &found);
  return found.count != 0 ? mh_address(&found.first, name) : nullptr;
}

bool is_of_run_time(const char* name) { return function_of_run_time(name) != nullptr; }

bool is_run_time(const mh_object& object) { return object.dynamic == g_rebinding.run_time.dynamic; }

unsigned long long changes_so_far() {
  unsigned long long changes = 0;
  ::dl_iterate_phdr(count_changes, &changes);
  return changes;
}

Status rebind_all(std::vector<Binding> bindings) {
  if (g_rebinding.run_time.dynamic != nullptr) return {};
  RunTimes found;
  ::dl_iterate_phdr(look_for_run_time, &found);
  if (found.count != 1) return {Code::unsupported};
  g_rebinding.bindings = std::move(bindings);
  for (const Binding& binding : g_rebinding.bindings) {
    void* real = mh_address(&found.first, binding.name.c_str());
    if (real == nullptr) continue;
    *binding.real = real;
    if (binding.ours != nullptr) g_rebinding.ours.emplace(binding.name, binding.ours);
  }
  g_rebinding.run_time = found.first;
  ::dl_iterate_phdr(rebind_object, nullptr);
  return {};
}

void rebind_new_objects() {
  if (changes_so_far() != g_rebinding.changes) ::dl_iterate_phdr(rebind_object, nullptr);
}

}  // namespace mh::openmp::rebind
