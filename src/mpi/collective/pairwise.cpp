// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/collective/pairwise.hpp"

#include <algorithm>
#include <bitset>
#include <cstring>
#include <vector>

#include "mpi/compat/message.hpp"
#include "mpi/job/config.hpp"
#include "mpi/job/heaps.hpp"
#include "mpi/next.hpp"
#include "mpi/tags.hpp"

namespace mh::mpi::direct {
namespace {

bool is_same(const TypedBlocks& a, const TypedBlocks& b) {
  return a.address == b.address && a.count == b.count && a.type == b.type;
}

// True if the receiver of the block can copy it straight from this rank's buffer, which is in the
// shared heap.
bool moves_mapped(const TypedBlocks& block) {
  return config.heaps_mapped && block.contiguous && block.bytes <= kMostBlockBytes &&
         heaps::contain(block.address, block.bytes);
}

// The pairwise round of one call, as this rank carries it out. A *step* numbers a peer by its
// distance from this rank: peer(step) is the rank `step` above this rank, and behind the last rank
// comes rank 0.
class PairwiseRound {
 public:
  PairwiseRound(Comm& comm, RoundCall call, const PeerBlocks& blocks, const coll::Peers& peers)
      : comm_(comm),
        blocks_(blocks),
        peers_(peers),
        first_step_(first_step(comm, peers)),
        end_step_(first_step_ + static_cast<int>(peers.count(index(comm.rank)))),
        staged_bytes_(staged_bytes()),
        round_(comm, call, staged_bytes_, peers.root),
        table_(is_inline() ? draft_ : round_.stage(), staged_bytes_, index(comm.rank), peers) {}

  int run() {
    publish();
    if (sends_messages_) send_messages();
    move_own();
    receive_blocks();
    for (MPI_Request& request : messages_) note(await_request(&request, MPI_STATUS_IGNORE));
    if (has_readers_) await_readers();
    return code_ == MPI_SUCCESS ? MPI_SUCCESS : raise(comm_.handle, code_);
  }

 private:
  void note(int code) {
    if (code_ == MPI_SUCCESS) code_ = code;
  }
  static std::uint32_t index(int rank) { return static_cast<std::uint32_t>(rank); }
  // The distance in ranks from this rank up to its first peer: 1, or the distance to the root if
  // the root is the only peer.
  static int first_step(const Comm& comm, const coll::Peers& peers) {
    if (!peers.only_root(index(comm.rank))) return 1;
    const int step = static_cast<int>(peers.root) - comm.rank;
    return step > 0 ? step : step + comm.size;
  }
  [[nodiscard]] int peer(int step) const {
    const int rank = comm_.rank + step;  // no division: it takes as long as a short block
    return rank < comm_.size ? rank : rank - comm_.size;
  }
  // The entry of this rank's block table that tells the peer `rank` where its block lies.
  coll::BlockEntry& entry(int rank) { return table_.entry(index(rank)); }
  // The entry that tells this rank where its block lies, in the block table of the peer `rank`.
  // Valid once that peer has published its record of the round.
  [[nodiscard]] const coll::BlockEntry& entry_of(int rank) const {
    return coll::entry_for(index(comm_.rank), index(rank), peers_, round_.staged_by(rank));
  }

  // ---- The blocks that this rank sends ----------------------------------------------------------

  // The length of this rank's staged block, the part of its board for its block table and all
  // blocks that it sends, as far as the board has room. Blocks that do not fit are mapped, or move
  // as messages.
  [[nodiscard]] std::uint64_t staged_bytes() const {
    std::uint64_t bytes = coll::BlockTable::bytes_of(peers_.count(index(comm_.rank)));
    for (int step = first_step_; step < end_step_; ++step)
      bytes += coll::room_of(blocks_.out[peer(step)].bytes);
    return std::min<std::uint64_t>(bytes, coll::kTableBytes + coll::kStagedBytes);
  }

  // A short table lies in this rank's record, whose cache line the peers poll. The table is
  // therefore written elsewhere first, and to the record at once. Each write would otherwise find
  // the line at a peer.
  [[nodiscard]] bool is_inline() const { return staged_bytes_ <= coll::kInlineBytes; }

  void publish() {
    for (int step = first_step_; step < end_step_; ++step) offer(peer(step));
    if (is_inline()) table_.move_inline(round_.stage());
    round_.publish_staged();
  }

  void offer(int to) {
    const TypedBlocks& block = blocks_.out[to];
    coll::BlockEntry& own = entry(to);
    own.expected = blocks_.in[to].bytes;
    own.bytes = block.bytes;
    if (block.bytes == 0) return;
    const coll::Route route = choose_route(block, own.place);
    own.route = route;
    sends_messages_ |= route == coll::Route::library;
    has_readers_ |= route == coll::Route::mapped;
  }

  coll::Route choose_route(const TypedBlocks& block, std::uint64_t& place) {
    if (!is_switched_on()) return coll::Route::library;
    place = stage(block);
    if (place != 0) return coll::Route::staged;
    if (!moves_mapped(block)) return coll::Route::library;
    place = reinterpret_cast<std::uint64_t>(block.address);
    return coll::Route::mapped;
  }

  // Copies a block that this rank sends to the part of its board behind the block table, where the
  // receivers read it. Returns its place (BlockEntry::place), or 0 if the block does not fit or
  // cannot be packed. Peers that get the same block share the staged copy.
  std::uint64_t stage(const TypedBlocks& block) {
    if (staged_ != nullptr && is_same(block, *staged_)) return staged_at_;
    const std::uint64_t place = table_.reserve(block.bytes);
    if (place == 0 || !pack(block, 0, table_.at(place))) return 0;
    staged_ = &block;
    staged_at_ = place;
    return place;
  }

