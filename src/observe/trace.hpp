// SPDX-License-Identifier: BSD-3-Clause
// The trace of a rank: a ring of events in a file (MH_TRACE). docs/trace.md describes the format.
//
// The file is mapped shared, so the events of a killed rank can be read. The ring overwrites its
// oldest events. The totals in the header count all events, those overwritten included. All space
// of the file is reserved at the start, because a full disk would end the program later.
//
// Threads: any thread adds events and calls trace(); one thread creates, publishes and ends.
// Limits: an event that a killed thread had not completed is lost.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>

#include "base/cacheline.hpp"
#include "base/result.hpp"

namespace mh::observe {

enum class EventKind : std::uint8_t {
  none,
  call,          // an MPI call; `peer` is the rank that it has waited for most
  brief_calls,   // several short calls in succession; `extent` includes the time between them
  sent,          // a message by rendezvous; its sender's event, without an extent
  copied,        // the copy of a message by rendezvous; `detail` is a MessagePath
  left,          // a message left to the MPI library; `detail` is a LeftBecause
  helped,        // a chunk copied for the rank `peer`, at neither end of its message
  lent,          // the core was lent to the rank `peer`
  on_lent_core,  // a chunk that a helper of this rank moved, on the core of another rank
  loop,          // an OpenMP loop that was open to helpers
  task,          // a task of a collection, in a wait
};
inline constexpr std::size_t kEventKinds = 16;  // room for more

enum class MessagePath : std::uint8_t { mapped, kernel, cells, pushed, library };
enum class LeftBecause : std::uint8_t { exchanged, no_slot, ended };
// The detail of an event of EventKind::call: whether the call was a collective, and if so, whether
// the ranks of the node carried it out themselves or left it to the MPI library.
enum class CollectiveWay : std::uint8_t { none, by_ranks, by_library };

inline constexpr std::uint32_t kNoPeer = ~0U;
inline constexpr std::uint16_t kNoCall = 0xffff;

// An event of a rank's trace. Times are ticks.
struct TraceEvent {
  std::uint64_t begin = 0;
  std::uint64_t extent = 0;    // from begin to end
  std::uint64_t transfer = 0;  // ticks in which all peers were inside MPI, too
  std::uint64_t waiting = 0;   // ticks in which a peer was outside MPI
  std::uint64_t bytes = 0;
  std::uint32_t peer = kNoPeer;  // world rank
  std::uint32_t count = 1;       // calls or units that the event stands for
  std::uint16_t call = kNoCall;  // index into the names of calls in the file
  EventKind kind = EventKind::none;
  std::uint8_t detail = 0;  // a MessagePath, LeftBecause or CollectiveWay, by `kind`
  std::uint32_t cpu = 0;    // set by add()
};

// A place of the ring, one cache line. `number` is the event's number in the whole trace, from 1;
// it is written last (release). A reader takes the event if `number` is the one that it expects at
// this place.
struct TraceSlot {
  TraceEvent event;
  std::atomic<std::uint64_t> number;
};
static_assert(sizeof(TraceSlot) == kCacheLine && std::is_standard_layout_v<TraceSlot>);

// The sums of all events of a kind. relaxed: several threads of the rank add; a reader wants recent
// numbers.
struct TraceTotal {
  std::atomic<std::uint64_t> events;
  std::atomic<std::uint64_t> count;
  std::atomic<std::uint64_t> bytes;
  std::atomic<std::uint64_t> extent;
  std::atomic<std::uint64_t> transfer;
  std::atomic<std::uint64_t> waiting;
};

// Facts about the rank that writes the trace; they do not change during the run.
struct TraceIdentity {
  std::uint32_t world_rank = 0;
  std::uint32_t world_ranks = 0;
  std::uint32_t node = 0;  // the least world rank of the node
  std::uint32_t pid = 0;
};

struct TraceHeader {
  static constexpr std::size_t kBytes = 4096;
  char magic[8];  // "MHTRACE" and 0
  std::uint32_t version;
  std::uint32_t names_bytes;  // length of the names of calls, a line each, after the header
  std::uint64_t events_at;    // offset of the ring
  std::uint64_t capacity;     // events in the ring
  TraceIdentity rank;
  double ticks_per_s;
  std::uint64_t start_ticks;
  std::uint64_t start_unix_ns;  // the instant of start_ticks
  char host[64];
  alignas(kCacheLine) std::atomic<std::uint64_t> end_ticks;  // 0: the trace was not ended
  alignas(kCacheLine) std::atomic<std::uint64_t> events;     // number of events added so far
  alignas(kCacheLine) TraceTotal totals[kEventKinds];
};
static_assert(sizeof(TraceHeader) <= TraceHeader::kBytes);
static_assert(std::is_standard_layout_v<TraceHeader>);

inline constexpr std::uint32_t kTraceVersion = 1;
inline constexpr std::uint64_t kTraceCapacity = 1U << 18U;  // 16 MB a rank

class TraceWriter {
 public:
  // Makes the file of the rank in `folder`, and the folder if it is missing. Replaces an older
  // file.
  static Result<std::unique_ptr<TraceWriter>> create(const std::string& folder,
                                                     const TraceIdentity& rank,
                                                     std::span<const char* const> call_names,
                                                     std::uint64_t capacity = kTraceCapacity);
  ~TraceWriter();
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  void add(const TraceEvent& event);
  void end(std::uint64_t now);

 private:
  explicit TraceWriter(std::span<std::byte> mapped);
  [[nodiscard]] TraceHeader& header() const;
  [[nodiscard]] TraceSlot& slot(std::uint64_t index) const;

  std::span<std::byte> mapped_;
  TraceSlot* ring_ = nullptr;
  std::uint64_t capacity_ = 0;
};

namespace detail {
// The writer of this process's trace. acquire and release: a thread that sees the writer sees its
// mapped file and the header of the file.
[[gnu::visibility("hidden")]] extern constinit std::atomic<TraceWriter*> published_trace;
}  // namespace detail

// The writer of this process's trace; null while there is none.
inline TraceWriter* trace() { return detail::published_trace.load(std::memory_order_acquire); }
inline void publish_trace(TraceWriter* writer) {
  detail::published_trace.store(writer, std::memory_order_release);
}
inline void add_to_trace(const TraceEvent& event) {
  if (TraceWriter* writer = trace()) [[unlikely]]
    writer->add(event);
}

// Adds the MPI calls of one thread to the trace. Short calls in succession become one event, so
// that a loop of short calls neither fills the ring nor pays for an event each. Not thread-safe.
class CallTrace {
 public:
  void add(TraceWriter& writer, const TraceEvent& call);
  void flush(TraceWriter& writer);

  static constexpr double kBriefNs = 10'000;           // a longer call is an event of its own
  static constexpr double kGatheredForNs = 1'000'000;  // an event gathers calls for this long

 private:
  void gather(const TraceEvent& call);

  TraceEvent gathered_;  // its kind is `none` while no call is gathered
};

}  // namespace mh::observe
