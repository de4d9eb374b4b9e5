// SPDX-License-Identifier: BSD-3-Clause
// The memory of the heap: an anonymous memfd that this process maps, and that its peers may map
// too.
//
// A byte of this process at address A lies at offset A of the file. Translation needs no table, and
// huge pages of the file are aligned in this process. The file is sparse and as large as the
// address space. Seals fix its size, so a mapped byte stays valid whatever a peer does. Page 0 of
// the file is the HeapHeader. State says how this process maps the file:
//
//   shared   the process maps the file itself; peers read what the process writes.
//   copied   a fork()ed child: its memory is private and anonymous; it has no part in the file.
//   retired  the process maps the file copy-on-write, so its writes are private from then on. This
//            is the last resort at fork() if a copy fails. HeapHeader::closed tells the peers.
//
// A program may map something else over a block, or protect pages. The kernel's list of mappings
// therefore decides: copy(), retire() and isolate() replace the parts that are still mapped shared
// from the file, and preserve their protection.
//
//   isolated  a span of a shared heap that is private nevertheless, because code other than the
//             program writes there around fork(): the stack of a thread. Peers cannot reach it.
//
// No function of this file allocates or uses the C++ run time: all run below malloc. Any thread may
// call holds(), reaches(), touches(), isolated(), reserve() and drop(); for all others the caller
// holds a lock.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace mh::heap {

// Size of the heap's file: an offset in the file equals an address, and the address space of a user
// program is at most this large.
inline constexpr std::uint64_t kFileBytes = 1ULL << 48U;
// The size to which a heap may grow: the kernel places no mapping within this distance behind a
// heap's base (system.hpp).
inline constexpr std::uint64_t kMaxHeapBytes = 4ULL << 40U;
inline constexpr std::size_t kHugePage = 2U << 20U;
inline constexpr std::uint32_t kMaxStatics = 16;

struct Span {
  std::uint64_t address;
  std::uint64_t bytes;
};

// The first page of the heap's file, written by the process whose heap it is, and read by its
// peers. `bytes` (the size of the heap) and `statics` (the number of `spans`) only grow.
struct HeapHeader {
  static constexpr std::uint64_t kMagic = 0x6d682d686561702d;  // "mh-heap-"
  static constexpr std::uint32_t kLayout = 1;
  std::uint64_t magic;
  std::uint32_t layout;
  std::atomic<std::uint32_t>
      closed;                        // 1: retired; release, pairs with the acquire in Views::open()
  std::uint64_t base;                // of the heap
  std::atomic<std::uint64_t> bytes;  // mapped from `base` on; release, as `closed`
  std::atomic<std::uint32_t> statics;  // release: the spans with lower indices are written
  Span spans[kMaxStatics];
};
static_assert(std::is_standard_layout_v<HeapHeader> && sizeof(HeapHeader) <= 4096);

class File {
 public:
  enum class State : std::uint8_t { none, shared, copied, retired };

  // Makes the heap's file and maps its first `bytes` bytes of heap at an address chosen at random.
  bool open(std::size_t bytes);
  [[nodiscard]] State state() const { return state_.load(std::memory_order_relaxed); }
  [[nodiscard]] bool shared() const { return state() == State::shared; }

