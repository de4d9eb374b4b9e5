// SPDX-License-Identifier: BSD-3-Clause
// Whether this process gets a shared heap, and if not, why and what to change.
//
// Facts are what the system says; judge() is pure, so that every verdict is tested. Nothing here
// allocates: all of it runs below malloc. Files of /proc and /sys that cannot be read leave the
// field as it is below.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mh::heap {

enum class Mode : std::uint8_t { off, automatic, on };
// nullptr and what is not known: off, the default.
Mode mode_of(const char* text);

enum class Verdict : std::uint8_t {
  good,
  switched_off,
  other_allocator,  // malloc behind us is not the C library's
  checker,          // a sanitizer or Valgrind watches memory
  address_limit,    // RLIMIT_AS
  data_limit,       // RLIMIT_DATA
  file_limit,       // RLIMIT_FSIZE
  strict_memory,    // vm.overcommit_memory=2
  huge_pages_lost,  // private memory would have them, shared memory would not
  memory_short,     // a control group near its limit
  no_file,          // memfd_create() or mmap() is refused
};
// "memory is limited (ulimit -v): ...": a cause and what to change, without a full stop.
const char* explain(Verdict verdict);

struct Facts {
  bool c_library_next = true;  // found by the caller
  bool checker = false;        // found by the caller
  bool address_limit = false;
  bool data_limit = false;
  bool file_limit = false;
  bool strict_memory = false;
  bool private_huge = false;  // transparent_hugepage/enabled is "always"
  bool shared_huge = false;   // shmem_enabled gives huge pages at first touch, asked for or not
  bool collapse = false;      // MADV_COLLAPSE is there
  bool memory_short = false;
};

Facts gather();
Verdict judge(Mode mode, const Facts& facts);

// A process whose memory a limit binds must meet it in malloc as before: looked at before the heap
// grows, because a program may set limits of its own.
bool limited();

// Of the control group and of the machine, in bytes; what is not known is UINT64_MAX.
struct Memory {
  std::uint64_t total = UINT64_MAX;
  std::uint64_t available = UINT64_MAX;
};
Memory memory();  // one caller at a time

// The number behind `key` in a text; UINT64_MAX: there is none.
std::uint64_t number_behind(const char* text, const char* key);
// Reads the beginning of a file; false: it cannot be read.
bool read_text(const char* path, char* text, std::size_t bytes);

}  // namespace mh::heap
