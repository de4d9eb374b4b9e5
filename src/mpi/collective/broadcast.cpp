// SPDX-License-Identifier: BSD-3-Clause
// MPI_Bcast as a round (direct.hpp): the root decides, and the others follow its record.
#include <cstring>

#include "layout/pack.hpp"
#include "mpi/collective/direct.hpp"
#include "mpi/collective/round.hpp"
#include "mpi/compat/message.hpp"
#include "mpi/datatype/layouts.hpp"
#include "mpi/job/config.hpp"
#include "mpi/next.hpp"

namespace mh::mpi::direct {
namespace {

// Bytes of a mapped broadcast. The root of a shorter one would have to wait for readers, as it need
// not in the library. MPI_Unpack takes no more bytes than an int counts.
constexpr std::uint64_t kLeastMapped = 64U << 10U;
constexpr std::uint64_t kMostMapped = 1U << 30U;

struct Buffer {
  void* address;
  MPI_Count count;
  MPI_Datatype type;
  std::uint64_t bytes;
  bool contiguous;
};

// Packs at most kStagedBytes.
bool pack(const Buffer& from, std::byte* to) {
  if (from.contiguous) {
    std::memcpy(to, from.address, from.bytes);
    return true;
  }
  int position = 0;
  return real.Pack(from.address, static_cast<int>(from.count), from.type, to,
                   static_cast<int>(from.bytes), &position, config.self_comm) == MPI_SUCCESS;
}

bool unpack(const Buffer& to, const std::byte* from) {
  if (const layout::LayoutPtr layout = layouts::of(to.type)) {
    const layout::Elements elements{.layout = layout.get(),
                                    .count = static_cast<std::uint64_t>(to.count),
                                    .base = layout::address_of(to.address)};
    return layout::unpack_range(elements, {0, to.bytes}, from) == to.bytes;
  }
  int position = 0;
  return real.Unpack(from, static_cast<int>(to.bytes), &position, to.address,
                     static_cast<int>(to.count), to.type, config.self_comm) == MPI_SUCCESS;
}

CallResult send(Round& round, const Buffer& buffer) {
  const bool stages = buffer.bytes <= coll::kStagedBytes;
  const bool can_send = stages ? pack(buffer, round.stage()) : buffer.contiguous;
  if (!can_send || !is_switched_on()) {
    round.publish_library();
    return std::nullopt;
  }
  if (stages) {
    round.publish_staged();
    return MPI_SUCCESS;
  }
  if (!round.publish_mapped(buffer.address, buffer.bytes, nullptr, 0)) return std::nullopt;
  round.finish();
  round.await_all_finished();
  return MPI_SUCCESS;
}

bool read_mapped(Round& round, const Buffer& buffer, int root) {
  if (buffer.contiguous) return round.fetch(buffer.address, root, 0, buffer.bytes).ok();
  const std::byte* from = round.source_of(root, 0, buffer.bytes, nullptr);
  return from != nullptr && unpack(buffer, from);
}

bool read_staged(const Round& round, const Buffer& buffer, int root) {
  if (!buffer.contiguous) return unpack(buffer, round.staged_by(root));
  std::memcpy(buffer.address, round.staged_by(root), buffer.bytes);
  return true;
}

CallResult receive(Round& round, const Buffer& buffer, int root, MPI_Comm handle) {
  round.publish_library();  // has no data
  const coll::Record& record = round.await(root);
  const coll::Way way = round.way_of(root);
  if (way == coll::Way::library) return std::nullopt;
  const bool agrees = round.has_terms(record);
  const bool read = agrees && (way == coll::Way::staged ? read_staged(round, buffer, root)
                                                        : read_mapped(round, buffer, root));
  round.finish();
  if (!agrees) return raise(handle, MPI_ERR_TRUNCATE);
  return read ? MPI_SUCCESS : raise(handle, MPI_ERR_OTHER);
}

bool is_round(std::uint64_t bytes) {
  if (bytes <= coll::kStagedBytes) return bytes >= kLeastRooted;
  return config.heaps_mapped && bytes >= kLeastMapped && bytes <= kMostMapped;
}

}  // namespace

CallResult detail::bcast(void* address, MPI_Count count, MPI_Datatype type, int root,
                         MPI_Comm handle) {
  Comm* comm = comm_with_seat(handle);
  if (comm == nullptr || count <= 0 || type == MPI_DATATYPE_NULL || root < 0 || root >= comm->size) return std::nullopt;
  const datatypes::Info info = datatypes::info(type);
  const Buffer buffer{.address = address,
                      .count = count,
                      .type = type,
                      .bytes = info.size * static_cast<std::uint64_t>(count),
                      .contiguous = info.contiguous};
  if (!is_round(buffer.bytes) || (address == nullptr && info.contiguous)) return std::nullopt;
  Round round(*comm, Call::bcast, buffer.bytes, static_cast<std::uint32_t>(root));
  return root == comm->rank ? send(round, buffer) : receive(round, buffer, root, handle);
}

}  // namespace mh::mpi::direct
