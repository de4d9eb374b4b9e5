// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/protocol/internode_receive.hpp"

#include <algorithm>
#include <atomic>
#include <deque>
#include <mutex>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "mpi/job/config.hpp"
#include "mpi/job/services.hpp"
#include "mpi/next.hpp"
#include "mpi/protocol/internode_pieces.hpp"
#include "wait/wait.hpp"

namespace mh::mpi::internode {
namespace {

// Messages that were taken, by sender: all up to a number, and some beyond.
class Taken {
 public:
  [[nodiscard]] bool has(std::uint64_t number) const {
    return number <= all_ || some_.contains(number);
  }
  void add(std::uint64_t number) {
    some_.insert(number);
    // Numbers that never come were of messages that nobody received.
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

std::mutex g_receiving;  // guards what follows
std::unordered_map<std::uint32_t, Taken> g_received;
std::vector<IncomingPtr> g_incoming;
std::atomic<std::uint32_t> g_coming{0};  // how many; relaxed, a hint

void forget(const Incoming& incoming) {
  const std::lock_guard<std::mutex> hold(g_receiving);
  const auto gone =
      std::erase_if(g_incoming, [&](const IncomingPtr& one) { return one.get() == &incoming; });
  g_coming.fetch_sub(static_cast<std::uint32_t>(gone), std::memory_order_relaxed);
}

}  // namespace

class Incoming {
 public:
  Incoming(const p2p::Descriptor& found, const p2p::End& to, layout::LayoutPtr layout,
           std::uint64_t bytes)
      : cut_{.bytes = found.bytes, .piece = found.piece},
        from_(static_cast<int>(found.from_world) - 1),
        tag_(tag_of(found)),
        to_(to),
        layout_(std::move(layout)),
        bytes_(bytes),
        pack_pipeline_(*pack_pipelines, to_, p2p::Task::unpack, bytes) {}

  // A piece is received, or a chunk unpacked. True when all is there. One thread at a time does it;
  // for others nothing is known.
  bool step() {
    if (over_.load(std::memory_order_acquire)) return true;
    if (busy_.test_and_set(std::memory_order_acquire)) return false;
    const bool over = advance();
    // release: pairs with the acquire above; all that was unpacked is visible to who waits.
    if (over) over_.store(true, std::memory_order_release);
    busy_.clear(std::memory_order_release);
    return over;
  }

 private:
  static constexpr std::size_t kAhead = 4;

  struct Coming {
    MPI_Request request;
    layout::StreamRange range;
    std::byte* buffer;  // null: it comes to its place
  };

  bool advance() {
    while (!over() && coming_.size() < kAhead && posted_ < cut_.pieces() && receive_next()) {
    }
    const bool came = next_came();
    if (came) arrived();
    // What has come any thread can unpack; what comes next only the owner can receive.
    if (!came || pack_pipeline_->outstanding() >= pack_pipeline_.enough()) pack_pipeline_->work();
    while (const auto load = pack_pipeline_->collect()) {
      count(load->range);
      piece_buffers.give(load->buffer);
    }
    return over();
  }

  [[nodiscard]] bool over() const {
    return posted_ == cut_.pieces() && coming_.empty() && pack_pipeline_->empty();
  }

  // False if there is no room just now.
  bool receive_next() {
    if (coming_.size() + pack_pipeline_->outstanding() >= p2p::PackPipeline::kCells) return false;
    Coming next{.request = MPI_REQUEST_NULL, .range = cut_.range(posted_), .buffer = nullptr};
    void* place = nullptr;
    if (to_.layout == nullptr && next.range.end <= bytes_) {
      place = p2p::place_in(to_, next.range.begin);
    } else {
      place = next.buffer = piece_buffers.take();
      if (place == nullptr) return false;
    }
    real.Irecv(place, length_of(next.range), MPI_BYTE, from_, tag_, config.internode_comm,
               &next.request);
    coming_.push_back(next);
    ++posted_;
    return true;
  }

  bool next_came() {
    if (coming_.empty()) return false;
    int flag = 0;
    real.Test(&coming_.front().request, &flag, MPI_STATUS_IGNORE);
    return flag != 0;
  }

  // The oldest piece is here.
  void arrived() {
    const Coming here = coming_.front();
    coming_.pop_front();
    if (here.buffer == nullptr) {
      count(here.range);
    } else if (here.range.begin < bytes_) {
      pack_pipeline_->offer(
          {.range = {here.range.begin, std::min(here.range.end, bytes_)}, .buffer = here.buffer});
    } else {
      piece_buffers.give(here.buffer);  // more than there is room for
    }
    if (posted_ == cut_.pieces() && coming_.empty()) pack_pipeline_.nothing_more();
  }

  static void count(layout::StreamRange range) {
    services.counters().own_chunks_received.add(1);
    services.counters().own_bytes_received.add(range.end - range.begin);
  }

  Cut cut_;
  int from_;  // in MPI_COMM_WORLD
  int tag_;
  p2p::End to_;
  layout::LayoutPtr layout_;
  std::uint64_t bytes_;
  p2p::PackPipelines::Use pack_pipeline_;
  std::deque<Coming> coming_;
  std::uint64_t posted_ = 0;
  std::atomic_flag busy_ = ATOMIC_FLAG_INIT;  // acquire and release, as a lock
  std::atomic<bool> over_{false};
};

bool is_new(const p2p::Descriptor& found) {
  if (!config.internode || found.to_world != static_cast<std::uint32_t>(config.world_rank) + 1)
    return false;
  const std::lock_guard<std::mutex> hold(g_receiving);
  const auto from = g_received.find(found.from_world);
  return from == g_received.end() || !from->second.has(found.generation);
}

IncomingPtr begin(const p2p::Descriptor& found, const p2p::End& to, layout::LayoutPtr layout,
                  std::uint64_t bytes) {
  auto incoming = std::make_shared<Incoming>(found, to, std::move(layout), bytes);
  const std::lock_guard<std::mutex> hold(g_receiving);
  g_received[found.from_world].add(found.generation);
  g_incoming.push_back(incoming);
  g_coming.fetch_add(1, std::memory_order_relaxed);
  return incoming;
}

void finish(Incoming& incoming) {
  wait::until([&] { return incoming.step(); });
  forget(incoming);
}

void progress_receives() {
  if (g_coming.load(std::memory_order_relaxed) == 0) return;
  std::vector<IncomingPtr> coming;
  {
    const std::lock_guard<std::mutex> hold(g_receiving);
    coming = g_incoming;
  }
  for (const IncomingPtr& incoming : coming) {
    if (incoming->step()) forget(*incoming);
  }
}

bool any_receives() { return g_coming.load(std::memory_order_relaxed) != 0; }

}  // namespace mh::mpi::internode
