// SPDX-License-Identifier: BSD-3-Clause
// The implementation of src/base/emulated.hpp for emulated nodes. A copy (the lifetime of a Leaf)
// and an access to a shared cache line take emulated time, and ranks that use the same line wait.
//
// A thread's *due time* is the time at which its last emulated work ends. A thread that wakes late
// begins its next work at the due time, so the lateness of the emulating machine does not add up. A
// thread that is late by more than kLateness ns begins at the present time. A file that all ranks
// map has the state of the modelled node: the active copiers of each NUMA node, and the core that
// has each cache line. The file also has the last writer of each 32 KB of a buffer, and the times
// until which a line, or the lock of a process's pages, is in use.
//
// Limits: loads and stores of the program and of the MPI library take no emulated time. Two
// addresses may share an entry of the file's tables (lines, locks, pieces). A thread sleeps only
// when its due time is more than kSleepNs ahead; a shorter time delays the thread's next work.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>

#include "base/emulated.hpp"
#include "model.hpp"

namespace mh::emulated {
namespace {

constexpr std::uint64_t kPiece = 32U << 10U;  // bytes that have one entry for their last writer
constexpr double kPage = 4096;
constexpr std::uint64_t kRegion = 2U << 20U;  // bytes of pages that one lock of the kernel guards
constexpr std::size_t kLines = 1U << 14U;
constexpr std::size_t kPieces = 1U << 18U;
constexpr std::uint32_t kRanks = 1024;
constexpr std::int64_t kSleepNs = 150'000;
constexpr std::int64_t kLateness = 1'500'000;

struct alignas(64) Line {
  std::atomic<std::int64_t> free_at;
  std::atomic<std::uint32_t> version;  // counts writes for which the line moves to the writer
  std::atomic<std::uint32_t> writer;   // rank + 1 of the last writer; 0: nobody
  std::atomic<std::uint32_t> readers;  // reads by other ranks since the last write
};

// The time that a rank has spent in copies (leaves) and in waits for shared cache lines, in
// nanoseconds of the modelled machine. `mh bench` reads these numbers from the file that all ranks
// of the emulated node map.
struct Spent {
  std::atomic<std::uint64_t> in_leaves;
  std::atomic<std::uint64_t> in_lines;
};

// The contents of the file that all ranks of the emulated node map. Every access is relaxed: the
// numbers only give the length of waits, and no rank reads other data because of them.
struct Shared {
  Spent spent[kRanks];
  Line lines[kLines];
  Line regions[kLines];
  // Three numbers in a word, by hash of a 32 KB piece of a buffer. The first is the rank that last
  // wrote the piece (rank + 1; 0: nobody). The others are the pieces that had been copied by then:
  // by that rank (`copied_by`), and by all ranks (`copied`).
  std::atomic<std::uint64_t> pieces[kPieces];
  std::atomic<std::uint32_t> active[kRanks];  // by NUMA node: ends of running copies, two for each
  alignas(64) std::atomic<std::uint64_t> copied;
  std::atomic<std::uint64_t> copied_by[kRanks];
};

struct Emulator {
  emulate::Plan plan;
  Shared* shared = nullptr;
  std::uint32_t me = 0;
  std::uintptr_t segment = 0;
  std::atomic<std::uint32_t> seen[kLines] = {};  // by line: version that this rank has in its cache
};
Emulator* emulator = nullptr;

constinit thread_local std::int64_t t_due = 0;
constinit thread_local int t_leaves = 0;
constinit thread_local std::uint32_t t_lender = UINT32_MAX;  // the rank whose core a helper has

std::int64_t now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

std::int64_t begin() {
  const std::int64_t now = now_ns();
  return now - t_due < kLateness ? t_due : now;
}

void sleep_until(std::int64_t due) {
  const timespec at{.tv_sec = due / 1'000'000'000, .tv_nsec = due % 1'000'000'000};
  while (::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, nullptr) != 0) {
  }
}

void end_at(std::int64_t due) {
  t_due = due;
  if (due - now_ns() > kSleepNs) sleep_until(due);
}

std::int64_t dilated(double ns) { return static_cast<std::int64_t>(ns * emulator->plan.dilation); }

const emulate::Model& model() { return emulator->plan.model; }
std::uint16_t numa_of(std::uint32_t rank) {
  return rank < emulator->plan.numa.size() ? emulator->plan.numa[rank] : std::uint16_t{0};
}
std::uint32_t owner_of(const Place& place) {
  return place.rank == kOwnPlace.rank ? emulator->me : place.rank;
}
// The rank on whose core the calling thread runs: this rank, or the lender of the core.
std::uint32_t core() { return t_lender == UINT32_MAX ? emulator->me : t_lender; }
bool is_near(std::uint32_t rank) { return numa_of(rank) == numa_of(core()); }

std::size_t mixed(std::uint64_t key, std::size_t entries) {
  return (key * 0x9e3779b97f4a7c15ULL >> 20U) % entries;
}

// Reserves a modelled cache line for `length` ns from time `at` on, or from `free_at` on if that is
// later. `free_at` is the end of the last reservation by any rank; it becomes the end of the new
// one. Returns this end, at which the caller's access is complete.
std::int64_t reserve(std::atomic<std::int64_t>& free_at, std::int64_t at, std::int64_t length) {
  std::int64_t free = free_at.load(std::memory_order_relaxed);
  std::int64_t end = 0;
  do {
    end = std::max(free, at) + length;
  } while (!free_at.compare_exchange_weak(free, end, std::memory_order_relaxed));
  return end;
}

void count(std::atomic<std::uint64_t>& spent, std::int64_t from, std::int64_t to) {
  const double ns = static_cast<double>(to - from) / emulator->plan.dilation;
  spent.fetch_add(static_cast<std::uint64_t>(ns), std::memory_order_relaxed);
}

// ---- Emulated time of copies ------------------------------------------------------------------

// Returns the number of cores that now copy to or from the memory of the NUMA node on which `rank`
// runs, at least 1. A copy between two NUMA nodes counts as half a core at each.
double active_at(std::uint32_t rank) {
  const auto halves = emulator->shared->active[numa_of(rank)].load(std::memory_order_relaxed);
  return std::max(1.0, halves / 2.0);
}

void count_active(const Place& to, const Place& from, bool begins) {
  for (const Place* place : {&to, &from}) {
    auto& count = emulator->shared->active[numa_of(owner_of(*place))];
    begins ? count.fetch_add(1, std::memory_order_relaxed)
           : count.fetch_sub(1, std::memory_order_relaxed);
  }
}

std::atomic<std::uint64_t>& entry_of(const Place& place) {
  const std::uint64_t key = std::uint64_t{owner_of(place)} << 44U ^ place.address / kPiece;
  return emulator->shared->pieces[mixed(key, kPieces)];
}

constexpr std::uint64_t kCount = (1ULL << 26U) - 1;

// The last write to a 32 KB piece of a buffer. From it follows in which core's cache the piece
// still is.
struct Written {
  std::uint32_t by;        // rank + 1; 0: nobody
  double since_by_writer;  // bytes that the writer has copied since the write
  double since;            // bytes that all ranks have copied since the write
};

Written last_write(const Place& to) {
  const Shared& shared = *emulator->shared;
  const std::uint64_t word = entry_of(to).load(std::memory_order_relaxed);
  const auto by = static_cast<std::uint32_t>(word >> 52U);
  if (by == 0) return {0, HUGE_VAL, HUGE_VAL};
  const auto since = [](const std::atomic<std::uint64_t>& now, std::uint64_t then) {
    return static_cast<double>((now.load(std::memory_order_relaxed) - then) & kCount) * kPiece;
  };
  return {by, since(shared.copied_by[by - 1], word >> 26U & kCount),
          since(shared.copied, word & kCount)};
}

void note_write(const Place& to) {
  Shared& shared = *emulator->shared;
  const auto all = shared.copied.fetch_add(1, std::memory_order_relaxed);
  const auto mine = shared.copied_by[core()].fetch_add(1, std::memory_order_relaxed);
  const std::uint64_t by = core() + 1;
  entry_of(to).store(by << 52U | (mine & kCount) << 26U | (all & kCount),
                     std::memory_order_relaxed);
}

// Returns the rate in bytes per ns at which the calling thread's core copies between its caches and
// the memory of `rank`. All cores that copy to or from that memory share the throughput that
// `curve` gives.
double rate_at(const emulate::Curve& curve, std::uint32_t rank) {
  return curve.each(active_at(rank)) * (is_near(rank) ? 1 : model().remote_copy);
}

struct Piece {
  Way way;
  Place to;
  Place from;
  double bytes;
};

// Returns the time in ns of a copy by the calling thread's core: of half of the bytes at the rate
// of reading the source, and of half at the rate of writing the destination. `last` is the last
// write to the destination. If the lines that it wrote are still in another core's cache, they move
// to this core before they are written again. Lines of the source stay in the caches where they
// are, since every core only reads them.
double copy_ns(const Piece& piece, const Written& last) {
  const std::uint32_t to = owner_of(piece.to);
  const std::uint32_t from = owner_of(piece.from);
  const emulate::Curve& curve = model().curve_for(std::min(last.since, 1e12));
  double to_rate = rate_at(curve, to);
  const bool elsewhere =
      last.by != 0 && last.by - 1 != core() && last.since_by_writer < model().l2_bytes / 2;
  const double from_rate = rate_at(curve, from);
  if (elsewhere) {
    const double cores = std::max(2.0, active_at(to));
    const double far = is_near(last.by - 1) ? 1 : model().remote_line;
    to_rate = std::min(to_rate, model().between.each(cores) / far);
  }
  return piece.bytes / 2 / to_rate + piece.bytes / 2 / from_rate;
}

// Returns the time in ns of a piece of work other than a copy (a sum, or blocks with gaps). A core
// that is alone processes `rate` bytes per ns. Other active cores lengthen this time by the same
// factor as the time of a copy.
double slowed(double rate, const Piece& piece, const Written& last) {
  const emulate::Curve& curve = model().curve_for(std::min(last.since, 1e12));
  const double alone = piece.bytes / curve.each(1);
  return piece.bytes / rate * std::max(1.0, copy_ns(piece, last) / alone);
}

double piece_ns(const Piece& piece, const Written& last) {
  const double pages = piece.bytes / kPage;
  switch (piece.way) {
    case Way::copy:
      return copy_ns(piece, last);
    case Way::kernel:
      return copy_ns(piece, last) + pages * model().page_ns;
    case Way::twice:  // the second copy reads a scratch buffer that is in the cache
      return copy_ns(piece, last) + piece.bytes / model().copy.front().curve.each(1) +
             2 * pages * model().page_ns;
    case Way::blocks:
      return slowed(model().blocks, piece, last);
    case Way::reduce:
      return slowed(model().reduce, piece, last);
  }
  return 0;
}

// Returns the time at which a copy by the kernel that reaches the pages of `of` at time `at` has
// locked them and counted its references to them. Only pages of another process cost time. Cores
// that copy from or to the same 2 MB of pages wait for each other, because one lock of the kernel
// guards them.
std::int64_t after_pages(const Place& of, double bytes, std::int64_t at) {
  const std::uint32_t rank = owner_of(of);
  if (rank == emulator->me) return at;
  const std::uint64_t key = std::uint64_t{rank} << 44U ^ of.address / kRegion;
  Line& line = emulator->shared->regions[mixed(key, kLines)];
  const std::uint32_t before = line.writer.exchange(core() + 1, std::memory_order_relaxed);
  if (before == core() + 1 || before == 0) return at;
  // For each page, the cache line of the kernel's lock moves once to a core that finds the lock
  // free, and model().page_lines times to a core that waits for the lock.
  const bool waits = line.free_at.load(std::memory_order_relaxed) > at;
  const double ns = bytes / kPage * (waits ? model().page_lines : 1) * model().line_ns;
  return reserve(line.free_at, at, dilated(ns * (is_near(before - 1) ? 1 : model().remote_line)));
}

std::int64_t after_piece(const Piece& piece, std::int64_t at) {
  const Written last = last_write(piece.to);
  std::int64_t due = at + dilated(piece_ns(piece, last));
  if (piece.way == Way::kernel || piece.way == Way::twice) {
    due = after_pages(piece.from, piece.bytes, due);
    due = after_pages(piece.to, piece.bytes, due);
  }
  note_write(piece.to);
  return due;
}

// ---- Emulated time of shared cache lines ------------------------------------------------------

double line_ns(std::uint32_t writer) {
  const bool near = writer == 0 || is_near(writer - 1);
  return model().line_ns * (near ? 1 : model().remote_line);
}

// Lets this thread wait, in emulated time, until other ranks' transfers of the line are over and
// the line has moved from `writer` (rank + 1; 0: nobody) to this core.
void take_line(Line& line, std::uint32_t writer) {
  const std::int64_t from = begin();
  const std::int64_t due = reserve(line.free_at, from, dilated(line_ns(writer)));
  count(emulator->shared->spent[core()].in_lines, from, due);
  end_at(due);
}

void read_line(Line& line, std::atomic<std::uint32_t>& seen) {
  const std::uint32_t version = line.version.load(std::memory_order_relaxed);
  const std::uint32_t writer = line.writer.load(std::memory_order_relaxed);
  if (seen.load(std::memory_order_relaxed) == version || writer == core() + 1) return;
  line.readers.fetch_add(1, std::memory_order_relaxed);
  seen.store(version, std::memory_order_relaxed);
  take_line(line, writer);
}

void write_line(Line& line) {
  const std::uint32_t mine = core() + 1;
  const std::uint32_t writer = line.writer.exchange(mine, std::memory_order_relaxed);
  const std::uint32_t readers = line.readers.exchange(0, std::memory_order_relaxed);
  if (writer == mine && readers == 0) return;
  line.version.fetch_add(1, std::memory_order_relaxed);
  take_line(line, writer);
}

// ---- Start of the emulation -------------------------------------------------------------------

Shared* map_shared(const char* path) {
  const int fd = ::open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0 || ::ftruncate(fd, sizeof(Shared)) != 0) return nullptr;
  void* const found = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ::close(fd);
  return found == MAP_FAILED ? nullptr : static_cast<Shared*>(found);
}

