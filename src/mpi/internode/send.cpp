// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/internode/send.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/clock.hpp"
#include "base/tuning.hpp"
#include "mpi/internode/pieces.hpp"
#include "mpi/job/comms.hpp"
#include "mpi/job/config.hpp"
#include "mpi/job/services.hpp"
#include "mpi/job/switches.hpp"
#include "mpi/next.hpp"
#include "mpi/tags.hpp"
#include "observe/trace.hpp"

namespace mh::mpi::internode {
namespace {

// The least bytes of a message that goes by internode pipeline: shorter messages do not become
// faster in pieces.
constexpr std::uint64_t kLeast = 128U << 10U;
constexpr std::uint32_t kMostSends = tags::kInternodeFins.count;

struct SentPiece {
  MPI_Request request;
  std::byte* buffer;  // null for the RTS header
};

// A send by internode pipeline. Until `posted` is true, only the thread that sends the message uses
// the object; afterwards only a thread that holds g_sends.mutex.
struct InternodeSend {
  p2p::RtsHeader header{};
  layout::LayoutPtr layout;
  p2p::End from;
  int to = 0;  // in MPI_COMM_WORLD
  int fin_tag = kNoFin;
  MPI_Request completion = MPI_REQUEST_NULL;  // the program's request, for MPI_Cancel
  std::deque<SentPiece> in_flight;            // in the order of posting
  bool posted = false;                        // the header and every piece have been sent
  bool counts_as_done = false;                // the FIN is sent, or the blocking call is over
  std::uint64_t last_change = 0;              // tick at which the library last completed a piece

