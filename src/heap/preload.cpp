// SPDX-License-Identifier: BSD-3-Clause
// libmanyhands-heap.so: the malloc family as the program sees it.
//
// Small blocks, and all that the shared heap does not serve, go to the next allocator (usually the
// C library's), at the cost of a comparison and a jump. The address of a block tells which
// allocator owns it. With MH_HEAP=off `mh run` does not preload this library. Before its
// constructor has run, the library only forwards calls. The library is mapped into every process of
// an MPI job, so it has no destructor and no C++ run time.
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "heap/conditions.hpp"
#include "heap/door.h"
#include "heap/forking.hpp"
#include "heap/heap.hpp"
#include "heap/next.hpp"
#include "heap/statics.hpp"

#define MH_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using mh::heap::Facts;
using mh::heap::Heap;
using mh::heap::Next;
using mh::heap::Verdict;

constinit Heap heap;
constinit mh::heap::Forking forking(heap);
constinit std::atomic<Verdict> verdict{Verdict::switched_off};

// --- the next allocator -----------------------------------------------------------------------

// The functions of the next allocator, behind this library in the loader's order. Written once,
// before a second thread exists: the loader allocates before it starts the program.
constinit Next next{};
constinit std::atomic<bool> found_next{false};

void before_fork() { forking.prepare(); }
void after_fork_in_parent() { forking.parent(); }
void after_fork_in_child() { forking.child(); }