[[gnu::constructor]] void load() {
  const char* const path = ::getenv("MANYHANDS_EMULATION");
  if (path == nullptr) return;
  auto* made = new (std::nothrow) Emulator;
  if (made == nullptr) return;
  try {
    made->plan = emulate::read_plan(path);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "emulation: %s: %s\n", path, error.what());
    return;
  }
  made->shared = map_shared(made->plan.shared.c_str());
  if (made->shared == nullptr) return;
  ::prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
  dilation = made->plan.dilation;
  emulator = made;
}

}  // namespace

Leaf::Leaf(Way way, Place to, Place from, std::uint64_t bytes)
    : way_(way), to_(to), from_(from), bytes_(bytes) {
  if (emulator == nullptr || t_leaves++ != 0) return;
  begin_ = begin();
  count_active(to_, from_, true);
}

Leaf::~Leaf() {
  if (emulator == nullptr || --t_leaves != 0) return;
  const bool by_kernel = way_ == Way::kernel || way_ == Way::twice;
  std::int64_t due = begin_ + (by_kernel ? dilated(model().call_ns) : 0);
  for (std::uint64_t done = 0; done < bytes_; done += kPiece) {
    const auto bytes = static_cast<double>(std::min(kPiece, bytes_ - done));
    due = after_piece(
        {way_, {to_.rank, to_.address + done}, {from_.rank, from_.address + done}, bytes}, due);
    end_at(due);
  }
  count(emulator->shared->spent[core()].in_leaves, begin_, due);
  count_active(to_, from_, false);
}

