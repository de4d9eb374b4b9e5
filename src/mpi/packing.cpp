// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/packing.hpp"

#include "layout/pack.hpp"
#include "memory/devices.hpp"
#include "mpi/comms.hpp"
#include "mpi/datatypes.hpp"
#include "mpi/runtime.hpp"
#include "mpi/wrappers.hpp"

namespace mh::mpi {
namespace packing {
namespace {

// By type: 0 where its streams are the library's, else the bytes of an element.
HandleCache<> g_sizes;

void learn(MPI_Datatype type) {
  const layout::LayoutPtr layout = layouts::of(type);
  const bool ours = layout != nullptr && !layout->dense() && layout->size() > 0;
  g_sizes.fill(bits_of(type), ours ? layout->size() : 0);
}

// A call as it was made: `room` bytes at `stream`, of which `*position` are behind us.
template <class Count>
struct Call {
  const void* memory;
  Count count;
  MPI_Datatype type;
  const void* stream;
  Count room;
  Count* position;
  MPI_Comm comm;
};

// Bytes to be moved by the engine, 0 if the call is the library's.
template <class Count>
std::uint64_t bytes_of(const Call<Count>& call, std::uint64_t size) {
  if (call.count <= 0 || call.position == nullptr || *call.position < 0) return 0;
  if (call.room < *call.position || call.stream == nullptr) return 0;
  if (call.memory == nullptr || call.memory == MPI_BOTTOM) return 0;
  const auto left = static_cast<std::uint64_t>(call.room - *call.position);
  const auto count = static_cast<std::uint64_t>(call.count);
  if (count > left / size || count * size < kLeastBytes) return 0;
  if (next.Pack != real.Pack || comms::find(call.comm) == nullptr) return 0;  // a tool looks on
  return memory::device_runtime_loaded() ? 0 : count * size;
}

// True if the engine has done it. `move`: layout::pack or layout::unpack.
template <class Count, class Move>
bool moved(const Call<Count>& call, std::uint64_t size, Move move) {
  const std::uint64_t bytes = bytes_of(call, size);
  if (bytes == 0) return false;
  const layout::LayoutPtr layout = layouts::of(call.type);
  if (layout == nullptr) return false;
  const layout::Elements elements{layout.get(), static_cast<std::uint64_t>(call.count),
                                  layout::address_of(call.memory)};
  move(elements, layout::Range{0, bytes}, static_cast<const char*>(call.stream) + *call.position);
  *call.position += static_cast<Count>(bytes);
  g.counters().bytes_packed.add(bytes);
  return true;
}

constexpr auto kPack = [](const layout::Elements& from, layout::Range range, const char* stream) {
  layout::pack(from, range, const_cast<char*>(stream));  // the caller's to write
};
constexpr auto kUnpack = [](const layout::Elements& to, layout::Range range, const char* stream) {
  layout::unpack(to, range, stream);
};

// `library()` makes the call as it was made.
template <class Count, class Move, class Library>
int serve(const Call<Count>& call, Move move, Library library) {
  if (!g.active) return library();
  std::uint64_t size = 0;
  if (g_sizes.find(bits_of(call.type), size)) {
    return size != 0 && moved(call, size, move) ? MPI_SUCCESS : library();
  }
  const int result = library();
  if (result == MPI_SUCCESS) learn(call.type);
  return result;
}

}  // namespace

void forget(MPI_Datatype type) { g_sizes.drop(bits_of(type)); }

}  // namespace packing

namespace wrap {

int Pack(const void* inbuf, int incount, MPI_Datatype datatype, void* outbuf, int outsize,
         int* position, MPI_Comm comm) {
  return packing::serve(
      packing::Call<int>{inbuf, incount, datatype, outbuf, outsize, position, comm}, packing::kPack,
      [&] { return next.Pack(inbuf, incount, datatype, outbuf, outsize, position, comm); });
}
int Pack_c(const void* inbuf, MPI_Count incount, MPI_Datatype datatype, void* outbuf,
           MPI_Count outsize, MPI_Count* position, MPI_Comm comm) {
  return packing::serve(
      packing::Call<MPI_Count>{inbuf, incount, datatype, outbuf, outsize, position, comm},
      packing::kPack,
      [&] { return next.Pack_c(inbuf, incount, datatype, outbuf, outsize, position, comm); });
}
int Unpack(const void* inbuf, int insize, int* position, void* outbuf, int outcount,
           MPI_Datatype datatype, MPI_Comm comm) {
  return packing::serve(
      packing::Call<int>{outbuf, outcount, datatype, inbuf, insize, position, comm},
      packing::kUnpack,
      [&] { return next.Unpack(inbuf, insize, position, outbuf, outcount, datatype, comm); });
}
int Unpack_c(const void* inbuf, MPI_Count insize, MPI_Count* position, void* outbuf,
             MPI_Count outcount, MPI_Datatype datatype, MPI_Comm comm) {
  return packing::serve(
      packing::Call<MPI_Count>{outbuf, outcount, datatype, inbuf, insize, position, comm},
      packing::kUnpack,
      [&] { return next.Unpack_c(inbuf, insize, position, outbuf, outcount, datatype, comm); });
}

}  // namespace wrap
}  // namespace mh::mpi
