// SPDX-License-Identifier: BSD-3-Clause
#include "observe/trace.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "base/clock.hpp"
#include "base/fd.hpp"

namespace mh::observe {

namespace detail {
constinit std::atomic<TraceWriter*> published_trace{nullptr};
}

namespace {

constexpr std::size_t kPage = 4096;

std::string lines_of(std::span<const char* const> names) {
  std::string text;
  for (const char* name : names) {
    text += name;
    text += '\n';
  }
  return text;
}

std::uint64_t unix_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U +
         static_cast<std::uint64_t>(now.tv_nsec);
}

// Makes the rank's trace file in `folder`. An older file of that name is unlinked, not overwritten,
// so a reader that has mapped it keeps its contents.
Result<Fd> new_file(const std::string& folder, std::uint32_t world_rank) {
  if (::mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST) return from_errno(errno);
  const std::string path = fmt::format("{}/rank-{}.mhtrace", folder, world_rank);
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) return from_errno(errno);
  Fd file(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!file.valid()) return from_errno(errno);
  return file;
}

Result<std::span<std::byte>> map_file(const Fd& file, std::size_t bytes) {
  if (const Status limit = check_file_size_limit(bytes); !limit) return limit;
  // Reserves the space: a store to a page for which the disk has no room would raise SIGBUS.
  if (const int error = ::posix_fallocate(file.get(), 0, static_cast<off_t>(bytes)); error != 0)
    return from_errno(error);
  void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (at == MAP_FAILED) return from_errno(errno);
  return std::span(static_cast<std::byte*>(at), bytes);
}

void fill_header(TraceHeader& header, const TraceIdentity& rank, const std::string& names,
                 std::uint64_t events_at, std::uint64_t capacity) {
  header.version = kTraceVersion;
  header.names_bytes = static_cast<std::uint32_t>(names.size());
  header.events_at = events_at;
  header.capacity = capacity;
  header.rank = rank;
  header.ticks_per_s = ticks_per_ns() * 1e9;
  header.start_unix_ns = unix_ns();
  header.start_ticks = ticks();
  ::gethostname(header.host, sizeof header.host - 1);
  // The magic is written last: a reader that finds it knows that the other members are written.
  std::atomic_signal_fence(std::memory_order_release);
  std::memcpy(header.magic, "MHTRACE", sizeof header.magic);
}

}  // namespace

TraceWriter::TraceWriter(std::span<std::byte> mapped) : mapped_(mapped) {}

TraceWriter::~TraceWriter() { ::munmap(mapped_.data(), mapped_.size()); }

TraceHeader& TraceWriter::header() const {
  return *std::launder(reinterpret_cast<TraceHeader*>(mapped_.data()));
}

TraceSlot& TraceWriter::slot(std::uint64_t index) const { return ring_[index % capacity_]; }

Result<std::unique_ptr<TraceWriter>> TraceWriter::create(const std::string& folder,
                                                         const TraceIdentity& rank,
                                                         std::span<const char* const> call_names,
                                                         std::uint64_t capacity) {
  const std::string names = lines_of(call_names);
  const std::uint64_t events_at = TraceHeader::kBytes + (names.size() + kPage - 1) / kPage * kPage;
  const Result<Fd> file = new_file(folder, rank.world_rank);
  if (!file) return file.status();
  const auto mapped = map_file(*file, events_at + capacity * sizeof(TraceSlot));
  if (!mapped) return mapped.status();
  std::unique_ptr<TraceWriter> writer(new (std::nothrow) TraceWriter(*mapped));
  if (writer == nullptr) return Status{Code::full, ENOMEM};
  std::memcpy(mapped->data() + TraceHeader::kBytes, names.data(), names.size());
  writer->ring_ = reinterpret_cast<TraceSlot*>(mapped->data() + events_at);
  writer->capacity_ = capacity;
  fill_header(writer->header(), rank, names, events_at, capacity);
  return writer;
}

void TraceWriter::add(const TraceEvent& event) {
  TraceTotal& total = header().totals[static_cast<std::size_t>(event.kind)];
  const auto sum = [](std::atomic<std::uint64_t>& to, std::uint64_t amount) {
    if (amount != 0) to.fetch_add(amount, std::memory_order_relaxed);
  };
  sum(total.events, 1);
  sum(total.count, event.count);
  sum(total.bytes, event.bytes);
  sum(total.extent, event.extent);
  sum(total.transfer, event.transfer);
  sum(total.waiting, event.waiting);
  // relaxed: the event's number in the trace reserves a place for this thread alone, unless the
  // ring wraps around before the event is written.
  const std::uint64_t index = header().events.fetch_add(1, std::memory_order_relaxed);
  TraceSlot& here = slot(index);
  here.number.store(0, std::memory_order_relaxed);
  // The fence orders the 0 in `number` before the event: a reader that sees a part of the new event
  // finds the old number gone. The store of `number` below is a release: a reader that sees the new
  // number sees the whole event.
  std::atomic_thread_fence(std::memory_order_release);
  here.event = event;
  here.event.cpu = static_cast<std::uint32_t>(std::max(::sched_getcpu(), 0));
  here.number.store(index + 1, std::memory_order_release);
}

// Records that the trace ends at `now`. relaxed: a reader of the file during the run wants a recent
// value.
void TraceWriter::end(std::uint64_t now) {
  header().end_ticks.store(now, std::memory_order_relaxed);
}

void CallTrace::gather(const TraceEvent& call) {
  if (gathered_.kind == EventKind::none) {
    gathered_ = call;
    gathered_.kind = EventKind::brief_calls;
    gathered_.peer = kNoPeer;
    gathered_.detail = 0;
    return;
  }
  gathered_.extent = call.begin + call.extent - gathered_.begin;
  gathered_.transfer += call.transfer;
  gathered_.waiting += call.waiting;
  gathered_.bytes += call.bytes;
  gathered_.count += call.count;
  if (call.call != gathered_.call) gathered_.call = kNoCall;
}

void CallTrace::add(TraceWriter& writer, const TraceEvent& call) {
  static const std::uint64_t brief = ticks_from_ns(kBriefNs);
  static const std::uint64_t gathered_for = ticks_from_ns(kGatheredForNs);
  const bool is_brief = call.extent < brief;
  const bool is_due = gathered_.kind != EventKind::none &&
                      (!is_brief || call.begin - gathered_.begin > gathered_for);
  if (is_due) flush(writer);
  if (is_brief) return gather(call);
  writer.add(call);
}

void CallTrace::flush(TraceWriter& writer) {
  if (gathered_.kind == EventKind::none) return;
  writer.add(gathered_);
  gathered_.kind = EventKind::none;
}

}  // namespace mh::observe