  // Tests the sends of the RTS header and the pieces in order, and releases the buffers of those
  // that are complete. True if none is left.
  bool release_sent() {
    while (!in_flight.empty()) {
      int flag = 0;
      real.Test(&in_flight.front().request, &flag, MPI_STATUS_IGNORE);
      if (flag == 0) return false;
      if (in_flight.front().buffer != nullptr) piece_buffers.release(in_flight.front().buffer);
      in_flight.pop_front();
      last_change = ticks();
    }
    return true;
  }
};

struct InternodeSends {
  std::mutex mutex;  // guards the members below, and sends that are posted
  std::array<std::unique_ptr<InternodeSend>, kMostSends> by_id;
  std::unordered_map<int, std::uint64_t> message_counts;  // by receiver, rank in MPI_COMM_WORLD
  std::set<int> avoided;                // receivers that did not receive a message in time
  std::atomic<std::uint32_t> count{0};  // of sends under way; relaxed, a hint
};
InternodeSends g_sends;

// The functions from free_id() to advance() are called with g_sends.mutex locked. free_id() returns
// the index of a send that is not in use; nothing if all are in use.
std::optional<SendId> free_id() {
  for (SendId id = 0; id < kMostSends; ++id) {
    if (g_sends.by_id[id] == nullptr) return id;
  }
  return std::nullopt;
}

void release_send(SendId id) {
  g_sends.by_id[id].reset();
  g_sends.count.fetch_sub(1, std::memory_order_relaxed);
  detached_operations.fetch_sub(1, std::memory_order_relaxed);
}

// Completes the send for the program, whose request is the receive of a FIN: this rank sends itself
// that FIN. A blocking send has no FIN and reads `counts_as_done`.
void complete_send(InternodeSend& send) {
  send.counts_as_done = true;
  if (send.fin_tag == kNoFin) return;
  send_fin(config.me, send.fin_tag);
}

// Advances a posted send. After tuning::kInternodePatienceNs without a piece that the receiver has
// received, the send counts as done. True if the MPI library has completed the sends of all pieces.
bool advance(InternodeSend& send) {
  const bool over = send.release_sent();
  if (send.counts_as_done) return over;
  if (!over) {
    if (ticks() - send.last_change < ticks_from_ns(tuning::kInternodePatienceNs)) return false;
    g_sends.avoided.insert(send.to);
  }
  complete_send(send);
  return over;
}

// The rank in MPI_COMM_WORLD of a rank of `comm`; negative if that process is not in
// MPI_COMM_WORLD.
int world_rank(MPI_Comm comm, int rank) {
  MPI_Group group{};
  MPI_Group world{};
  real.Comm_group(comm, &group);
  real.Comm_group(MPI_COMM_WORLD, &world);
  int found = MPI_UNDEFINED;
  real.Group_translate_ranks(group, 1, &rank, world, &found);
  real.Group_free(&group);
  real.Group_free(&world);
  return found == MPI_UNDEFINED ? -1 : found;
}

void post_piece(InternodeSend& send, const p2p::PackedChunk& chunk) {
  SentPiece piece{.request = MPI_REQUEST_NULL, .buffer = chunk.buffer};
  real.Isend(chunk.buffer, length_of(chunk.range), MPI_BYTE, send.to, tag_of(send.header),
             config.internode_comm, &piece.request);
  send.in_flight.push_back(piece);
}

// Packs all pieces of the message, with helpers on lent cores, and posts the send of each piece
// once it is packed.
void post_pieces(InternodeSend& send) {
  const PieceSplit split{.bytes = send.header.bytes, .piece = send.header.piece};
  p2p::PackPipelines::Use pack_pipeline(*pack_pipelines, send.from, p2p::PackKind::pack,
                                        split.bytes);
  std::uint64_t offered = 0;
  for (std::uint64_t posted = 0; posted < split.pieces();) {
    while (offered < split.pieces() && pack_pipeline->outstanding() < pack_pipeline.enough()) {
      std::byte* buffer = piece_buffers.acquire();
      if (buffer == nullptr) break;  // no buffer is free until the receiver gets a piece
      pack_pipeline->offer({.range = split.range(offered++), .buffer = buffer});
      if (offered == split.pieces()) pack_pipeline.nothing_more();
    }
    pack_pipeline->work();
    while (const auto chunk = pack_pipeline->collect()) {
      post_piece(send, *chunk);
      ++posted;
    }
    send.release_sent();
  }
}

}  // namespace

bool may_use_pipeline(const OutgoingMessage& message, MPI_Datatype type,
                      const datatypes::Info& info) {
  if (!config.internode || info.contiguous ||
      message.bytes < std::max(kLeast, config.least_threshold))
    return false;
  if (!comms::allow_rendezvous()) return false;
  const Comm* comm = comms::find(message.comm);
  return comm != nullptr && comm->is_elsewhere(message.dest) &&
         layouts::of_rendezvous(type) != nullptr;
}

std::optional<SendId> reserve_send(const OutgoingMessage& message, MPI_Datatype type,
                                   const datatypes::Info& info, int fin_tag, MPI_Request request) {
  if (!may_use_pipeline(message, type, info)) return std::nullopt;
  const PieceSplit split{.bytes = message.bytes, .piece = kPiece};
  if (!piece_buffers.has_room_for(split.pieces())) return std::nullopt;
  layout::LayoutPtr layout = layouts::of(type);
  const int to = world_rank(message.comm, message.dest);
  if (to < 0) return std::nullopt;

  const std::lock_guard<std::mutex> hold(g_sends.mutex);
  const auto id = g_sends.avoided.contains(to) ? std::nullopt : free_id();
  if (!id) return std::nullopt;
  auto send = std::make_unique<InternodeSend>();
  send->to = to;
  send->fin_tag = fin_tag == kOwnFin ? tags::kInternodeFins[*id] : fin_tag;
  send->completion = request;
  send->from = {.layout = layout.get(),
                .count = message.bytes / info.size,
                .base = layout::address_of(message.buffer)};
  send->layout = std::move(layout);
  send->header = {.key = {config.key[0], config.key[1]},
                  .sender = config.me,
                  .slot = *id,
                  .bytes = split.bytes,
                  .generation = ++g_sends.message_counts[to],
                  .from_world = static_cast<std::uint32_t>(config.world_rank) + 1,
                  .to_world = static_cast<std::uint32_t>(to) + 1,
                  .piece = split.piece};
  p2p::seal(send->header);
  g_sends.by_id[*id] = std::move(send);
  g_sends.count.fetch_add(1, std::memory_order_relaxed);
  detached_operations.fetch_add(1, std::memory_order_relaxed);
  return id;
}

int receive_fin(SendId id, MPI_Request* request) {
  InternodeSend& send = *g_sends.by_id[id];
  const int code = real.Irecv(nullptr, 0, MPI_BYTE, static_cast<int>(config.me), send.fin_tag,
                              config.node_comm, request);
  const std::lock_guard<std::mutex> hold(g_sends.mutex);
  if (code == MPI_SUCCESS) {
    send.completion = *request;
  } else {
    release_send(id);
  }
  return code;
}

int start_send(SendId id, const OutgoingMessage& message) {
  InternodeSend& send = *g_sends.by_id[id];
  SentPiece header{.request = MPI_REQUEST_NULL, .buffer = nullptr};
  const int code = next.Isend(&send.header, p2p::kRtsBytes, MPI_BYTE, message.dest, message.tag,
                              message.comm, &header.request);
  if (code == MPI_SUCCESS) {
    send.in_flight.push_back(header);
    post_pieces(send);
    services.counters().messages_by_rendezvous.add(1);
    services.counters().bytes_by_rendezvous.add(message.bytes);
    if (observe::trace() != nullptr) {
      observe::add_to_trace({.begin = ticks(),
                             .bytes = message.bytes,
                             .peer = static_cast<std::uint32_t>(send.to),
                             .kind = observe::EventKind::sent});
    }
  }
  const std::lock_guard<std::mutex> hold(g_sends.mutex);
  if (code != MPI_SUCCESS) {
    release_send(id);
    return code;
  }
  send.layout.reset();
  send.last_change = ticks();
  send.posted = true;
  return code;
}

void await_send(SendId id) {
  wait::until([&] {
    const std::lock_guard<std::mutex> hold(g_sends.mutex);
    InternodeSend& send = *g_sends.by_id[id];
    const bool over = advance(send);
    if (over) release_send(id);
    // The wait also ends if the receiver has received no piece for too long (advance()). In that
    // case progress_sends() later releases the buffers and the send.
    return over || send.counts_as_done;
  });
}

bool complete_instead_of_cancel(MPI_Request request) {
  if (!any_sends()) return false;
  const std::lock_guard<std::mutex> hold(g_sends.mutex);
  for (const auto& send : g_sends.by_id) {
    if (send == nullptr || send->completion != request || send->fin_tag == kNoFin) continue;
    // The FIN of a send that counts as done has been sent, so the program's request may be
    // complete, and `request` may be the same handle of another request.
    if (send->counts_as_done) continue;
    // The pieces are copies of the send buffer, so the program's request may complete before the
    // pieces are received.
    complete_send(*send);
    return true;
  }
  return false;
}

void progress_sends() {
  if (!any_sends()) return;
  const std::unique_lock<std::mutex> hold(g_sends.mutex, std::try_to_lock);
  if (!hold) return;
  for (SendId id = 0; id < kMostSends; ++id) {
    InternodeSend* send = g_sends.by_id[id].get();
    // The send that a blocking call waits for is not advanced here: await_send() advances and
    // releases it.
    if (send == nullptr || !send->posted) continue;
    if (send->fin_tag == kNoFin && !send->counts_as_done) continue;
    if (advance(*send)) release_send(id);
  }
}

bool any_sends() { return g_sends.count.load(std::memory_order_relaxed) != 0; }

}  // namespace mh::mpi::internode
