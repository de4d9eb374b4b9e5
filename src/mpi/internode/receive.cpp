// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/internode/receive.hpp"

#include <algorithm>
#include <atomic>
#include <deque>
#include <mutex>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "mpi/internode/pieces.hpp"
#include "mpi/job/config.hpp"
#include "mpi/job/services.hpp"
#include "mpi/next.hpp"
#include "wait/wait.hpp"

namespace mh::mpi::internode {
namespace {

// The messages from one sender whose receive has begun, by the number that each RTS header carries:
// all numbers up to `all_`, and those in `some_`.
class BegunNumbers {
 public:
  [[nodiscard]] bool has(std::uint64_t number) const {
    return number <= all_ || some_.contains(number);
  }
  void add(std::uint64_t number) {
    some_.insert(number);
    // A missing number belongs to a message that no receive has matched, and perhaps none ever
    // will. If `some_` has more than kMost numbers, the lowest missing numbers count as begun, to
    // bound the memory.
    while (!some_.empty() && (*some_.begin() == all_ + 1 || some_.size() > kMost)) {
      all_ = *some_.begin();
      some_.erase(some_.begin());
    }
  }

 private:
  static constexpr std::size_t kMost = 4096;
  std::uint64_t all_ = 0;
  std::set<std::uint64_t> some_;
};

struct InternodeReceives {
  std::mutex mutex;                                       // guards the members below
  std::unordered_map<std::uint32_t, BegunNumbers> begun;  // by sender
  std::vector<IncomingPtr> incoming;
  std::atomic<std::uint32_t> count{0};  // of `incoming`; relaxed, a hint
};
InternodeReceives g_receives;

void forget(const Incoming& over) {
  const std::lock_guard<std::mutex> hold(g_receives.mutex);
  const auto gone = std::erase_if(g_receives.incoming,
                                  [&](const IncomingPtr& one) { return one.get() == &over; });
  g_receives.count.fetch_sub(static_cast<std::uint32_t>(gone), std::memory_order_relaxed);
}

}  // namespace

class Incoming {
 public:
  Incoming(const p2p::RtsHeader& header, const p2p::End& to, layout::LayoutPtr layout,
           std::uint64_t bytes)
      : split_{.bytes = header.bytes, .piece = header.piece},
        from_(static_cast<int>(header.from_world) - 1),
        tag_(tag_of(header)),
        to_(to),
        layout_(std::move(layout)),
        bytes_(bytes),
        pack_pipeline_(*pack_pipelines, to_, p2p::PackKind::unpack, bytes) {}

  // Receives a piece or unpacks a chunk of the message. Returns true once the message is complete.
  // One thread at a time advances the message; a thread that calls meanwhile gets false at once.
  bool step() {
    if (over_.load(std::memory_order_acquire)) return true;
    if (busy_.test_and_set(std::memory_order_acquire)) return false;
    const bool over = advance();
    // release: pairs with the acquire at the head of step(), so that a thread for which step()
    // returns true there sees the unpacked bytes.
    if (over) over_.store(true, std::memory_order_release);
    busy_.clear(std::memory_order_release);
    return over;
  }

 private:
  static constexpr std::size_t kAhead = 4;  // most receives of pieces in flight

  struct PostedPiece {
    MPI_Request request;
    layout::StreamRange range;
    std::byte* buffer;  // null: received straight into the receive buffer
  };

  bool advance() {
    while (!is_over() && in_flight_.size() < kAhead && posted_ < split_.pieces() &&
           post_next_piece()) {
    }
    const bool has_arrived = oldest_has_arrived();
    if (has_arrived) unpack_oldest();
    // Only this thread can receive the next piece, but helpers on lent cores can also unpack
    // pieces. This thread therefore unpacks only if no piece has arrived, or if enough pieces
    // already wait for the helpers.
    if (!has_arrived || pack_pipeline_->outstanding() >= pack_pipeline_.enough())
      pack_pipeline_->work();
    while (const auto chunk = pack_pipeline_->collect()) {
      count(chunk->range);
      piece_buffers.release(chunk->buffer);
    }
    return is_over();
  }

