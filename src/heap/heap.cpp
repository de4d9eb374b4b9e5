// SPDX-License-Identifier: BSD-3-Clause
#include "heap/heap.hpp"

#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "heap/system.hpp"

namespace mh::heap {
namespace {

constexpr std::size_t kFirstStep = 64U << 20U;
constexpr std::size_t kStagger = 256;
constexpr std::uint32_t kPlaces = 16;
// A block of this size or more begins in a huge page of its own.
constexpr std::size_t kHugeBlock = 4U << 20U;
constexpr std::uint64_t kLookEveryMs = 250;
// The largest block that is served where shared memory has small pages and private memory would
// have huge pages. Message buffers are mostly smaller and gain from sharing; arrays are larger and
// would lose their huge pages.
constexpr std::uint64_t kLargestInSmallPages = 4U << 20U;

Span span_of(const void* address, std::size_t bytes) {
  return {reinterpret_cast<std::uint64_t>(address), bytes};
}

std::uint64_t milliseconds() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1000 +
         static_cast<std::uint64_t>(now.tv_nsec) / 1'000'000;
}

constexpr std::size_t round_up(std::size_t bytes, std::size_t to) {
  return (bytes + to - 1) / to * to;
}

// The stagger: the distance in bytes from the beginning of an extent to its block. It depends on
// the number of the extent's first page: an extent has the same stagger each time, and neighbours
// of equal size have different ones. Otherwise neighbouring blocks would share sets of the caches.
std::size_t stagger_of(Page first) { return (first * 0x9E3779B1U >> 28U) % kPlaces * kStagger; }

}  // namespace

Heap::Options Heap::options_for(Mode mode, const Facts& facts) {
  constexpr std::uint64_t kLeast = 32U << 20U;
  constexpr std::uint64_t kMost = 2ULL << 30U;
  Options options;
  options.reserve = facts.strict_memory;
  options.bounded = mode == Mode::automatic;
  options.promote_asked = !facts.shared_huge && facts.collapse;
  options.promote = facts.private_huge && options.promote_asked && !options.bounded;
  const std::uint64_t total = memory().total;
  if (total == UINT64_MAX) return options;
  const auto cpus = static_cast<std::uint64_t>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
  options.largest = options.bounded && huge_pages_lost(facts) ? kLargestInSmallPages : total;
  options.keep = std::clamp(total / cpus / 16, kLeast, kMost);
  return options;
}

void Heap::start(const Options& options) {
  options_ = options;
  options_.largest = std::min(options.largest, kMaxHeapBytes / 4);
  bound_.store(options.keep, std::memory_order_relaxed);
  if (options.bounded) budget_.begin(milliseconds());
  page_bytes_ = page_bytes();
  page_bits_ = static_cast<unsigned>(std::countr_zero(page_bytes_));
  started_.store(true, std::memory_order_release);
}

// --- growth of the heap -----------------------------------------------------------------------

bool Heap::open_locked() {
  if (file_.state() != File::State::none) return true;
  if (refused_ || !started()) return false;
  const NoSignals quiet;
  const std::size_t pages = kFirstStep / page_bytes_;
  refused_ = !extents_.reach(pages) || !file_.open(kFirstStep);
  // The last mapped page is left to File::grow(). Each growth makes that page free, and leaves the
  // new last page.
  if (!refused_) extents_.add(static_cast<Page>(pages - 1));
  return !refused_;
}

bool Heap::grow_locked(std::size_t bytes) {
  const NoSignals quiet;
  const std::size_t now = file_.bytes();
  const std::size_t step = round_up(std::max({bytes, kFirstStep, now / 8}), kHugePage);
  const std::size_t pages = (now + step) / page_bytes_;
  if (pages >= kNoPage || limited() || !extents_.reach(pages) || !file_.grow(step)) return false;
  extents_.add(static_cast<Page>(step / page_bytes_));
  return true;
}

bool Heap::ensure_file() {
  const KeepErrno keep;
  const Hold hold(lock_);
  return hold && open_locked() && file_.shared();
}

// --- allocation of blocks ---------------------------------------------------------------------

// The pages of an extent for a block of `bytes` bytes. A block begins at a distance from the
// beginning of its extent, the stagger. Room for the largest stagger counts in every extent, so
// that a freed extent fits the next block of the same size. Blocks with a larger alignment have no
// stagger.
Page Heap::pages_for(std::size_t bytes, std::size_t alignment) const {
  const std::size_t room = alignment <= kStagger ? kStagger * (kPlaces - 1) : 0;
  return static_cast<Page>((bytes + room + page_bytes_ - 1) >> page_bits_);
}

