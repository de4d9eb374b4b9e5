// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/rndv/copy.hpp"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <optional>

#include "base/clock.hpp"
#include "base/emulated.hpp"
#include "layout/pack.hpp"
#include "mpi/compat/message.hpp"
#include "mpi/job/config.hpp"
#include "mpi/job/heaps.hpp"
#include "mpi/job/switches.hpp"
#include "mpi/job/thief_watch.hpp"
#include "mpi/next.hpp"
#include "mpi/tags.hpp"
#include "wait/wait.hpp"

namespace mh::mpi::rndv {
namespace {

using observe::MessagePath;

// A message is moved in pieces of this many bytes by a resend, and by a copy through memory of this
// process (copy_in_pieces()). Neither then needs memory for the whole message.
constexpr std::uint64_t kPiece = 1U << 20U;

// A message that this rank receives and whose send it has taken (send_table.hpp), and the
// destination of its first `bytes` bytes.
struct TakenMessage {
  p2p::SendSlot& send;
  std::uint32_t sender;  // rank on the node
  std::uint32_t slot;    // of the sender's send table
  p2p::End to;
  std::uint64_t bytes;
  steal::CopyOrder order;
};

// Memory for one piece, kPiece bytes of a message. If the allocation fails, the threads of the
// process use `spare` in turn.
class PieceBuffer {
 public:
  PieceBuffer() {
    while (own_ == nullptr) {
      own_.reset(new (std::nothrow) std::byte[kPiece]);
      // acquire: pairs with the release in the destructor, in which another thread gives `spare`
      // back.
      if (own_ == nullptr && !spare_taken.test_and_set(std::memory_order_acquire)) return;
      if (own_ == nullptr) ::sched_yield();
    }
  }
  ~PieceBuffer() {
    if (own_ == nullptr) spare_taken.clear(std::memory_order_release);
  }
  PieceBuffer(const PieceBuffer&) = delete;
  PieceBuffer& operator=(const PieceBuffer&) = delete;

  [[nodiscard]] std::byte* data() const { return own_ != nullptr ? own_.get() : spare; }

 private:
  static inline std::byte spare[kPiece];  // costs no page until it is used
  static inline std::atomic_flag spare_taken = ATOMIC_FLAG_INIT;