  [[nodiscard]] bool is_over() const {
    return posted_ == split_.pieces() && in_flight_.empty() && pack_pipeline_->empty();
  }

  // Posts the receive of the next piece. False if all cells of the pack pipeline are in use, or if
  // there is no memory for a piece buffer.
  bool post_next_piece() {
    if (in_flight_.size() + pack_pipeline_->outstanding() >= p2p::PackPipeline::kCells)
      return false;
    PostedPiece piece{
        .request = MPI_REQUEST_NULL, .range = split_.range(posted_), .buffer = nullptr};
    void* address = nullptr;
    if (to_.layout == nullptr && piece.range.end <= bytes_) {
      address = p2p::place_in(to_, piece.range.begin);
    } else {
      address = piece.buffer = piece_buffers.acquire();
      if (address == nullptr) return false;
    }
    real.Irecv(address, length_of(piece.range), MPI_BYTE, from_, tag_, config.internode_comm,
               &piece.request);
    in_flight_.push_back(piece);
    ++posted_;
    return true;
  }

  bool oldest_has_arrived() {
    if (in_flight_.empty()) return false;
    int flag = 0;
    real.Test(&in_flight_.front().request, &flag, MPI_STATUS_IGNORE);
    return flag != 0;
  }

  void unpack_oldest() {
    const auto [request, range, buffer] = in_flight_.front();
    in_flight_.pop_front();
    if (buffer == nullptr) {
      count(range);
    } else if (range.begin < bytes_) {
      pack_pipeline_->offer(
          {.range = {range.begin, std::min(range.end, bytes_)}, .buffer = buffer});
    } else {
      piece_buffers.release(buffer);  // the piece lies beyond the end of the receive buffer
    }
    if (posted_ == split_.pieces() && in_flight_.empty()) pack_pipeline_.nothing_more();
  }

  static void count(layout::StreamRange range) {
    services.counters().own_chunks_received.add(1);
    services.counters().own_bytes_received.add(range.end - range.begin);
  }

  PieceSplit split_;
  int from_;  // in MPI_COMM_WORLD
  int tag_;
  p2p::End to_;
  layout::LayoutPtr layout_;
  std::uint64_t bytes_;
  p2p::PackPipelines::Use pack_pipeline_;
  std::deque<PostedPiece> in_flight_;  // in the order of posting
  std::uint64_t posted_ = 0;
  std::atomic_flag busy_ = ATOMIC_FLAG_INIT;  // a lock: set with acquire, cleared with release
  std::atomic<bool> over_{false};
};

bool is_unreceived(const p2p::RtsHeader& header) {
  if (!config.internode || header.to_world != static_cast<std::uint32_t>(config.world_rank) + 1)
    return false;
  const std::lock_guard<std::mutex> hold(g_receives.mutex);
  const auto from = g_receives.begun.find(header.from_world);
  return from == g_receives.begun.end() || !from->second.has(header.generation);
}

IncomingPtr begin_receive(const p2p::RtsHeader& header, const p2p::End& to,
                          layout::LayoutPtr layout, std::uint64_t bytes) {
  auto incoming = std::make_shared<Incoming>(header, to, std::move(layout), bytes);
  const std::lock_guard<std::mutex> hold(g_receives.mutex);
  g_receives.begun[header.from_world].add(header.generation);
  g_receives.incoming.push_back(incoming);
  g_receives.count.fetch_add(1, std::memory_order_relaxed);
  return incoming;
}

void finish_receive(Incoming& incoming) {
  wait::until([&] { return incoming.step(); });
  forget(incoming);
}

void progress_receives() {
  if (!any_receives()) return;
  std::vector<IncomingPtr> under_way;
  {
    const std::lock_guard<std::mutex> hold(g_receives.mutex);
    under_way = g_receives.incoming;
  }
  for (const IncomingPtr& incoming : under_way) {
    if (incoming->step()) forget(*incoming);
  }
}

bool any_receives() { return g_receives.count.load(std::memory_order_relaxed) != 0; }

}  // namespace mh::mpi::internode
