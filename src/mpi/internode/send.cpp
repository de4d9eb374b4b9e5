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

namespace mh::mpi::internode {
namespace {

constexpr std::uint64_t kLeast = 128U << 10U;  // bytes; below nothing is gained
constexpr std::uint32_t kMostSends = tags::kInternodeFins.count;

struct Piece {
  MPI_Request request;
  std::byte* buffer;  // null for the descriptor
};

// A message under way. The sender's thread has it until all is posted, then whoever holds g_mutex.
struct InternodeSend {
  p2p::RtsHeader descriptor{};
  layout::LayoutPtr layout;
  p2p::End from;
  int to = 0;  // in MPI_COMM_WORLD
  int fin_tag = kNoFin;
  MPI_Request completion = MPI_REQUEST_NULL;  // the user's request, for MPI_Cancel
  std::deque<Piece> in_flight;                // in the order of posting
  bool posted = false;                        // all of it
  bool counts_as_done = false;                // the fin is sent, or the blocking call is over
  std::uint64_t last_change = 0;              // tick at which a piece was taken

  // Pieces are taken in order. True if there is none any more.
  bool reap() {
    while (!in_flight.empty()) {
      int flag = 0;
      real.Test(&in_flight.front().request, &flag, MPI_STATUS_IGNORE);
      if (flag == 0) return false;
      if (in_flight.front().buffer != nullptr) piece_buffers.give(in_flight.front().buffer);
      in_flight.pop_front();
      last_change = ticks();
    }
    return true;
  }
};

std::mutex g_mutex;  // guards what follows, and sends that are posted
std::array<std::unique_ptr<InternodeSend>, kMostSends> g_sends;
std::unordered_map<int, std::uint64_t> g_sent;  // messages so far, by receiver
std::set<int> g_avoided;                        // receivers that did not take what was sent
std::atomic<std::uint32_t> g_taken{0};          // sends under way; relaxed, a hint

std::optional<SendId> free_id() {
  for (SendId id = 0; id < kMostSends; ++id) {
    if (g_sends[id] == nullptr) return id;
  }
  return std::nullopt;
}

// With g_mutex.
void release(SendId id) {
  g_sends[id].reset();
  g_taken.fetch_sub(1, std::memory_order_relaxed);
  detached_operations.fetch_sub(1, std::memory_order_relaxed);
}

// With g_mutex. The request of the program completes.
void say_done(InternodeSend& send) {
  send.counts_as_done = true;
  if (send.fin_tag == kNoFin) return;
  send_fin(config.me, send.fin_tag);
}

// With g_mutex: a posted send goes on. True if all of it was taken.
bool advance(InternodeSend& send) {
  const bool over = send.reap();
  if (send.counts_as_done) return over;
  if (!over) {
    if (ticks() - send.last_change < ticks_from_ns(tuning::kInternodePatienceNs)) return false;
    g_avoided.insert(send.to);
  }
  say_done(send);
  return over;
}

// Its rank in MPI_COMM_WORLD, negative if it has none there.
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

void post_piece(InternodeSend& send, const p2p::Load& load) {
  Piece piece{.request = MPI_REQUEST_NULL, .buffer = load.buffer};
  real.Isend(load.buffer, length_of(load.range), MPI_BYTE, send.to, tag_of(send.descriptor),
             config.internode_comm, &piece.request);
  send.in_flight.push_back(piece);
}

// Packs and posts all of it, with the hands that are there.
void post_pieces(InternodeSend& send) {
  const Cut cut{.bytes = send.descriptor.bytes, .piece = send.descriptor.piece};
  p2p::PackPipelines::Use pack_pipeline(*pack_pipelines, send.from, p2p::Task::pack, cut.bytes);
  std::uint64_t offered = 0;
  for (std::uint64_t posted = 0; posted < cut.pieces();) {
    while (offered < cut.pieces() && pack_pipeline->outstanding() < pack_pipeline.enough()) {
      std::byte* buffer = piece_buffers.take();
      if (buffer == nullptr) break;  // one comes back when a piece was taken
      pack_pipeline->offer({.range = cut.range(offered++), .buffer = buffer});
      if (offered == cut.pieces()) pack_pipeline.nothing_more();
    }
    pack_pipeline->work();
    while (const auto load = pack_pipeline->collect()) {
      post_piece(send, *load);
      ++posted;
    }
    send.reap();
  }
}

}  // namespace

bool may_take(const OutgoingMessage& message, MPI_Datatype type, const datatypes::Info& info) {
  if (!config.internode || info.contiguous || message.bytes < std::max(kLeast, config.threshold))
    return false;
  if (!comms::allow_rendezvous()) return false;
  const Comm* comm = comms::find(message.comm);
  return comm != nullptr && comm->is_elsewhere(message.dest) &&
         layouts::of_rendezvous(type) != nullptr;
}

std::optional<SendId> take(const OutgoingMessage& message, MPI_Datatype type,
                           const datatypes::Info& info, int fin_tag, MPI_Request request) {
  if (!may_take(message, type, info)) return std::nullopt;
  const Cut cut{.bytes = message.bytes, .piece = kPiece};
  if (!piece_buffers.allows(cut.pieces())) return std::nullopt;
  layout::LayoutPtr layout = layouts::of(type);
  const int to = world_rank(message.comm, message.dest);
  if (to < 0) return std::nullopt;

  const std::lock_guard<std::mutex> hold(g_mutex);
  const auto id = g_avoided.contains(to) ? std::nullopt : free_id();
  if (!id) return std::nullopt;
  auto send = std::make_unique<InternodeSend>();
  send->to = to;
  send->fin_tag = fin_tag == kOwnFin ? tags::kInternodeFins[*id] : fin_tag;
  send->completion = request;
  send->from = {.layout = layout.get(),
                .count = message.bytes / info.size,
                .base = layout::address_of(message.buffer)};
  send->layout = std::move(layout);
  send->descriptor = {.key = {config.key[0], config.key[1]},
                      .sender = config.me,
                      .slot = *id,
                      .bytes = cut.bytes,
                      .generation = ++g_sent[to],
                      .from_world = static_cast<std::uint32_t>(config.world_rank) + 1,
                      .to_world = static_cast<std::uint32_t>(to) + 1,
                      .piece = cut.piece};
  p2p::seal(send->descriptor);
  g_sends[*id] = std::move(send);
  g_taken.fetch_add(1, std::memory_order_relaxed);
  detached_operations.fetch_add(1, std::memory_order_relaxed);
  return id;
}

int receive_fin(SendId id, MPI_Request* request) {
  InternodeSend& send = *g_sends[id];
  const int code = real.Irecv(nullptr, 0, MPI_BYTE, static_cast<int>(config.me), send.fin_tag,
                              config.node_comm, request);
  const std::lock_guard<std::mutex> hold(g_mutex);
  if (code == MPI_SUCCESS) {
    send.completion = *request;
  } else {
    release(id);
  }
  return code;
}

int send(SendId id, const OutgoingMessage& message) {
  InternodeSend& send = *g_sends[id];
  Piece piece{.request = MPI_REQUEST_NULL, .buffer = nullptr};
  const int code = next.Isend(&send.descriptor, p2p::kRtsBytes, MPI_BYTE, message.dest, message.tag,
                              message.comm, &piece.request);
  if (code == MPI_SUCCESS) {
    send.in_flight.push_back(piece);
    post_pieces(send);
    services.counters().messages_by_rendezvous.add(1);
    services.counters().bytes_by_rendezvous.add(message.bytes);
  }
  const std::lock_guard<std::mutex> hold(g_mutex);
  if (code != MPI_SUCCESS) {
    release(id);
    return code;
  }
  send.layout.reset();
  send.last_change = ticks();
  send.posted = true;
  return code;
}

void await(SendId id) {
  wait::until([&] {
    const std::lock_guard<std::mutex> hold(g_mutex);
    InternodeSend& send = *g_sends[id];
    const bool over = advance(send);
    if (over) release(id);
    // Where the receiver does not take it, progress() goes on with what is left.
    return over || send.counts_as_done;
  });
}

bool keeps(MPI_Request request) {
  if (g_taken.load(std::memory_order_relaxed) == 0) return false;
  const std::lock_guard<std::mutex> hold(g_mutex);
  for (const auto& send : g_sends) {
    if (send == nullptr || send->completion != request || send->fin_tag == kNoFin) continue;
    // Its request is complete, and the handle may be another's by now.
    if (send->counts_as_done) continue;
    // Nothing of the program's is needed any more, so its wait need not depend on the receiver.
    say_done(*send);
    return true;
  }
  return false;
}

void progress_sends() {
  if (g_taken.load(std::memory_order_relaxed) == 0) return;
  const std::unique_lock<std::mutex> hold(g_mutex, std::try_to_lock);
  if (!hold) return;
  for (SendId id = 0; id < kMostSends; ++id) {
    InternodeSend* send = g_sends[id].get();
    // One that a blocking call waits for is looked at, and given back, there.
    if (send == nullptr || !send->posted) continue;
    if (send->fin_tag == kNoFin && !send->counts_as_done) continue;
    if (advance(*send)) release(id);
  }
}

bool any_sends() { return g_taken.load(std::memory_order_relaxed) != 0; }

}  // namespace mh::mpi::internode