void* Heap::place(Page first, std::size_t alignment) const {
  const std::size_t offset = alignment <= kStagger ? stagger_of(first) : 0;
  return reinterpret_cast<void*>(address_of(first) + offset);
}

void Heap::count_locked(Page first) {
  stats_.used += bytes_of(first);
  stats_.peak = std::max(stats_.peak, stats_.used);
}

void Heap::discount_locked(Page first) { stats_.used -= bytes_of(first); }

bool Heap::affordable_locked(Page pages) const {
  return budget_.allows(std::uint64_t{pages} * page_bytes_, milliseconds());
}

Taken Heap::take_locked(const Wish& wish) {
  if (!open_locked()) return {};
  const Page pages = pages_for(wish.room, wish.alignment);
  const std::size_t by =
      std::max({wish.alignment, wish.room >= kHugeBlock ? kHugePage : 1, page_bytes_});
  const auto aligned = static_cast<Page>(by >> page_bits_);
  const auto origin = static_cast<Page>(file_.base() >> page_bits_ & (aligned - 1));
  const auto from = wish.fresh ? Extents::From::empty : Extents::From::kept_first;
  Taken taken = extents_.take(pages, aligned, origin, from);
  if (!taken && affordable_locked(pages) &&
      grow_locked((std::size_t{pages} + aligned) * page_bytes_)) {
    taken = extents_.take(pages, aligned, origin, from);
  }
  if (!taken) return taken;
  // The limits of the process and the budget apply only to fresh memory: pages that hold no memory
  // yet. If these forbid the block, the pages become free again.
  if (taken.fresh != 0 && (limited() || !affordable_locked(taken.fresh))) {
    taken.zero ? extents_.left(taken.first) : extents_.give(taken.first);
    return {};
  }
  budget_.spend(std::uint64_t{taken.fresh} * page_bytes_);
  if (taken.zero) look_at_memory_locked();
  extents_.note(taken.first, wish.bytes);
  count_locked(taken.first);
  ++stats_.blocks;
  if (options_.promote && taken.zero)
    promotion_.add(address_of(taken.first), bytes_of(taken.first));
  return taken;
}

// Takes an extent for a block; an empty result if the heap cannot serve the block. With
// Options::reserve, the kernel allocates the extent's pages at once, while no lock is held.
Taken Heap::take(const Wish& wish) {
  Taken taken;
  std::size_t bytes = 0;
  {
    const Hold hold(lock_);
    if (!hold) return {};
    taken = take_locked(wish);
    if (!taken || !taken.zero || !options_.reserve) return taken;
    bytes = bytes_of(taken.first);
  }
  if (file_.reserve(address_of(taken.first), bytes)) return taken;
  const Hold hold(lock_);
  discount_locked(taken.first);
  extents_.left(taken.first);
  return {};
}

// Takes a cached block of `pages` pages; kNoPage if there is none. Lengths that differ by a
// multiple of 16 pages share a cache slot: a block of another length is released.
Page Heap::take_cached(Page pages) {
  const Page first = cache_.take(pages);
  if (first == kNoPage || extents_.pages_of(first) == pages) return first;
  release_extent(first);
  return kNoPage;
}

void* Heap::allocate(std::size_t bytes, std::size_t alignment, bool zero) {
  if (!started() || bytes > options_.largest || alignment > options_.largest) return nullptr;
  const Page pages = pages_for(bytes, alignment);
  if (pages <= BlockCache::kMostPages && alignment <= page_bytes_) [[likely]] {
    const Page first = take_cached(pages);
    if (first != kNoPage) [[likely]] {
      extents_.note(first, bytes);
      void* block = place(first, alignment);
      return zero ? std::memset(block, 0, bytes) : block;
    }
  }
  return allocate_extent(bytes, alignment, zero);
}

void* Heap::allocate_extent(std::size_t bytes, std::size_t alignment, bool zero) {
  const KeepErrno keep;
  const Taken taken = take({.bytes = bytes, .room = bytes, .alignment = alignment});
  if (!taken) return nullptr;
  void* block = place(taken.first, alignment);
  if (zero && !taken.zero) std::memset(block, 0, bytes);
  if (bound_.load(std::memory_order_relaxed) == 0) give_back(0);
  collapse_one();
  return block;
}