// Finds the next allocator, and registers the heap's handlers of fork(). Runs at the first call of
// any exported function, including registrations of fork() handlers, so that the heap's handlers
// are registered first. The heap's prepare handler then runs after all others, and its parent and
// child handlers before all others: no other handler runs in between.
[[gnu::noinline]] void start_forwarding() {
  mh::heap::find_next(next);
  found_next.store(true, std::memory_order_release);
  ::pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

// The next allocator's functions. Acquire: pairs with the release in start_forwarding().
inline const Next& forward() {
  if (!found_next.load(std::memory_order_acquire)) [[unlikely]]
    start_forwarding();
  return next;
}

// --- the start of the heap --------------------------------------------------------------------

// Whether the heap has been started. A start asks the system a dozen times whether this process
// gets a heap (judge()). Most processes of an MPI job (shells, launchers) have no large block and
// no large static array, and never start it. The state is `waiting` from the constructor until the
// first thread starts the heap.
enum class StartState : std::uint8_t { before_constructor, waiting, taken };
constinit std::atomic<StartState> start_state{StartState::before_constructor};

// The mode that the environment sets for this process. With MH_ENABLE=0 no rank maps another rank's
// heap, so a heap that the user has not asked for (MH_HEAP=auto) is off.
mh::heap::Mode own_mode() {
  const mh::heap::Mode mode = mh::heap::mode_of(::getenv("MH_HEAP"));
  const char* enable = ::getenv("MH_ENABLE");
  const bool disabled = enable != nullptr && std::strcmp(enable, "0") == 0;
  return disabled && mode == mh::heap::Mode::automatic ? mh::heap::Mode::off : mode;
}

// Starts the heap, in the first thread that calls this function after the constructor; other
// threads do without the heap meanwhile. Returns whether the heap has started. Relaxed: only the
// order of changes of start_state matters, since Heap::started() publishes the heap.
bool start_heap() {
  StartState seen = start_state.load(std::memory_order_relaxed);
  if (seen != StartState::waiting) return heap.started();
  if (!start_state.compare_exchange_strong(seen, StartState::taken, std::memory_order_relaxed)) {
    return heap.started();
  }
  const mh::heap::Mode mode = own_mode();
  Facts facts = mh::heap::gather();
  mh::heap::look_around(facts);
  const Verdict found = mh::heap::judge(mode, facts);
  verdict.store(found, std::memory_order_relaxed);
  if (mh::heap::is_good(found)) heap.start(Heap::options_for(mode, facts));
  return heap.started();
}

bool make_file() { return start_heap() && heap.ensure_file(); }

[[gnu::constructor]] void begin() {
  const mh::heap::Mode mode = own_mode();
  if (mode == mh::heap::Mode::off) return;
  (void)forward();
  start_state.store(StartState::waiting, std::memory_order_relaxed);
  const bool bounded = mode == mh::heap::Mode::automatic;
  const std::uint64_t most = bounded ? mh::heap::Budget::kLargestAtOnce : UINT64_MAX;
  mh::heap::move_statics(heap.file(), make_file, most);
}

// --- blocks that the heap is asked for --------------------------------------------------------

constexpr std::size_t kMallocAlignment = alignof(std::max_align_t);

bool is_power_of_two(std::size_t number) { return number != 0 && (number & (number - 1)) == 0; }

// Asks the heap for a block; null if the heap refuses. The process's first large request starts the
// heap.
[[gnu::noinline]] void* serve(std::size_t bytes, std::size_t alignment, bool zero) {
  if (!heap.started()) [[unlikely]] {
    if (!start_heap()) return nullptr;
  }
  return heap.allocate(bytes, alignment, zero);
}

[[gnu::noinline]] void* large(std::size_t bytes) {
  void* block = serve(bytes, kMallocAlignment, false);
  return block != nullptr ? block : forward().malloc(bytes);
}

void* aligned(std::size_t alignment, std::size_t bytes) {
  if (bytes < mh::heap::kThreshold || !is_power_of_two(alignment)) return nullptr;
  return serve(bytes, alignment < kMallocAlignment ? kMallocAlignment : alignment, false);
}

// Copies a block's bytes from the heap to a block of the next allocator or back, and frees the old
// block. Nothing happens if there is no new block (`to` is null).
void* carry(void* from, std::size_t have, void* to, std::size_t want) {
  if (to == nullptr) return nullptr;
  std::memcpy(to, from, have < want ? have : want);
  ::free(from);
  return to;
}

void* resize_ours(void* block, std::size_t bytes) {
  if (bytes == 0) {
    ::free(block);
    return nullptr;
  }
  if (bytes >= mh::heap::kThreshold) {
    void* there = heap.resize(block, bytes);
    if (there != nullptr) return there;
  }
  return carry(block, heap.usable(block), forward().malloc(bytes), bytes);
}

// Resizes a block of the next allocator. A block grown to the heap's least size moves to the heap.
// A block that has that size already stays: the heap may have refused it before, and the C library
// moves such blocks by their page tables.
void* resize_others(void* block, std::size_t bytes) {
  if (block != nullptr && bytes >= mh::heap::kThreshold) {
    const std::size_t have = forward().usable_size(block);
    if (have < mh::heap::kThreshold) {
      void* there = serve(bytes, kMallocAlignment, false);
      if (there != nullptr) return carry(block, have, there, bytes);
    }
  }
  return forward().realloc(block, bytes);
}

// --- the interface of door.h ------------------------------------------------------------------

int descriptor() {
  if (!start_heap()) return -1;
  if (!heap.ensure_file()) {
    verdict.store(Verdict::no_file, std::memory_order_relaxed);
    return -1;
  }
  return heap.file().descriptor();
}

int reaches(std::uint64_t address, std::uint64_t bytes) {
  return heap.reaches(address, bytes) ? 1 : 0;
}

void stats(mh_heap_stats* to) { *to = heap.stats(); }

const char* why() {
  (void)start_heap();
  return mh::heap::explain(verdict.load(std::memory_order_relaxed));
}

void stop_growing() { heap.stop_growing(); }

constexpr mh_heap_door kDoor = {
    MH_HEAP_DOOR_LAYOUT, sizeof(mh_heap_door), descriptor, reaches, stats, why, stop_growing};

}  // namespace

MH_EXPORT const mh_heap_door* mh_heap_open_door() { return &kDoor; }

// Answers `mh doctor`, which has opened this library by dlopen() only to learn whether a heap would
// work. The function makes no use of look_around(): the objects loaded in that process say nothing
// about programs that will be run.
MH_EXPORT int mh_heap_explain(const char* mode, const char** why) {
  const Verdict found = mh::heap::judge(mh::heap::mode_of(mode), mh::heap::gather());
  *why = mh::heap::explain(found);
  return mh::heap::is_good(found) ? 1 : 0;
}

// --- the functions that the program calls -----------------------------------------------------

MH_EXPORT void* malloc(std::size_t bytes) {
  if (bytes < mh::heap::kThreshold) [[likely]]
    return forward().malloc(bytes);
  return large(bytes);
}

MH_EXPORT void free(void* block) {
  if (heap.owns(block)) [[unlikely]]
    return heap.release(block);
  forward().free(block);
}

