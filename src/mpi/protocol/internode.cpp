// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/protocol/internode.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "mpi/job/config.hpp"
#include "mpi/job/services.hpp"
#include "mpi/job/switches.hpp"
#include "mpi/next.hpp"
#include "mpi/protocol/pending_requests.hpp"
#include "mpi/protocol/transfer.hpp"
#include "mpi/tags.hpp"
#include "p2p/pack_pipeline.hpp"

namespace mh::mpi::internode {
namespace {

// Below this nothing is gained.
constexpr std::uint64_t kLeast = 128U << 10U;
// Open MPI packs as fast itself, straight into what it sends (docs/decisions.md).
#if defined(MH_ABI_OPENMPI)
constexpr bool kGains = false;
#else
constexpr bool kGains = true;
#endif
constexpr std::uint64_t kPiece = 256U << 10U;
constexpr std::size_t kMostBuffers = 512;  // of all messages of a rank together
constexpr std::size_t kKeptBuffers = 32;   // that nobody uses
constexpr double kPatienceNs = 1e9;

constexpr std::uint32_t kInternodeSends = tags::kInternodeFins.count;

struct Cut {
  std::uint64_t bytes;
  std::uint64_t piece;
  [[nodiscard]] std::uint64_t pieces() const { return (bytes + piece - 1) / piece; }
  [[nodiscard]] layout::Range range(std::uint64_t index) const {
    return {index * piece, std::min(bytes, (index + 1) * piece)};
  }
};

// Of the pieces of a message, among all between two ranks. An internode pipeline may be used again
// while the library still holds pieces of its last message, so its number would not do.
int tag_of(const p2p::Descriptor& descriptor) {
  return tags::kPieces[descriptor.generation % tags::kPieces.count];
}

int length_of(layout::Range range) { return static_cast<int>(range.end - range.begin); }

// ---- Buffers ------------------------------------------------------------------------------------

// The one that was given back last is still in the cache: it is taken first.
class Buffers {
 public:
  // So many more may be used.
  bool allows(std::uint64_t pieces) {
    const std::lock_guard<std::mutex> hold(mutex_);
    return used_ + pieces <= kMostBuffers;
  }
  std::byte* take() {
    const std::lock_guard<std::mutex> hold(mutex_);
    if (!free_.empty()) {
      ++used_;
      std::byte* last = free_.back();
      free_.pop_back();
      return last;
    }
    auto* fresh = static_cast<std::byte*>(std::aligned_alloc(4096, kPiece));
    used_ += fresh == nullptr ? 0 : 1;
    return fresh;
  }
  void give(std::byte* buffer) {
    const std::lock_guard<std::mutex> hold(mutex_);
    --used_;
    if (free_.size() < kKeptBuffers) {
      free_.push_back(buffer);
    } else {
      std::free(buffer);
    }
  }

 private:
  std::mutex mutex_;
  std::vector<std::byte*> free_;
  std::size_t used_ = 0;
};
Buffers g_buffers;

// Made by start(), like the group; used while config.internode.
std::optional<p2p::PackPipelines> g_pack_pipelines;
MPI_Group g_world = MPI_GROUP_NULL;

// ---- Sending ------------------------------------------------------------------------------------

struct Piece {
  MPI_Request request;
  std::byte* buffer;  // null for the descriptor
};

// The sender's thread has it until all is posted, then whoever holds g_mutex.
struct Line {
  p2p::Descriptor descriptor{};
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
      if (in_flight.front().buffer != nullptr) g_buffers.give(in_flight.front().buffer);
      in_flight.pop_front();
      last_change = ticks();
    }
    return true;
  }
};

std::mutex g_mutex;  // guards what follows, and lines that are posted
std::array<std::unique_ptr<Line>, kInternodeSends> g_lines;
std::unordered_map<int, std::uint64_t> g_sent;  // messages so far, by receiver
std::set<int> g_avoided;                        // receivers that did not take what was sent
std::atomic<std::uint32_t> g_taken{0};          // lines in use; relaxed, a hint

std::optional<SendId> free_line() {
  for (SendId wire = 0; wire < kInternodeSends; ++wire) {
    if (g_lines[wire] == nullptr) return wire;
  }
  return std::nullopt;
}

// With g_mutex.
void release(SendId wire) {
  g_lines[wire].reset();
  g_taken.fetch_sub(1, std::memory_order_relaxed);
  detached_operations.fetch_sub(1, std::memory_order_relaxed);
}

// With g_mutex. The request of the program completes.
void say_done(Line& line) {
  line.counts_as_done = true;
  if (line.fin_tag == kNoFin) return;
  say_complete(config.me, line.fin_tag);
}

// With g_mutex: a posted line goes on. True if all of it was taken.
bool advance(Line& line) {
  const bool over = line.reap();
  if (line.counts_as_done) return over;
  if (!over) {
    if (ticks() - line.last_change < ticks_from_ns(kPatienceNs)) return false;
    g_avoided.insert(line.to);
  }
  say_done(line);
  return over;
}

