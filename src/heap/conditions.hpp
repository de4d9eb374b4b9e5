// SPDX-License-Identifier: BSD-3-Clause
// Decides whether this process gets a shared heap; if not, says why and what to change.
//
// gather() collects facts from the system; judge() is pure, so tests cover every verdict. No
// function of this file allocates, because malloc() itself may call them all. A file of /proc or
// /sys that cannot be read leaves its field of Facts at the default.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace mh::heap {

enum class Mode : std::uint8_t { off, automatic, on };
// Reads the value of MH_HEAP. nullptr and the empty text mean automatic, the default; unknown words
// mean off.
Mode mode_of(const char* text);

enum class Verdict : std::uint8_t {
  good,
  good_up_to_4_mb,  // larger private blocks would have huge pages, shared ones would not
  switched_off,
  other_allocator,  // malloc of the next object is not the C library's
  checker,          // a sanitizer or Valgrind watches memory
  address_limit,    // RLIMIT_AS
  data_limit,       // RLIMIT_DATA
  file_limit,       // RLIMIT_FSIZE
  strict_memory,    // vm.overcommit_memory=2
  memory_short,     // less than a sixteenth of the machine's or control group's memory is available
  no_file,          // memfd_create() or mmap() is refused
};
bool is_good(Verdict verdict);
// Returns the reason for a verdict and, if there is no heap, what to change, without a full stop:
// "address space is limited; set 'ulimit -v unlimited'".
const char* explain(Verdict verdict);

struct Facts {
  bool c_library_next = true;  // set by look_around() (next.hpp)
  bool checker = false;        // set by look_around()
  bool address_limit = false;
  bool data_limit = false;
  bool file_limit = false;
  bool strict_memory = false;
  bool private_huge = false;  // transparent_hugepage/enabled is "always"
  bool shared_huge =
      false;  // shmem_enabled gives huge pages at first touch, with or without madvise()
  bool collapse = false;  // the kernel has MADV_COLLAPSE
  bool memory_short = false;
};

Facts gather();
// Whether this machine gives private memory huge pages at first touch, but shared memory none, so
// that a block of the shared heap loses its huge pages.
bool huge_pages_lost(const Facts& facts);
Verdict judge(Mode mode, const Facts& facts);

// Whether a limit (RLIMIT_AS, RLIMIT_DATA) binds this process's memory. malloc() must then fail
// where it fails without the heap, so the heap takes no more memory. Checked before the heap grows,
// because a program may set limits of its own.
bool limited();

// The memory of a control group, in bytes. UINT64_MAX: no limit.
struct ControlGroup {
  std::uint64_t limit = UINT64_MAX;
  std::uint64_t used = 0;

  [[nodiscard]] std::uint64_t left() const {
    return limit == UINT64_MAX ? limit : limit - std::min(limit, used);
  }
};
// Returns the control group with the least memory left among `group`, a path below `folder` that
// begins with a slash, and its parents. A batch system may set the limit of a job in a parent. In a
// container the root of the visible file system is the container's own group. `second_version`: of
// control groups. Cuts the text of `group`. One caller at a time: the buffers are static.
ControlGroup tightest_group(const char* folder, char* group, bool second_version);

// Memory of the machine or of the control group, whichever is less, in bytes; UINT64_MAX if
// unknown.
struct Memory {
  std::uint64_t total = UINT64_MAX;
  std::uint64_t available = UINT64_MAX;
};
Memory memory();  // one caller at a time: the buffers are static

// Returns the number behind the first `key` in a text, or UINT64_MAX if there is none.
std::uint64_t number_behind(const char* text, const char* key);
// Reads the beginning of a file into `text`, which gets at most `bytes` bytes with the final zero.
// False if the file cannot be read or is empty.
bool read_text(const char* path, char* text, std::size_t bytes);

}  // namespace mh::heap
