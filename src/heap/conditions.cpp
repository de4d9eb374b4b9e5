// SPDX-License-Identifier: BSD-3-Clause
#include "heap/conditions.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "heap/calls.hpp"
#include "heap/system.hpp"

namespace mh::heap {
namespace {

constexpr const char* kHugePages = "/sys/kernel/mm/transparent_hugepage/";

// The texts that explain() returns, in the order of the enumeration Verdict.
constexpr const char* kReasons[] = {
    "large allocations are shared",
    ("blocks up to 4 MB are shared, since private memory has huge pages here and shared memory has "
     "none; for larger ones write 'advise' to /sys/kernel/mm/transparent_hugepage/shmem_enabled"),
    "MH_HEAP=off turns the heap off",
    "the program has an allocator of its own; run it with the C library's malloc",
    "a sanitizer or Valgrind watches this program's memory",
    "address space is limited; set 'ulimit -v unlimited'",
    "private memory is limited; set 'ulimit -d unlimited'",
    "the size of files is limited; set 'ulimit -f unlimited'",
    "vm.overcommit_memory is 2; MH_HEAP=on works, but memory is taken when it is allocated",
    "memory is nearly used up (see memory.max of the control group); MH_HEAP=on works",
    "the system refuses shared memory without a name (memfd_create, mmap)",
};
static_assert(std::size(kReasons) == static_cast<std::size_t>(Verdict::no_file) + 1);

bool is_limited(__rlimit_resource resource) {
  rlimit limit{};
  return ::getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

// True if a file of transparent_hugepage has `word` in brackets, which mark the chosen mode:
// "always [madvise] never" has chosen "madvise".
bool has_chosen(const char* file, const char* word) {
  char path[128];
  char text[128];
  char chosen[32];
  std::snprintf(path, sizeof path, "%s%s", kHugePages, file);
  std::snprintf(chosen, sizeof chosen, "[%s]", word);
  return read_text(path, text, sizeof text) && std::strstr(text, chosen) != nullptr;
}

bool shared_memory_gets_huge_pages() {
  for (const char* word : {"always", "within_size", "advise", "force"}) {
    if (has_chosen("shmem_enabled", word)) return true;
  }
  return false;
}

// Buffers for the text of system files and their paths. The buffers are static because the stack of
// a thread that allocates may be small. They need no lock, because memory() has one caller at a
// time.
constinit char system_text[4096];
constinit char system_path[4400];
constinit char group_path[4096];

// Reads the path of this process's control group for memory from /proc/self/cgroup. The file has a
// line "0::/a/b" (version 2 of control groups) or "4:memory:/a/b" (version 1).
bool memory_group(char* group, std::size_t bytes, bool* second_version) {
  if (!read_text("/proc/self/cgroup", system_text, sizeof system_text)) return false;
  const char* found = std::strstr(system_text, ":memory:");
  *second_version = found == nullptr;
  if (found == nullptr) found = std::strstr(system_text, "0::");
  if (found == nullptr) return false;
  const char* path = std::strchr(found, '/');
  if (path == nullptr) return false;
  std::snprintf(group, bytes, "%.*s", static_cast<int>(std::strcspn(path, "\n")), path);
  return true;
}

// Reads a number from a file of a control group: the number behind `key`, or the number with which
// the file begins if the key is empty. Returns UINT64_MAX if the file or the key is missing.
std::uint64_t number_in(const char* folder, const char* group, const char* file,
                        const char* key = "") {
  std::snprintf(system_path, sizeof system_path, "%s%s/%s", folder, group, file);
  const bool read = read_text(system_path, system_text, sizeof system_text);
  return read ? number_behind(system_text, key) : UINT64_MAX;
}

// Returns limit and use of the memory of the control group with the path `group`, without regard to
// its parents. Cached file contents that no process uses (inactive_file) do not count as used: the
// kernel drops them first when memory is short.
ControlGroup group_at(const char* folder, const char* group, bool second_version) {
  const char* limit = second_version ? "memory.max" : "memory.limit_in_bytes";
  const char* used = second_version ? "memory.current" : "memory.usage_in_bytes";
  const char* files = second_version ? "\ninactive_file " : "\ntotal_inactive_file ";
  const std::uint64_t bytes = number_in(folder, group, limit);
  if (bytes == UINT64_MAX) return {};
  const std::uint64_t now = number_in(folder, group, used);
  if (now == UINT64_MAX) return {};
  const std::uint64_t unused = number_in(folder, group, "memory.stat", files);
  return {bytes, unused == UINT64_MAX ? now : now - std::min(now, unused)};
}

ControlGroup own_group() {
  bool second_version = false;
  if (!memory_group(group_path, sizeof group_path, &second_version)) return {};
  return tightest_group(second_version ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory", group_path,
                        second_version);
}

std::uint64_t kibibytes(std::uint64_t number) {
  return number == UINT64_MAX ? number : number << 10U;
}

bool kernel_collapses() {
  // A length of zero does nothing, and succeeds if the kernel knows MADV_COLLAPSE.
  return ::madvise(nullptr, 0, kMadvCollapse) == 0;
}

}  // namespace

Mode mode_of(const char* text) {
  if (text == nullptr || *text == 0 || std::strcmp(text, "auto") == 0) return Mode::automatic;
  return std::strcmp(text, "on") == 0 ? Mode::on : Mode::off;
}

bool huge_pages_lost(const Facts& facts) { return facts.private_huge && !facts.shared_huge; }

bool is_good(Verdict verdict) {
  return verdict == Verdict::good || verdict == Verdict::good_up_to_4_mb;
}

const char* explain(Verdict verdict) { return kReasons[static_cast<std::size_t>(verdict)]; }

std::uint64_t number_behind(const char* text, const char* key) {
  const char* line = std::strstr(text, key);
  if (line == nullptr) return UINT64_MAX;
  line += std::strlen(key);
  line += std::strspn(line, " \t");
  return *line < '0' || *line > '9' ? UINT64_MAX : std::strtoull(line, nullptr, 10);
}

bool read_text(const char* path, char* text, std::size_t bytes) {
  const int file = call::open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  const ssize_t length = call::read(file, text, bytes - 1);
  call::close(file);
  text[std::max<ssize_t>(length, 0)] = 0;
  return length > 0;
}

ControlGroup tightest_group(const char* folder, char* group, bool second_version) {
  ControlGroup tightest;
  for (;;) {
    const ControlGroup here = group_at(folder, group, second_version);
    if (here.limit != UINT64_MAX && here.left() <= tightest.left()) tightest = here;
    if (*group == 0) return tightest;
    char* last = std::strrchr(group, '/');
    *(last == nullptr ? group : last) = 0;  // the parent; at the end the root, ""
  }
}

Memory memory() {
  Memory memory;
  if (read_text("/proc/meminfo", system_text, sizeof system_text)) {
    memory.total = kibibytes(number_behind(system_text, "MemTotal:"));
    memory.available = kibibytes(number_behind(system_text, "MemAvailable:"));
  }
  const ControlGroup group = own_group();
  memory.total = std::min(memory.total, group.limit);
  memory.available = std::min(memory.available, group.left());
  return memory;
}

bool limited() { return is_limited(RLIMIT_AS) || is_limited(RLIMIT_DATA); }

Facts gather() {
  Facts facts;
  char text[32];
  const KeepErrno keep;
  facts.address_limit = is_limited(RLIMIT_AS);
  facts.data_limit = is_limited(RLIMIT_DATA);
  facts.file_limit = is_limited(RLIMIT_FSIZE);
  facts.strict_memory =
      read_text("/proc/sys/vm/overcommit_memory", text, sizeof text) && text[0] == '2';
  facts.private_huge = has_chosen("enabled", "always");
  facts.shared_huge = shared_memory_gets_huge_pages();
  facts.collapse = kernel_collapses();
  const Memory memory = heap::memory();
  facts.memory_short = memory.available < memory.total / 16;
  return facts;
}

Verdict judge(Mode mode, const Facts& facts) {
  if (mode == Mode::off) return Verdict::switched_off;
  if (!facts.c_library_next) return Verdict::other_allocator;
  if (facts.checker) return Verdict::checker;
  if (facts.address_limit) return Verdict::address_limit;
  if (facts.data_limit) return Verdict::data_limit;
  if (facts.file_limit) return Verdict::file_limit;
  if (mode == Mode::on) return Verdict::good;
  if (facts.strict_memory) return Verdict::strict_memory;
  if (facts.memory_short) return Verdict::memory_short;
  return huge_pages_lost(facts) ? Verdict::good_up_to_4_mb : Verdict::good;
}

}  // namespace mh::heap