  [[nodiscard]] std::uint64_t base() const { return base_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::size_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  // Whether this address lies in the heap; static arrays in the heap's file do not count. Relaxed:
  // an allocation has returned the address to the caller, after the stores of base and size.
  [[nodiscard]] bool holds(const void* address) const {
    return reinterpret_cast<std::uint64_t>(address) - base() < bytes();
  }
  // Whether peers can reach all of [address, address + bytes): the bytes lie in the heap, or in one
  // span of static arrays that were moved into the heap's file.
  [[nodiscard]] bool reaches(std::uint64_t address, std::size_t bytes) const;

  // Whether any byte of the span is in the heap, or in a static array that was moved into the
  // heap's file. False unless this process maps the file, shared or (retired) copy-on-write.
  [[nodiscard]] bool touches(const Span& span) const;

  // Makes the heap longer: maps `bytes` more bytes of the file behind the mapped ones. The new
  // bytes get the attributes of the last mapped page, which no block may have until then. False if
  // the heap is retired (mapped copy-on-write) or too long, or if the kernel refuses.
  bool grow(std::size_t bytes);
  // Makes the kernel allocate pages for a part of the heap now; false if the kernel has no memory.
  bool reserve(std::uint64_t address, std::size_t bytes);
  // Returns the memory of a part of the heap to the system; afterwards the part reads as zero.
  bool drop(std::uint64_t address, std::size_t bytes) const;
  // Move memory of this process (whole pages, private, writable) into the heap's file, at the
  // offset that equals its address. write() copies contents, then move_in() maps the file in their
  // place. Bytes not written are zero. For a process of one thread.
  bool write(std::uint64_t address, std::size_t bytes);
  bool move_in(const Span& span);

  // The descriptor of the heap's file, or -1 if the program has closed it (or put another file in
  // its place).
  [[nodiscard]] int descriptor() const;
  [[nodiscard]] std::uint64_t static_bytes() const;
  // Bytes of memory that the file holds.
  [[nodiscard]] std::uint64_t resident() const;

  // Makes a private copy of all memory in the heap's file, in the child after fork(), while the
  // parent waits. False if there was no memory for the copy. The child's heap is retired (mapped
  // copy-on-write) then, and the parent must call retire() before it goes on.
  bool copy();
  // Maps the heap's file copy-on-write, and tells the peers that they can no longer reach the heap.
  // False if the program has closed the descriptor, or if a mapping fails.
  bool retire();

  // Makes the pages of a span private, so that peers cannot reach them. If that fails, retires the
  // whole heap (maps the file copy-on-write). No other thread may write to the span meanwhile.
  void isolate(const Span& span);
  // Maps isolated (private) pages of a span from the heap's file again; their contents are lost.
  void share_again(const Span& span);
  [[nodiscard]] std::uint32_t isolated() const {
    return isolated_count_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] bool is_isolated(const Span& span) const;
  // Makes all pages of a span read as zero, as MADV_DONTNEED does for private memory.
  void empty(const Span& span) const;

 private:
  // A function that replaces one mapping of the heap's file: by a private copy, by a copy-on-write
  // mapping of the file, by private memory without contents, or by zeros in the same mapping.
  using Replace = bool (File::*)(const Span&, int protection, int fd) const;
  static constexpr std::uint32_t kMaxIsolated = 256;

  bool make_file();
  bool make_header(std::uint64_t base, std::size_t bytes);
  void become(State state) { state_.store(state, std::memory_order_relaxed); }
  void forget();
  [[nodiscard]] Span part(std::uint32_t index) const;
  [[nodiscard]] std::uint32_t parts() const;
  [[nodiscard]] bool replace(const Span& within, Replace by, int fd) const;
  [[nodiscard]] bool replace_all(Replace by, int fd) const;
  [[nodiscard]] bool copy_by_file(const Span& span, int protection, int fd) const;
  [[nodiscard]] bool copy_by_memory(const Span& span, int protection, int fd) const;
  bool map_copy_on_write(const Span& span, int protection, int fd) const;
  bool map_nothing(const Span& span, int protection, int fd) const;
  [[nodiscard]] bool punch(const Span& span) const;
  [[nodiscard]] bool zero(const Span& span, int protection, int fd) const;
  void isolate_part(const Span& span);

  // All atomics but static_count_ are relaxed: they are written under the caller's lock, or before
  // a second thread exists.
  std::atomic<std::uint64_t> base_{0};
  std::atomic<std::size_t> bytes_{0};
  std::atomic<std::uint32_t> static_count_{0};
  Span statics_[kMaxStatics]{};
  std::atomic<std::uint32_t> isolated_count_{0};
  Span isolated_[kMaxIsolated]{};
  HeapHeader* header_ = nullptr;
  int fd_ = -1;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  std::atomic<State> state_{State::none};
};

}  // namespace mh::heap