  void send_messages() {
    for (int step = first_step_; step < end_step_; ++step) {
      const int to = peer(step);
      const coll::BlockEntry& own = entry(to);
      if (own.bytes == 0 || own.route != coll::Route::library) continue;
      const TypedBlocks& block = blocks_.out[to];
      MPI_Request request = MPI_REQUEST_NULL;
      note(by_count::Isend(real, block.address, block.count, block.type, node_rank(to), tag(),
                           config.node_comm, &request));
      if (request != MPI_REQUEST_NULL) messages_.push_back(request);
    }
  }

  // Waits until the receivers of this rank's mapped blocks have read them, because the program may
  // then change the send buffer.
  void await_readers() {
    for (int step = first_step_; step < end_step_; ++step) {
      const int to = peer(step);
      const coll::BlockEntry& own = entry(to);
      if (own.bytes == 0 || own.route != coll::Route::mapped) continue;
      if (!round_.has_call(round_.await(to)) || entry_of(to).expected == 0) continue;
      Round::wait_until([&] { return entry_of(to).has_read(); });
    }
  }

  // ---- The blocks that this rank receives -------------------------------------------------------

  void move_own() {
    const TypedBlocks& from = blocks_.out[comm_.rank];
    const TypedBlocks& to = blocks_.in[comm_.rank];
    if (from.bytes != 0 || to.bytes != 0) note(copy_own_block(from, to));
  }

  // Receives first from the peers whose records of the round have come, and then waits for the
  // other peers, so that a late peer delays no block of another peer.
  void receive_blocks() {
    std::bitset<coll::kMostMembers> received;
    for (const bool waits : {false, true}) {
      for (int step = first_step_; step < end_step_; ++step) {
        const int from = peer(step);
        const auto at = static_cast<std::size_t>(from);
        if (received[at] || blocks_.in[from].bytes == 0) continue;
        if (!waits && !round_.has_come(from)) continue;
        receive_from(from);
        received[at] = true;
      }
    }
  }

  void receive_from(int rank) {
    if (!round_.has_call(round_.await(rank))) return note(MPI_ERR_TRUNCATE);
    const coll::BlockEntry& sent = entry_of(rank);
    const TypedBlocks& to = blocks_.in[rank];
    if (sent.bytes == 0) return;
    if (sent.route == coll::Route::library) return receive_message(rank, to);
    note(sent.bytes <= to.bytes ? read(rank, sent, to) : MPI_ERR_TRUNCATE);
    if (sent.route == coll::Route::mapped) entry(rank).note_read();
  }

  // Reads the staged or mapped block of a rank into `to`; returns an MPI code. For a contiguous
  // block, the struct `to` is not copied. Its members were stored one by one just before, and a
  // copy, which loads several members at once, would wait in the processor for these stores.
  [[nodiscard]] int read(int rank, const coll::BlockEntry& sent, const TypedBlocks& to) const {
    const bool staged = sent.route == coll::Route::staged;
    if (!staged && to.contiguous)
      return round_.fetch(to.address, rank, sent.place, sent.bytes) ? MPI_SUCCESS : MPI_ERR_OTHER;
    const std::byte* from = staged ? round_.staged_by(rank) + sent.place
                                   : round_.find(rank, sent.place, sent.bytes, nullptr);
    if (from == nullptr) return MPI_ERR_OTHER;
    if (to.contiguous) {
      std::memcpy(to.address, from, sent.bytes);
      return MPI_SUCCESS;
    }
    TypedBlocks part = to;
    part.bytes = sent.bytes;
    return unpack(part, 0, from) ? MPI_SUCCESS : MPI_ERR_TRUNCATE;
  }

  void receive_message(int rank, const TypedBlocks& to) {
    MPI_Request request = MPI_REQUEST_NULL;
    note(by_count::Irecv(real, to.address, to.count, to.type, node_rank(rank), tag(),
                         config.node_comm, &request));
    if (request != MPI_REQUEST_NULL) messages_.push_back(request);
  }

  // ---- Blocks that move as messages of the MPI library ------------------------------------------

  [[nodiscard]] int node_rank(int rank) const {
    return static_cast<int>(comm_.members[static_cast<std::size_t>(rank)].node_rank);
  }
  [[nodiscard]] int tag() const { return tags::kBlocks[comm_.group]; }

  Comm& comm_;
  const PeerBlocks& blocks_;
  coll::Peers peers_;
  int first_step_;
  int end_step_;
  std::uint64_t staged_bytes_;
  Round round_;
  alignas(coll::BlockEntry) std::byte draft_[coll::kInlineBytes];  // of a short table
  coll::BlockTable table_;
  const TypedBlocks* staged_ = nullptr;  // the last block that was staged, and its place
  std::uint64_t staged_at_ = 0;
  // sends_messages_: a block of this rank moves as a message. has_readers_: a block of this rank is
  // mapped. The block table tells the same, but peers read its cache lines, so a load from it may
  // be slow.
  bool sends_messages_ = false;
  bool has_readers_ = false;
  std::vector<MPI_Request> messages_;  // under way
  int code_ = MPI_SUCCESS;
};

}  // namespace

int exchange_pairwise(Comm& comm, RoundCall call, const PeerBlocks& blocks, std::uint32_t root) {
  const coll::Peers peers{.members = static_cast<std::uint32_t>(comm.size), .root = root};
  return PairwiseRound(comm, call, blocks, peers).run();
}

}  // namespace mh::mpi::direct