// --- release of blocks ------------------------------------------------------------------------

Page Heap::extent_of(const void* block) const {
  const auto page =
      static_cast<Page>((reinterpret_cast<std::uint64_t>(block) - file_.base()) >> page_bits_);
  return extents_.begins_used(page) ? page : kNoPage;
}

void Heap::release_locked(Page first) {
  discount_locked(first);
  if (file_.isolated() != 0) [[unlikely]] {
    file_.share_again({address_of(first), bytes_of(first)});
  }
  extents_.give(first);
}

// Leaves the release of an extent to the next thread that releases one, because the calling thread
// already holds the lock. The list of such extents is changed by compare-and-swap, because a signal
// handler may interrupt any instruction of this function and call it, too.
void Heap::release_later(Page first) {
  Page head = deferred_.load(std::memory_order_relaxed);
  do {
    extents_.chain(first, head);
  } while (!deferred_.compare_exchange_weak(head, first, std::memory_order_relaxed));
}

void Heap::release_deferred_locked() {
  for (Page first = deferred_.exchange(kNoPage, std::memory_order_relaxed); first != kNoPage;) {
    const Page following = extents_.chained(first);
    release_locked(first);
    first = following;
  }
}

// True if a freed extent may go to the cache of small blocks. A heap with isolated (private) spans
// caches nothing, because only a release without the cache makes a span shared again. A heap that
// returns its memory at once, because memory is short, caches nothing either.
bool Heap::may_cache(Page first) const {
  return extents_.pages_of(first) <= BlockCache::kMostPages && file_.isolated() == 0 &&
         bound_.load(std::memory_order_relaxed) != 0;
}

void Heap::release(void* block) {
  Page first = extent_of(block);
  if (first == kNoPage) return;
  if (may_cache(first)) [[likely]]
    first = cache_.put(first, extents_.pages_of(first));
  if (first != kNoPage) release_extent(first);
}

void Heap::release_extent(Page first) {
  const KeepErrno keep;
  std::uint64_t kept = 0;
  {
    const Hold hold(lock_);
    if (!hold) return release_later(first);
    if (deferred_.load(std::memory_order_relaxed) != kNoPage) release_deferred_locked();
    release_locked(first);
    look_at_memory_locked();
    kept = extents_.kept() * page_bytes_;
  }
  const std::uint64_t bound = bound_.load(std::memory_order_relaxed);
  if (kept > bound) give_back(bound);
  collapse_one();
}

void Heap::release_cached() {
  for (Page first = cache_.take_any(); first != kNoPage; first = cache_.take_any()) {
    release_extent(first);
  }
}

void Heap::look_at_memory_locked() {
  const std::uint64_t now = milliseconds();
  if (now - looked_at_ms_ < kLookEveryMs) return;
  looked_at_ms_ = now;
  const Memory memory = heap::memory();
  const bool is_short = memory.available < memory.total / 16;
  bound_.store(is_short ? 0 : options_.keep, std::memory_order_relaxed);
}

void Heap::give_back(std::uint64_t bound) {
  for (;;) {
    Run run;
    {
      const Hold hold(lock_);
      const std::uint64_t kept = extents_.kept() * page_bytes_;
      if (!hold || kept <= bound) return;
      // Returns whole huge pages to the system, and a sixteenth of `bound` (the most kept bytes)
      // more than needed, so that not every release of a block calls the kernel.
      const std::uint64_t excess = round_up(kept - bound + bound / 16, kHugePage);
      run = extents_.leave(static_cast<Page>(excess / page_bytes_));
    }
    const std::size_t bytes = std::size_t{run.pages} * page_bytes_;
    const bool dropped = file_.drop(address_of(run.first), bytes);
    const Hold hold(lock_);
    if (!dropped) {  // the run may still hold memory (locked by the program), so it stays kept
      extents_.give(run.first);
      return;
    }
    stats_.returned += bytes;
    extents_.left(run.first);
  }
}

void Heap::trim() {
  const KeepErrno keep;
  release_cached();
  give_back(0);
}

// --- resizing of blocks -----------------------------------------------------------------------

// Implements malloc_usable_size(). Returns the bytes that the program has requested, not the
// extent's: resize() need not preserve bytes that the program does not know of.
std::size_t Heap::usable(const void* block) {
  const Hold hold(lock_);
  const Page first = extent_of(block);
  return first == kNoPage ? 0 : extents_.noted(first);
}

