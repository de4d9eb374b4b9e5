// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/engine/engine.h"

#include <dlfcn.h>

#include <cstring>
#include <string>

#include "layout/pack.hpp"
#include "mpi/datatype/layouts.hpp"
#include "mpi/next.hpp"

struct mh_layout {
  mh::layout::LayoutPtr held;
};

namespace {

using namespace mh;

void* find(const char* name) { return dlsym(RTLD_DEFAULT, name); }

std::size_t g_last_cache = 0;

layout::Elements elements(const mh_layout* layout, std::size_t count, const void* base) {
  layout::Elements found{layout->held.get(), count, layout::address_of(base)};
  found.cache_level = layout::cache_level_of(found.bytes(), g_last_cache);
  return found;
}

}  // namespace

extern "C" {

int mh_engine_open() {
  if (mpi::bind_handles(find) != nullptr) return -1;
  for (std::size_t i = 0; i < mpi::kNextCalls; ++i) {
    void* call = find((std::string("P") + mpi::kNextNames[i]).c_str());
    std::memcpy(reinterpret_cast<char*>(&mpi::real) + i * sizeof call, &call, sizeof call);
  }
  return mpi::real.Type_get_contents != nullptr ? 0 : -1;
}

void mh_engine_last_cache(size_t bytes) { g_last_cache = bytes; }

mh_layout* mh_layout_of(MPI_Datatype type) {
  auto found = mpi::layouts::of(type);
  return found ? new mh_layout{std::move(found)} : nullptr;
}

void mh_layout_close(mh_layout* layout) { delete layout; }

void mh_layout_forget(MPI_Datatype type) { mpi::layouts::forget_type(type); }

size_t mh_layout_size(const mh_layout* layout) { return layout->held->size(); }

size_t mh_layout_blocks(const mh_layout* layout) { return layout->held->blocks(); }

size_t mh_layout_pack(const mh_layout* layout, size_t count, const void* base, size_t begin,
                      size_t end, void* packed) {
  return layout::pack_range(elements(layout, count, base), {begin, end}, packed);
}

size_t mh_layout_unpack(const mh_layout* layout, size_t count, void* base, size_t begin, size_t end,
                        const void* packed) {
  return layout::unpack_range(elements(layout, count, base), {begin, end}, packed);
}

size_t mh_layout_list(const mh_layout* layout, size_t count, const void* base, size_t begin,
                      size_t end, struct iovec* room, size_t entries, size_t* bytes) {
  const layout::ListedBlocks found =
      layout::list_blocks(elements(layout, count, base), {begin, end}, {room, entries});
  *bytes = found.bytes;
  return found.used;
}

size_t mh_layout_copy(const mh_layout* to, void* to_base, const mh_layout* from,
                      const void* from_base, size_t count, size_t begin, size_t end, void* scratch,
                      size_t scratch_bytes) {
  return layout::copy_range(elements(to, count, to_base), elements(from, count, from_base),
                            {begin, end}, {static_cast<std::byte*>(scratch), scratch_bytes});
}

}  // extern "C"
