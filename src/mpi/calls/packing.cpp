// SPDX-License-Identifier: BSD-3-Clause
// Chapter 5 of the MPI standard, MPI_Pack and MPI_Unpack: carried out by the layout engine
// (src/layout) where datatype/packing.hpp says that it is faster, else by the library.
#include "mpi/datatype/packing.hpp"

#include "layout/pack.hpp"
#include "memory/probe.hpp"
#include "mpi/job/comms.hpp"
#include "mpi/job/services.hpp"
#include "mpi/job/switches.hpp"
#include "mpi/next.hpp"
#include "mpi/wrappers.hpp"

namespace mh::mpi {
namespace packing {
namespace {

// The arguments of MPI_Pack or MPI_Unpack. The buffer for the packed stream has `room` bytes at
// `stream`, of which the first `*position` bytes are in use.
template <class Count>
struct PackCall {
  const void* memory;
  Count count;
  MPI_Datatype type;
  const void* stream;
  Count room;
  Count* position;
  MPI_Comm comm;
};

// Returns the number of bytes that the layout engine is to move; 0 if the library has to carry out
// the call.
template <class Count>
std::uint64_t bytes_of(const PackCall<Count>& call, const layout::Layout& layout) {
  const std::uint64_t size = layout.size();
  if (call.count <= 0 || call.position == nullptr || *call.position < 0) return 0;
  if (call.room < *call.position || call.stream == nullptr) return 0;
  if (call.memory == nullptr || call.memory == MPI_BOTTOM) return 0;
  const auto left = static_cast<std::uint64_t>(call.room - *call.position);
  const auto count = static_cast<std::uint64_t>(call.count);
  if (count > left / size || count * size < least_bytes(layout)) return 0;
  if (next.Pack != real.Pack || comms::find(call.comm) == nullptr)
    return 0;  // a tool must see the calls
  return memory::device_runtime_loaded() ? 0 : count * size;
}

// Tries to carry out the call by the layout engine. False if the library has to carry it out.
// `move` is layout::pack_range or layout::unpack_range.
template <class Count, class Move>
bool moved(const PackCall<Count>& call, const layout::Layout& layout, Move move) {
  const std::uint64_t bytes = bytes_of(call, layout);
  if (bytes == 0) return false;
  const layout::Elements elements{
      &layout, static_cast<std::uint64_t>(call.count), layout::address_of(call.memory),
      layout::cache_level_of(bytes, services.node->header().cache_bytes)};
  move(elements, layout::StreamRange{0, bytes},
       static_cast<const char*>(call.stream) + *call.position);
  *call.position += static_cast<Count>(bytes);
  services.counters().bytes_packed.add(bytes);
  return true;
}

constexpr auto kPack = [](const layout::Elements& from, layout::StreamRange range,
                          const char* stream) {
  layout::pack_range(from, range, const_cast<char*>(stream));  // the caller's stream is not const
};
constexpr auto kUnpack = [](const layout::Elements& to, layout::StreamRange range,
                            const char* stream) { layout::unpack_range(to, range, stream); };

// Carries out the call by the layout engine, or else by library(), the MPI library's own MPI_Pack
// or MPI_Unpack.
template <class Count, class Move, class Library>
[[gnu::noinline]] int serve(const PackCall<Count>& call, Move move, Library library) {
  if (!switches.active) return library();
  const PackedLayout known = find_layout(call.type);
  if (!known.known) {
    const int result = library();
    if (result == MPI_SUCCESS) learn_type(call.type);
    return result;
  }
  if (known.layout != nullptr && moved(call, *known.layout, move)) return MPI_SUCCESS;
  leave_type(call.type, known.layout);
  return library();
}

template <class Count>
int pack(const void* memory, Count count, MPI_Datatype type, void* stream, Count room,
         Count* position, MPI_Comm comm) {
  return serve(PackCall<Count>{memory, count, type, stream, room, position, comm}, kPack, [&] {
    return by_count::Pack(next, memory, count, type, stream, room, position, comm);
  });
}
template <class Count>
int unpack(const void* stream, Count room, Count* position, void* memory, Count count,
           MPI_Datatype type, MPI_Comm comm) {
  return serve(PackCall<Count>{memory, count, type, stream, room, position, comm}, kUnpack, [&] {
    return by_count::Unpack(next, stream, room, position, memory, count, type, comm);
  });
}

}  // namespace
}  // namespace packing
}  // namespace mh::mpi

#include "mpi/calls/packing.inc"