  std::unique_ptr<std::byte[]> own_;
};

// Receives the message through the MPI library after a failed copy. At this rank's request, the
// sender's wait loop sends the whole message, even if the receive buffer is shorter. The send
// buffer is contiguous, because copies from a send buffer with gaps do not fail. Returns the
// library's code.
int receive_by_library(const TakenMessage& message) {
  const p2p::End& to = message.to;
  p2p::SendSlot& send = message.send;
  send.change(p2p::SlotState::resend);
  services.area(message.sender).send_table.resends.fetch_add(1, std::memory_order_release);
  services.counters().resends.add(1);
  std::optional<PieceBuffer> buffer;
  for (std::uint64_t offset = 0; offset < send.bytes; offset += kPiece) {
    const std::uint64_t piece = std::min(kPiece, send.bytes - offset);
    const bool straight = to.layout == nullptr && offset + piece <= message.bytes;
    if (!straight && !buffer) buffer.emplace();
    void* into = straight ? p2p::place_in(to, offset) : buffer->data();
    MPI_Request request = MPI_REQUEST_NULL;
    int code = real.Irecv(into, static_cast<int>(piece), MPI_BYTE, static_cast<int>(message.sender),
                          tags::kResends[message.slot], config.node_comm, &request);
    if (code == MPI_SUCCESS) code = wait_request(&request, MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS) return code;
    if (!straight && offset < message.bytes) {
      p2p::unpack(to, {offset, std::min(offset + piece, message.bytes)}, buffer->data());
    }
  }
  return MPI_SUCCESS;
}

// True if the message is contiguous in the send buffer and this process can read it from there.
bool is_readable(const p2p::SendSlot& send) {
  if (send.contiguous == 0) return false;
  return config.single_copy || services.memory->here(send.from, send.bytes) != nullptr;
}

// Copies all bytes of `work` by this thread alone, without a job.
bool copy_alone(const steal::CopySpec& work, const steal::Shapes* shapes) {
  if (work.shaped)
    return thief().copy_shaped(work, *shapes, {.offset = 0, .bytes = work.bytes}).ok();
  const auto level = layout::cache_level_of(work.bytes, services.node->header().cache_bytes);
  return services.memory->copy(work.to, work.from, work.bytes, {}, level).ok();
}

bool all_ranks_map(const memory::View& view, std::uint64_t bytes) {
  if (!config.heaps_mapped) return false;
  return view.rank == config.me ? heaps::contain(reinterpret_cast<const void*>(view.address), bytes)
                                : services.memory->here(view, bytes) != nullptr;
}

// Opens a job in one of this rank's job slots, and tells the sender by changing the state of its
// send to `moving`, so that the sender may claim chunks. Null if all job slots are in use.
// `mapped`: all ranks of the node map both ends. `first`: receives this rank's first chunk.
steal::Job* open_job(const steal::CopySpec& work, const ChunkedCopy& copy, bool mapped,
                     steal::Chunk& first) {
  const std::uint64_t least = mapped ? config.mapped_help_threshold : config.help_threshold;
  const auto visibility =
      work.bytes >= least ? steal::JobVisibility::node : steal::JobVisibility::sender;
  steal::Job* job = services.keeper->open(work, copy.shapes, visibility, &first);
  if (job == nullptr || copy.send == nullptr) return job;
  emulated::match();
  // relaxed: the number of the job slot is published by the release in change(), so a sender that
  // acquires the state `moving` sees it.
  const steal::Job* jobs = services.area(config.me).jobs.jobs;
  copy.send->job.store(static_cast<std::uint64_t>(job - jobs), std::memory_order_relaxed);
  copy.send->change(p2p::SlotState::moving);
  return job;
}

steal::CopySpec work_of(const ChunkedCopy& copy, bool mapped) {
  steal::CopySpec work{.to = copy.to,
                       .from = copy.from,
                       .bytes = copy.bytes,
                       .chunk_bytes = services.chunking->chunk_for(copy.bytes),
                       .order = copy.order,
                       .shaped = copy.shapes != nullptr};
  if (mapped && config.ranks > 2 && copy.bytes >= config.mapped_help_threshold) {
    work.chunk_bytes = steal::guided_chunk(work.chunk_bytes);
    work.guided = true;
  }
  if (!mapped && config.ranks > 2) work.region_chunks = steal::kPageRegion / work.chunk_bytes;
  return work;
}

bool all_ranks_map(const memory::View& view, const layout::Compact& shape) {
  return all_ranks_map(view.at(static_cast<std::uint64_t>(shape.low)), shape.reach());
}

// Copies data with gaps straight from the send buffer to the receive buffer, as a job whose chunks
// other ranks may claim. False if the data in the send or the receive buffer do not form a single
// grid (layout/compact.hpp), if not all ranks map both buffers, or if the copy failed.
bool copy_by_shapes(const TakenMessage& message) {
  p2p::SendSlot& send = message.send;
  const p2p::End& to = message.to;
  if (!config.heaps_mapped || (send.contiguous == 0 && send.shaped == 0)) return false;
  const auto target = to.layout != nullptr ? layout::compact_of(*to.layout, to.count)
                                           : layout::compact_of_bytes(message.bytes);
  if (!target) return false;
  const steal::Shapes shapes{
      .to = *target,
      .from = send.contiguous != 0 ? layout::compact_of_bytes(send.bytes)
                                   : services.area(message.sender).send_table.shapes[message.slot]};
  const memory::View there = view_of(to.base, config.me);
  if (!all_ranks_map(there, shapes.to) || !all_ranks_map(send.from, shapes.from)) return false;
  return copy_in_chunks({.to = there,
                         .from = send.from,
                         .bytes = message.bytes,
                         .order = message.order,
                         .send = &send,
                         .shapes = &shapes})
      .has_value();
}

// Copies through a pipeline of cells: threads of the sender's process fill cells, threads of this
// process drain them. Waits for a free pipeline if other messages use all of this rank's pipelines.
bool copy_by_pipeline(const TakenMessage& message) {
  p2p::PipelineEngine& engine = *services.pipeline_engine;
  p2p::SendSlot& send = message.send;
  static_cast<void>(engine.let_helpers_in());  // starts this process's helpers if there are none
  std::optional<std::uint32_t> pipeline;
  wait::until([&] {
    pipeline = engine.begin(send, message.sender, message.to, message.bytes, message.order);
    return pipeline.has_value();
  });
  const bool readable = is_readable(send);
  wait::until([&] {
    if (!engine.drain(*pipeline) && readable) engine.fetch(*pipeline, send.from);
    return engine.over(*pipeline);
  });
  return engine.finish(*pipeline);
}

// Copies a contiguous message to a receive buffer with gaps: each piece is copied to memory of this
// process, from which this thread unpacks it. Used where the ranks use no pipelines.
std::optional<MessagePath> copy_in_pieces(const TakenMessage& message) {
  const PieceBuffer buffer;
  const memory::View room = view_of(buffer.data(), config.me);
  const std::uint64_t pieces = (message.bytes + kPiece - 1) / kPiece;
  std::optional<MessagePath> path;
  for (std::uint64_t index = 0; index < pieces; ++index) {
    const std::uint64_t offset = steal::chunk_position(index, pieces, message.order) * kPiece;
    const std::uint64_t piece = std::min(kPiece, message.bytes - offset);
    const memory::View from = message.send.from.at(offset);
    path = copy_in_chunks({.to = room, .from = from, .bytes = piece, .order = message.order});
    if (!path) return path;
    p2p::unpack(message.to, {offset, offset + piece}, buffer.data());
  }
  return path;
}

// Copies a message that has gaps in the send buffer or the receive buffer, or that this process
// cannot read from the send buffer (`readable` is false). Returns by which way the bytes went;
// nothing if the copy failed.
std::optional<MessagePath> copy_scattered(const TakenMessage& message, bool readable) {
  if (copy_by_shapes(message)) return MessagePath::mapped;
  const bool in_pieces = readable && !config.pipelines;
  if (in_pieces) {
    if (const auto path = copy_in_pieces(message)) return path;
  }
  if (config.pipelines && copy_by_pipeline(message)) return MessagePath::cells;
  return std::nullopt;
}

}  // namespace

std::optional<MessagePath> copy_in_chunks(const ChunkedCopy& copy) {
  const bool mapped = copy.shapes != nullptr ||
                      (all_ranks_map(copy.to, copy.bytes) && all_ranks_map(copy.from, copy.bytes));
  const MessagePath path = mapped ? MessagePath::mapped : MessagePath::kernel;
  const steal::CopySpec work = work_of(copy, mapped);
  const bool others_can_copy = work.bytes > 0 && (mapped || config.single_copy);
  steal::Chunk first{};
  steal::Job* job = others_can_copy ? open_job(work, copy, mapped, first) : nullptr;
  if (job == nullptr) return copy_alone(work, copy.shapes) ? std::optional(path) : std::nullopt;
  thief().copy_claimed(*job, config.me, first);
  services.keeper->show_more(*job);
  ThiefWatch watch;
  bool abandoned = false;  // true if only dead processes hold the chunks that are not copied
  wait::until([&] {
    if (thief().claim_and_copy(*job, config.me)) {
      services.keeper->show_more(*job);
      return job->finished();
    }
    services.keeper->hide(*job);
    abandoned = watch.left_to_the_dead();
    return abandoned || job->finished();
  });
  const bool copied = !abandoned && !job->failed();
  services.keeper->close(*job);
  return copied || (abandoned && copy_alone(work, copy.shapes)) ? std::optional(path)
                                                                : std::nullopt;
}

void release_sender(p2p::SendSlot& slot, std::uint32_t sender) {
  const std::uint32_t fin_tag = slot.fin_tag;  // read before the sender may free the slot
  // release: pairs with the sender's acquire in SendSlot::state() and is_done(). Therefore this
  // rank, and the threads that have claimed chunks of its job, have read the send buffer before the
  // sender's program writes to it again.
  slot.change(p2p::SlotState::done);
  if (fin_tag != p2p::kNoFin) send_fin(sender, static_cast<int>(fin_tag));
}

Delivery copy_taken(const PostedSend& send, const ReceiveBuffer& buffer) {
  const Delivery delivery = delivery_of(send.fields.bytes, buffer);
  const CopyTarget target(buffer, delivery.bytes);
  if (target.lacks_memory()) return kNoMemory;
  const std::uint64_t begin = observe::trace() != nullptr ? ticks() : 0;
  const TakenMessage message{.send = send.table_slot(),
                             .sender = send.sender,
                             .slot = send.slot,
                             .to = target.end(),
                             .bytes = delivery.bytes,
                             .order = buffer.comm != nullptr ? buffer.comm->order : config.order};
  const bool readable = is_readable(message.send);
  const auto path = readable && message.to.layout == nullptr
                        ? copy_in_chunks({.to = view_of(message.to.base, config.me),
                                          .from = message.send.from,
                                          .bytes = message.bytes,
                                          .order = message.order,
                                          .send = &message.send})
                        : copy_scattered(message, readable);
  if (config.heaps_mapped && path != MessagePath::mapped)
    services.counters().bytes_outside_heap.add(message.bytes);
  const int code = path ? MPI_SUCCESS : receive_by_library(message);
  trace_copied(begin, message.bytes, message.sender, path.value_or(MessagePath::library));
  if (code != MPI_SUCCESS) return {.bytes = 0, .code = code};
  target.unpack();
  return delivery;
}

void trace_copied(std::uint64_t begin, std::uint64_t bytes, std::uint32_t other, MessagePath path) {
  if (observe::trace() == nullptr || begin == 0) return;
  observe::add_to_trace({.begin = begin,
                         .extent = ticks() - begin,
                         .bytes = bytes,
                         .peer = services.node->record(other).world_rank,
                         .kind = observe::EventKind::copied,
                         .detail = static_cast<std::uint8_t>(path)});
}

void send_by_library(std::uint32_t slot, const p2p::SendSlot& send) {
  const auto* bytes = reinterpret_cast<const std::byte*>(send.from.address);
  for (std::uint64_t offset = 0; offset < send.bytes; offset += kPiece) {
    const auto piece = static_cast<int>(std::min(kPiece, send.bytes - offset));
    // The request of this send is not kept: the receiver releases the sender, by the state of the
    // slot, after it has received all pieces of the message.
    send_to_node_rank(bytes + offset, piece, send.to, tags::kResends[slot]);
  }
}

}  // namespace mh::mpi::rndv