void progress_sends() {
  if (g_taken.load(std::memory_order_relaxed) == 0) return;
  const std::unique_lock<std::mutex> hold(g_mutex, std::try_to_lock);
  if (!hold) return;
  for (SendId wire = 0; wire < kInternodeSends; ++wire) {
    Line* line = g_lines[wire].get();
    // One that a blocking call waits for is looked at, and given back, there.
    if (line == nullptr || !line->posted) continue;
    if (line->fin_tag == kNoFin && !line->counts_as_done) continue;
    if (advance(*line)) release(wire);
  }
}

// Its rank in MPI_COMM_WORLD, negative if it has none there.
int world_rank(MPI_Comm comm, int rank) {
  MPI_Group group{};
  real.Comm_group(comm, &group);
  int found = MPI_UNDEFINED;
  real.Group_translate_ranks(group, 1, &rank, g_world, &found);
  real.Group_free(&group);
  return found == MPI_UNDEFINED ? -1 : found;
}

void post_piece(Line& line, const p2p::Load& load) {
  Piece piece{.request = MPI_REQUEST_NULL, .buffer = load.buffer};
  real.Isend(load.buffer, length_of(load.range), MPI_BYTE, line.to, tag_of(line.descriptor),
             config.internode_comm, &piece.request);
  line.in_flight.push_back(piece);
}

// Packs and posts all of it, with the hands that are there.
void post_pieces(Line& line) {
  const Cut cut{.bytes = line.descriptor.bytes, .piece = line.descriptor.piece};
  p2p::PackPipelines::Use pack_pipeline(*g_pack_pipelines, line.from, p2p::Task::pack, cut.bytes);
  std::uint64_t offered = 0;
  for (std::uint64_t posted = 0; posted < cut.pieces();) {
    while (offered < cut.pieces() && pack_pipeline->outstanding() < pack_pipeline.enough()) {
      std::byte* buffer = g_buffers.take();
      if (buffer == nullptr) break;  // one comes back when a piece was taken
      pack_pipeline->offer({.range = cut.range(offered++), .buffer = buffer});
      if (offered == cut.pieces()) pack_pipeline.nothing_more();
    }
    pack_pipeline->work();
    while (const auto load = pack_pipeline->collect()) {
      post_piece(line, *load);
      ++posted;
    }
    line.reap();
  }
}

}  // namespace

bool may_take(const Outgoing& message, MPI_Datatype type, const datatypes::Info& info) {
  if (!config.internode || info.contiguous || message.bytes < std::max(kLeast, config.threshold))
    return false;
  if (!switches.switched_on.load(std::memory_order_relaxed)) return false;
  const Comm* comm = comms::find(message.comm);
  return comm != nullptr && comm->is_elsewhere(message.dest) &&
         layouts::of_describable(type) != nullptr;
}

std::optional<SendId> take(const Outgoing& message, MPI_Datatype type, const datatypes::Info& info,
                           int fin_tag, MPI_Request request) {
  if (!may_take(message, type, info)) return std::nullopt;
  const Cut cut{.bytes = message.bytes, .piece = kPiece};
  if (!g_buffers.allows(cut.pieces())) return std::nullopt;
  layout::LayoutPtr layout = layouts::of(type);
  const int to = world_rank(message.comm, message.dest);
  if (to < 0) return std::nullopt;

  const std::lock_guard<std::mutex> hold(g_mutex);
  const auto wire = g_avoided.contains(to) ? std::nullopt : free_line();
  if (!wire) return std::nullopt;
  auto line = std::make_unique<Line>();
  line->to = to;
  line->fin_tag = fin_tag == kOwnFin ? tags::kInternodeFins[*wire] : fin_tag;
  line->completion = request;
  line->from = {.layout = layout.get(),
                .count = message.bytes / info.size,
                .base = layout::address_of(message.buffer)};
  line->layout = std::move(layout);
  line->descriptor = {.key = {config.key[0], config.key[1]},
                      .sender = config.me,
                      .slot = *wire,
                      .bytes = cut.bytes,
                      .generation = ++g_sent[to],
                      .from_world = static_cast<std::uint32_t>(config.world_rank) + 1,
                      .to_world = static_cast<std::uint32_t>(to) + 1,
                      .piece = cut.piece,
                      .seal = {}};
  p2p::seal(line->descriptor);
  g_lines[*wire] = std::move(line);
  g_taken.fetch_add(1, std::memory_order_relaxed);
  detached_operations.fetch_add(1, std::memory_order_relaxed);
  return wire;
}

int receive_fin(SendId wire, MPI_Request* request) {
  Line& line = *g_lines[wire];
  const int code = real.Irecv(nullptr, 0, MPI_BYTE, static_cast<int>(config.me), line.fin_tag,
                              config.node_comm, request);
  const std::lock_guard<std::mutex> hold(g_mutex);
  if (code == MPI_SUCCESS) {
    line.completion = *request;
  } else {
    release(wire);
  }
  return code;
}