MH_EXPORT void* calloc(std::size_t count, std::size_t each) {
  std::size_t bytes = 0;
  if (!__builtin_mul_overflow(count, each, &bytes) && bytes >= mh::heap::kThreshold) {
    void* block = serve(bytes, kMallocAlignment, true);
    if (block != nullptr) return block;
  }
  return forward().calloc(count, each);
}

MH_EXPORT void* realloc(void* block, std::size_t bytes) {
  return heap.owns(block) ? resize_ours(block, bytes) : resize_others(block, bytes);
}

MH_EXPORT void* reallocarray(void* block, std::size_t count, std::size_t each) {
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(count, each, &bytes)) {
    errno = ENOMEM;
    return nullptr;
  }
  return ::realloc(block, bytes);
}

MH_EXPORT void* memalign(std::size_t alignment, std::size_t bytes) {
  void* block = aligned(alignment, bytes);
  return block != nullptr ? block : forward().memalign(alignment, bytes);
}

MH_EXPORT void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  void* block = aligned(alignment, bytes);
  return block != nullptr ? block : forward().aligned_alloc(alignment, bytes);
}

MH_EXPORT int posix_memalign(void** place, std::size_t alignment, std::size_t bytes) {
  void* block = alignment % sizeof(void*) == 0 ? aligned(alignment, bytes) : nullptr;
  if (block == nullptr) return forward().posix_memalign(place, alignment, bytes);
  *place = block;
  return 0;
}

MH_EXPORT void* valloc(std::size_t bytes) {
  void* block = aligned(static_cast<std::size_t>(::getpagesize()), bytes);
  return block != nullptr ? block : forward().valloc(bytes);
}

MH_EXPORT void* pvalloc(std::size_t bytes) {
  const auto page = static_cast<std::size_t>(::getpagesize());
  void* block =
      bytes <= SIZE_MAX - page ? aligned(page, (bytes + page - 1) & ~(page - 1)) : nullptr;
  return block != nullptr ? block : forward().pvalloc(bytes);
}

MH_EXPORT std::size_t malloc_usable_size(void* block) {
  return heap.owns(block) ? heap.usable(block) : forward().usable_size(block);
}

// C23 functions, which the C library has from 2.43 on. This library must export them too, because
// the C library's versions would not know this heap's blocks.
MH_EXPORT void free_sized(void* block, std::size_t) { ::free(block); }
MH_EXPORT void free_aligned_sized(void* block, std::size_t, std::size_t) { ::free(block); }

// Translates advice whose meaning differs for shared memory, such as the heap's: after
// MADV_DONTNEED, only private memory reads as zero.
MH_EXPORT int madvise(void* address, std::size_t bytes, int advice) {
  if (!heap.touches(address, bytes)) return forward().madvise(address, bytes, advice);
  if (advice == MADV_FREE) advice = MADV_DONTNEED;
  if (advice == MADV_WIPEONFORK) heap.isolate(address, bytes);
  const int answer = forward().madvise(address, bytes, advice);
  if (answer != 0) return answer;
  if (advice == MADV_DONTNEED) heap.empty(address, bytes);
  if (advice == MADV_HUGEPAGE) heap.wants_huge(address, bytes);  // as NumPy does
  return answer;
}

// --- fork() and stacks ------------------------------------------------------------------------

MH_EXPORT int __register_atfork(void (*prepare)(), void (*parent)(), void (*child)(), void* of) {
  return forward().register_atfork(prepare, parent, child, of);
}

MH_EXPORT pid_t fork() { return forking.call_off_heap_stack(forward().fork); }

// Unlike fork(), _Fork() calls no handlers, so this function calls the heap's handlers itself.
MH_EXPORT pid_t _Fork() {
  if (forward().fork_alone == nullptr) {
    errno = ENOSYS;
    return -1;
  }
  return forking.call_off_heap_stack([] {
    forking.prepare();
    const pid_t pid = forward().fork_alone();
    pid == 0 ? forking.child() : forking.parent();
    return pid;
  });
}

// Makes a stack that lies in the heap private: in fork() the C library writes to the stacks of
// threads before any handler runs.
MH_EXPORT int pthread_attr_setstack(pthread_attr_t* attributes, void* stack, std::size_t bytes) {
  const int answer = forward().set_stack(attributes, stack, bytes);
  if (answer == 0) heap.isolate(stack, bytes);
  return answer;
}