// Resizes a block's extent in place. An extent more than twice as long as needed is shortened; a
// smaller excess stays. False if the extent cannot grow.
bool Heap::resize_locked(Page first, std::size_t bytes) {
  const Page pages = pages_for(bytes, 1);
  const Page now = extents_.pages_of(first);
  const Page more = pages > now ? pages - now : 0;
  if (more != 0 && (options_.reserve || limited() || !affordable_locked(more))) return false;
  discount_locked(first);
  const bool fits = (pages <= now && pages >= now / 2) || extents_.resize(first, pages);
  count_locked(first);
  if (!fits) return false;
  extents_.note(first, bytes);
  budget_.spend(std::uint64_t{more} * page_bytes_);
  return true;
}

void* Heap::resize(void* block, std::size_t bytes) {
  if (bytes > options_.largest) return nullptr;
  const KeepErrno keep;
  {
    const Hold hold(lock_);
    const Page first = extent_of(block);
    if (!hold || first == kNoPage) return nullptr;
    if (resize_locked(first, bytes)) return block;
  }
  return moved(block, bytes);
}

// Moves a block that cannot be resized in place to a new extent, which has half as much room again,
// because a block that has grown usually grows again. A large block gets this room in empty pages,
// which cost only address space until they are touched. A small block gets the room in kept pages
// of freed blocks, which need no first touch.
void* Heap::moved(void* block, std::size_t to) {
  constexpr std::size_t kMostRoom = 1U << 30U;
  constexpr std::size_t kLarge = 512U << 10U;
  Taken taken;
  if (!options_.reserve) {
    taken = take({.bytes = to, .room = to + std::min(to / 2, kMostRoom), .fresh = to >= kLarge});
  }
  if (!taken) taken = take({.bytes = to, .room = to});
  if (!taken) return nullptr;
  void* there = place(taken.first, 1);
  std::memcpy(there, block, std::min(usable(block), to));
  release(block);
  return there;
}

// --- collapsing touched pages into huge pages -------------------------------------------------

void Heap::wants_huge(const void* address, std::size_t bytes) {
  if (!options_.promote_asked || !owns(address)) return;
  const Hold hold(lock_);
  if (hold) promotion_.add(reinterpret_cast<std::uint64_t>(address), bytes);
}

// Collapses the next touched 2-MB range of the list `promotion_` into a huge page. All threads
// together do this at most once a tick of the coarse clock (some milliseconds), since checking
// untouched memory is not free.
void Heap::collapse_one() {
  if (promotion_.idle()) return;
  const std::uint64_t now = milliseconds();
  if (collapsed_ms_.exchange(now, std::memory_order_relaxed) == now) return;
  std::uint64_t address = 0;
  {
    const Hold hold(lock_);
    if (hold) address = promotion_.next();
  }
  if (address == 0) return;
  const bool done = Promotion::collapse(address);
  const Hold hold(lock_);
  promotion_.settle(address, !done);
}

// --- queries, isolation and emptying of ranges ------------------------------------------------

Stats Heap::stats() {
  const Hold hold(lock_);
  Stats stats = stats_;
  stats.kept = extents_.kept() * page_bytes_;
  stats.mapped = file_.bytes();
  stats.resident = file_.resident();
  stats.statics = file_.static_bytes();
  return stats;
}

void Heap::stop_growing() {
  const Hold hold(lock_);
  budget_.end();
}

// Tells whether peers can reach these bytes. Takes the lock only if some span of the heap is
// isolated (private), which is rare.
bool Heap::reaches(std::uint64_t address, std::size_t bytes) {
  if (!file_.reaches(address, bytes)) return false;
  if (file_.isolated() == 0) [[likely]]
    return true;
  const Hold hold(lock_);
  return !file_.is_isolated({address, bytes});
}

void Heap::isolate(const void* address, std::size_t bytes) {
  if (!touches(address, bytes)) return;
  const KeepErrno keep;
  const Hold hold(lock_);
  if (hold) file_.isolate(span_of(address, bytes));
}

bool Heap::touches(const void* address, std::size_t bytes) const {
  return file_.touches(span_of(address, bytes));
}

void Heap::empty(const void* address, std::size_t bytes) {
  const KeepErrno keep;
  const Hold hold(lock_);
  file_.empty(span_of(address, bytes));
}

const char* Heap::check() {
  const Hold hold(lock_);
  return extents_.check();
}

}  // namespace mh::heap