LentCore::LentCore(std::uint32_t lender) { t_lender = lender; }
LentCore::~LentCore() { t_lender = UINT32_MAX; }

void enter(std::uint32_t me, const std::byte* segment) {
  if (emulator == nullptr) return;
  emulator->me = me;
  emulator->segment = reinterpret_cast<std::uintptr_t>(segment);
}

void touch(const void* line, Access access) {
  if (emulator == nullptr || emulator->segment == 0) return;
  const std::uintptr_t at = reinterpret_cast<std::uintptr_t>(line) - emulator->segment;
  const std::size_t index = mixed(at / 64, kLines);
  Line& found = emulator->shared->lines[index];
  access == Access::read ? read_line(found, emulator->seen[index]) : write_line(found);
}

void match() {
  if (emulator != nullptr) end_at(begin() + dilated(model().match_ns));
}

void hand_over() {
  if (emulator != nullptr) end_at(begin() + dilated(model().hand_over_ns));
}

bool pause() {
  if (emulator == nullptr || emulator->segment == 0) return false;
  const auto nap = static_cast<std::int64_t>(emulator->plan.nap_ns);
  t_due = std::max(begin(), now_ns() - kSleepNs) + nap;
  sleep_until(t_due);
  return true;
}

std::int32_t cpu(std::int32_t real) {
  if (emulator == nullptr || emulator->me >= emulator->plan.cpus.size()) return real;
  return emulator->plan.cpus[emulator->me];
}

const char* topology() { return emulator == nullptr ? nullptr : model().topology.c_str(); }

}  // namespace mh::emulated
