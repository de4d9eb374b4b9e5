// SPDX-License-Identifier: BSD-3-Clause
// MPI_Bcast, MPI_Scatter and MPI_Gather as rounds (direct.hpp).
#include <algorithm>
#include <cstring>

#include "mpi/collective/direct.hpp"
#include "mpi/collective/pairwise.hpp"
#include "mpi/collective/round.hpp"
#include "mpi/collective/typed_blocks.hpp"
#include "mpi/compat/message.hpp"
#include "mpi/job/config.hpp"
#include "mpi/next.hpp"

namespace mh::mpi::direct {
namespace {

// ---- MPI_Bcast ----------------------------------------------------------------------------------

// The least bytes of a mapped broadcast, in which the ranks copy from the root's buffer and the
// root waits for them. A shorter broadcast that is not staged is left to the MPI library, in which
// its root does not wait.
constexpr std::uint64_t kLeastMapped = 64U << 10U;

// The root and a leaf (any other rank) of a mapped broadcast copy at the same time: the leaf the
// bytes before this offset, the root the rest. The root copies to one leaf after another, so the
// more ranks there are, the less it copies for each leaf.
std::uint64_t leafs_part(std::uint64_t bytes, const Comm& comm) {
  const std::uint64_t roots = bytes / static_cast<std::uint64_t>(comm.size);
  return bytes - roots / kCacheLine * kCacheLine;
}

CallResult send_mapped(Round& round, const TypedBlocks& data, const Comm& comm) {
  if (!round.publish_mapped(data.address, data.bytes, nullptr, 0)) return std::nullopt;
  const std::uint64_t begin = leafs_part(data.bytes, comm);
  Status done;
  for (int i = 1; i < comm.size; ++i) {
    const int leaf = (comm.rank + i) % comm.size;
    if (!round.has_terms(round.await(leaf)) || round.route_of(leaf) != coll::Route::mapped)
      continue;
    const Status written = round.write(leaf, begin, data.block(0) + begin, data.bytes - begin);
    if (!written) done = written;
  }
  return round.end(done);
}

CallResult send(Round& round, const TypedBlocks& data, const Comm& comm) {
  const bool stages = data.bytes <= coll::kStagedBytes;
  const bool can_send = stages ? pack(data, 0, round.stage()) : data.contiguous;
  if (!can_send || !is_switched_on()) {
    round.publish_library();
    return std::nullopt;
  }
  if (!stages) return send_mapped(round, data, comm);
  round.publish_staged();
  return MPI_SUCCESS;
}

// Receives a broadcast from the root's mapped buffer. If this rank has `published` its own buffer,
// the root copies a part of the data to it, and this rank only the rest.
bool receive_mapped(Round& round, const TypedBlocks& data, const Comm& comm, int root,
                    bool published) {
  if (!data.contiguous) {
    const std::byte* from = round.find(root, round.source_address(root), data.bytes, nullptr);
    return from != nullptr && unpack(data, 0, from);
  }
  const std::uint64_t own = published ? leafs_part(data.bytes, comm) : data.bytes;
  const bool read = round.fetch(data.address, root, round.source_address(root), own).ok();
  if (published) round.await_finished(root);
  return read;
}

CallResult receive(Round& round, const TypedBlocks& data, const Comm& comm, int root) {
  const bool stages = data.bytes <= coll::kStagedBytes;
  bool published = false;
  if (stages || !data.contiguous) {
    round.publish_library();  // this rank sends no data
  } else {
    published = round.publish_mapped(nullptr, 0, data.address, data.bytes);
  }
  const bool agrees = round.has_terms(round.await(root));
  const coll::Route route = round.route_of(root);
  if (route == coll::Route::library) return std::nullopt;
  const bool read =
      agrees && (route == coll::Route::staged ? unpack(data, 0, round.staged_by(root))
                                              : receive_mapped(round, data, comm, root, published));
  round.finish();
  if (!agrees) return raise(comm.handle, MPI_ERR_TRUNCATE);
  return read ? MPI_SUCCESS : raise(comm.handle, MPI_ERR_OTHER);
}

bool is_broadcast_round(std::uint64_t bytes) {
  if (bytes <= coll::kStagedBytes) return bytes != 0;
  return config.heaps_mapped && bytes >= kLeastMapped && bytes <= kMostBlockBytes;
}

// ---- MPI_Scatter and MPI_Gather -----------------------------------------------------------------

// The offset of a rank's block in the data that the root of a scatter stages: the blocks of all
// ranks but the root, one behind the other.
std::uint64_t staged_before(int rank, int root, std::uint64_t bytes) {
  return static_cast<std::uint64_t>(rank - (rank > root ? 1 : 0)) * bytes;
}

bool stage_for_others(Round& round, const TypedBlocks& blocks, const Comm& comm) {
  for (int rank = 0; rank < comm.size; ++rank) {
    if (rank == comm.rank) continue;
    if (!pack(blocks, rank, round.stage() + staged_before(rank, comm.rank, blocks.bytes)))
      return false;
  }
  return true;
}

// Receives the block of this rank, which is not the root, in a scatter.
CallResult receive_block(Round& round, const TypedBlocks& to, const Comm& comm, int root) {
  round.publish_library();  // this rank sends no data
  const bool agrees = round.has_terms(round.await(root));
  if (round.route_of(root) == coll::Route::library) return std::nullopt;
  if (!agrees) return raise(comm.handle, MPI_ERR_TRUNCATE);
  const std::byte* from = round.staged_by(root) + staged_before(comm.rank, root, to.bytes);
  return unpack(to, 0, from) ? MPI_SUCCESS : raise(comm.handle, MPI_ERR_OTHER);
}

// Receives the blocks of a gather at the root. The other ranks do not wait for the root. If their
// bytes or types differ from the root's, which is an error of the program, only the root notices
// it: its call returns MPI_ERR_TRUNCATE.
int receive_blocks(Round& round, const TypedBlocks& to, const Comm& comm) {
  bool agree = true;
  for (int rank = 0; rank < comm.size; ++rank) {
    if (rank == comm.rank) continue;
    agree = round.has_terms(round.await(rank)) && round.route_of(rank) == coll::Route::staged &&
            unpack(to, rank, round.staged_by(rank)) && agree;
  }
  return agree ? MPI_SUCCESS : MPI_ERR_TRUNCATE;
}

// The buffers of a scatter or a gather on this rank: the buffer with blocks for all ranks, which is
// significant at the root only, and the rank's own block.
struct RootedBlocks {
  bool at_root;
  bool in_place;        // MPI_IN_PLACE: the root's own block is in `for_all`
  TypedBlocks for_all;  // at the root; elsewhere the same as `own`
  TypedBlocks own;      // undefined if `in_place`
  bool refused;
};

RootedBlocks rooted_blocks(const Comm& comm, int root, const BlockArgs& for_all,
                           const BlockArgs& own) {
  RootedBlocks found{};
  found.at_root = root == comm.rank;
  found.in_place = found.at_root && own.address == MPI_IN_PLACE;
  if (!found.in_place) found.own = typed_blocks(own);
  found.for_all = found.at_root ? typed_blocks(for_all) : found.own;
  found.refused = !is_rank(comm, root) || found.for_all.is_refused();
  if (found.refused || found.in_place) return found;
  found.refused = found.own.is_refused() ||
                  (found.at_root && !accepts_alias(found.own, found.for_all.only(root)));
  return found;
}

// Carries out a gather or a scatter of long blocks as a pairwise round: the root exchanges with
// each rank the block of that rank, apart from all others.
CallResult move_long(RoundCall call, const RootedBlocks& blocks, Comm& comm, int root) {
  if (!can_be_pairwise(comm)) return std::nullopt;
  PeerBlocks pairs;
  pairs.empty_used_blocks(comm, root);
  const bool scatters = call == RoundCall::scatter;
  TypedBlocks* const of_root = scatters ? pairs.out : pairs.in;
  for (int rank = 0; blocks.at_root && rank < comm.size; ++rank)
    of_root[rank] = blocks.for_all.only(rank);
  (scatters ? pairs.in : pairs.out)[root] = blocks.own;
  if (blocks.in_place) of_root[root] = {};
  return exchange_pairwise(comm, call, pairs, static_cast<std::uint32_t>(root));
}

}  // namespace

CallResult bcast(void* address, MPI_Count count, MPI_Datatype type, int root, MPI_Comm handle) {
  Comm* comm = comm_with_boards(handle);
  if (comm == nullptr) return std::nullopt;
  const TypedBlocks data = typed_blocks({address, count, type});
  if (!is_rank(*comm, root) || data.is_refused()) return CallResult::refused();
  if (!is_broadcast_round(data.bytes)) return std::nullopt;
  Round round(*comm, RoundCall::bcast, data.bytes, static_cast<std::uint32_t>(root));
  return root == comm->rank ? send(round, data, *comm) : receive(round, data, *comm, root);
}

CallResult scatter(const void* in, MPI_Count in_count, MPI_Datatype in_type, void* out,
                   MPI_Count out_count, MPI_Datatype out_type, int root, MPI_Comm handle) {
  Comm* comm = comm_with_boards(handle);
  if (comm == nullptr) return std::nullopt;
  const RootedBlocks blocks =
      rooted_blocks(*comm, root, {in, in_count, in_type}, {out, out_count, out_type});
  if (blocks.refused) return CallResult::refused();
  const TypedBlocks& from = blocks.for_all;
  const std::uint64_t staged = from.bytes * static_cast<std::uint64_t>(comm->size - 1);
  if (from.bytes == 0) return std::nullopt;
  if (staged > coll::kStagedBytes) return move_long(RoundCall::scatter, blocks, *comm, root);
  Round round(*comm, RoundCall::scatter, staged, static_cast<std::uint32_t>(root));
  if (!blocks.at_root) return receive_block(round, blocks.own, *comm, root);
  if (!is_switched_on() || !stage_for_others(round, from, *comm)) {
    round.publish_library();
    return std::nullopt;
  }
  round.publish_staged();
  const int copied = blocks.in_place ? MPI_SUCCESS : copy_own_block(from.only(root), blocks.own);
  return copied == MPI_SUCCESS ? MPI_SUCCESS : raise(handle, copied);
}

CallResult gather(const void* in, MPI_Count in_count, MPI_Datatype in_type, void* out,
                  MPI_Count out_count, MPI_Datatype out_type, int root, MPI_Comm handle) {
  Comm* comm = comm_with_boards(handle);
  if (comm == nullptr) return std::nullopt;
  const RootedBlocks blocks =
      rooted_blocks(*comm, root, {out, out_count, out_type}, {in, in_count, in_type});
  if (blocks.refused) return CallResult::refused();
  const TypedBlocks& to = blocks.for_all;
  if (to.bytes == 0) return std::nullopt;
  if (!is_staged(to.bytes, *comm)) return move_long(RoundCall::gather, blocks, *comm, root);
  Round round(*comm, RoundCall::gather, to.bytes, static_cast<std::uint32_t>(root));
  if (blocks.at_root) {
    round.publish_library();  // the root sends no data
    int code = blocks.in_place ? MPI_SUCCESS : copy_own_block(blocks.own, to.only(root));
    const int received = receive_blocks(round, to, *comm);
    if (code == MPI_SUCCESS) code = received;
    return code == MPI_SUCCESS ? MPI_SUCCESS : raise(handle, code);
  }
  const bool packed = pack(blocks.own, 0, round.stage());
  packed ? round.publish_staged() : round.publish_library();
  return packed ? MPI_SUCCESS : raise(handle, MPI_ERR_TYPE);
}

}  // namespace mh::mpi::direct