int send(SendId wire, const Outgoing& message) {
  Line& line = *g_lines[wire];
  Piece piece{.request = MPI_REQUEST_NULL, .buffer = nullptr};
  const int code = next.Isend(&line.descriptor, p2p::kDescriptorBytes, MPI_BYTE, message.dest,
                              message.tag, message.comm, &piece.request);
  if (code == MPI_SUCCESS) {
    line.in_flight.push_back(piece);
    post_pieces(line);
    services.counters().messages_described.add(1);
    services.counters().bytes_described.add(message.bytes);
  }
  const std::lock_guard<std::mutex> hold(g_mutex);
  if (code != MPI_SUCCESS) {
    release(wire);
    return code;
  }
  line.layout.reset();
  line.last_change = ticks();
  line.posted = true;
  return code;
}

void await(SendId wire) {
  wait::until([&] {
    const std::lock_guard<std::mutex> hold(g_mutex);
    Line& line = *g_lines[wire];
    const bool over = advance(line);
    if (over) release(wire);
    // Where the receiver does not take it, progress() goes on with what is left.
    return over || line.counts_as_done;
  });
}

bool keeps(MPI_Request request) {
  if (g_taken.load(std::memory_order_relaxed) == 0) return false;
  const std::lock_guard<std::mutex> hold(g_mutex);
  for (const auto& line : g_lines) {
    if (line == nullptr || line->completion != request || line->fin_tag == kNoFin) continue;
    // Its request is complete, and the handle may be another's by now.
    if (line->counts_as_done) continue;
    // Nothing of the program's is needed any more, so its wait need not depend on the receiver.
    say_done(*line);
    return true;
  }
  return false;
}

// ---- Receiving ----------------------------------------------------------------------------------

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
        pack_pipeline_(*g_pack_pipelines, to_, p2p::Task::unpack, bytes) {}

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
    layout::Range range;
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
      g_buffers.give(load->buffer);
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
      place = next.buffer = g_buffers.take();
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
      g_buffers.give(here.buffer);  // more than there is room for
    }
    if (posted_ == cut_.pieces() && coming_.empty()) pack_pipeline_.nothing_more();
  }

  static void count(layout::Range range) {
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

namespace {

void forget(const Incoming& incoming) {
  const std::lock_guard<std::mutex> hold(g_receiving);
  const auto gone =
      std::erase_if(g_incoming, [&](const IncomingPtr& one) { return one.get() == &incoming; });
  g_coming.fetch_sub(static_cast<std::uint32_t>(gone), std::memory_order_relaxed);
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

}  // namespace

void finish(Incoming& incoming) {
  wait::until([&] { return incoming.step(); });
  forget(incoming);
}

void progress() {
  progress_sends();
  progress_receives();
}

// ---- Start and end ------------------------------------------------------------------------------

namespace {

// Nodes that are not real are there to be tested, under any library.
bool wanted() { return config.willing && (kGains || settings().fake_nodes > 1); }

}  // namespace

void start() {
  int size = 0;
  real.Comm_size(MPI_COMM_WORLD, &size);
  if (static_cast<std::uint32_t>(size) == config.ranks)
    return;  // so it is for every rank, or for none
  const int mine = wanted() ? 1 : 0;
  int all = 0;
  real.Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  if (all == 0) return;
  if (real.Comm_dup(MPI_COMM_WORLD, &detail::config.internode_comm) != MPI_SUCCESS) return;
  real.Comm_group(MPI_COMM_WORLD, &g_world);
  real.Bcast(detail::config.key, sizeof config.key, MPI_BYTE, 0, MPI_COMM_WORLD);
  g_pack_pipelines.emplace(*services.node, services.counters(), services.helpers);
  detail::config.internode = detail::config.describing = true;
}

namespace {

// Takes a piece that nobody will receive out of the library.
void throw_away() {
  int flag = 0;
  MPI_Message message{};
  MPI_Status status{};
  real.Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, config.internode_comm, &flag, &message, &status);
  if (flag == 0) return;
  std::byte* buffer = g_buffers.take();
  if (buffer == nullptr) return;
  MPI_Request request = MPI_REQUEST_NULL;
  real.Imrecv(buffer, static_cast<int>(kPiece), MPI_BYTE, &message, &request);
  wait_request(&request, MPI_STATUS_IGNORE);
  g_buffers.give(buffer);
}

}  // namespace

void stop() {
  if (!config.internode) return;
  MPI_Request everyone = MPI_REQUEST_NULL;
  bool asked = false;
  wait::until([&] {
    progress();
    const bool receives = pending_requests.any() || g_coming.load(std::memory_order_relaxed) != 0;
    if (!receives) throw_away();
    const bool at_rest = g_taken.load(std::memory_order_relaxed) == 0 &&
                         g_coming.load(std::memory_order_relaxed) == 0;
    if (!asked && at_rest) {
      asked = real.Ibarrier(MPI_COMM_WORLD, &everyone) == MPI_SUCCESS;
    }
    int flag = 0;
    return asked && (real.Test(&everyone, &flag, MPI_STATUS_IGNORE) != MPI_SUCCESS || flag != 0);
  });
  detail::config.internode = false;
  g_pack_pipelines.reset();
  real.Group_free(&g_world);
  real.Comm_free(&detail::config.internode_comm);
}

}  // namespace mh::mpi::internode
