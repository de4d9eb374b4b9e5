// SPDX-License-Identifier: BSD-3-Clause
// The only exported function of a variant: takes mh_chain (functions that look symbols up) from the
// front, finds the functions behind Manyhands, and fills the front's table of entries. These
// functions are those of the next tool or library (`next`), and those of the MPI library (`real`).
//
// The front calls mh_variant_open() once per process, before any wrapper can run, while every other
// thread with an MPI call waits; plain stores therefore suffice. The function makes no MPI call.
// After a later refill_table(), a thread may still reach an old entry while another thread reaches
// the new entry.
#include <cstring>

#include "mpi/abi.hpp"
#include "mpi/front/entry.hpp"
#include "mpi/next.hpp"
#include "mpi/wrappers.hpp"

namespace mh::mpi {

namespace detail {
Next tool;
constinit thread_local int depth = 0;
}  // namespace detail

namespace {

// The arguments of mh_variant_open(), kept for refill_table().
const mh_chain* g_chain = nullptr;
mh_table* g_table = nullptr;

bool is_same_build(const mh_chain& chain, const mh_table& table) {
  return chain.layout == MH_FRONT_LAYOUT && chain.bytes == sizeof(mh_chain) &&
         chain.fingerprint == kTableFingerprint && chain.calls == kCalls && table.calls == kCalls;
}

// Sets member i of a Next, a struct of function pointers alone: member i lies at i times the
// pointer size (static_assert in next.hpp).
void set_function(Next& layer, std::size_t i, mh_function function) {
  std::memcpy(reinterpret_cast<char*>(&layer) + i * sizeof(function), &function, sizeof(function));
}

void fill_layers(const mh_chain& chain) {
  for (std::size_t i = 0; i < kNextCalls; ++i) {
    const mh_function behind = chain.find(kNextNames[i], MH_NEXT);
    const mh_function library = chain.find(kNextNames[i], MH_REAL);
    set_function(next, i, behind);
    set_function(real, i, library);
    if (behind != library) set_function(detail::tool, i, behind);
  }
}

// False if `layer`, the functions of an MPI library, lacks a function that every MPI library has
// had since MPI 1.
bool is_complete(const Next& layer) {
  return layer.Init != nullptr && layer.Send != nullptr && layer.Iprobe != nullptr &&
         layer.Comm_rank != nullptr && layer.Finalize != nullptr;
}

}  // namespace

void refill_table(void (*fill)(mh_table& table, bool guarded)) {
  fill(*g_table, g_chain->guarded != 0);
  cover_entries(*g_table);
  g_chain->publish();
}

}  // namespace mh::mpi

extern "C" __attribute__((visibility("default"))) int mh_variant_open(const mh_chain* chain,
                                                                      mh_table* table) {
  using namespace mh::mpi;
  if (!is_same_build(*chain, *table)) return MH_REFUSED_BUILD;
  if (bind_handles(chain->data) != nullptr) return MH_REFUSED_LIBRARY;
  fill_layers(*chain);
  if (!is_complete(real)) return MH_REFUSED_LIBRARY;
  table->unsupported = MPI_ERR_UNSUPPORTED_OPERATION;
  g_chain = chain;
  g_table = table;
  fill_entries(*table, chain->guarded != 0);
  cover_entries(*table);
  __atomic_store_n(&table->mark, marker(), __ATOMIC_RELEASE);
  __atomic_store_n(&table->lock, locker(), __ATOMIC_RELEASE);
  __atomic_store_n(&table->idle_work, idle_work(), __ATOMIC_RELEASE);
  return MH_ACCEPTED;
}
