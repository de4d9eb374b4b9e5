// SPDX-License-Identifier: BSD-3-Clause
#include "openmp/reach.hpp"

#include <link.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "openmp/calls.hpp"
#include "openmp/rebind.hpp"
#include "openmp/stubs.hpp"

extern "C" {
#include "base/elf.h"
}

namespace mh::openmp {
namespace reach {
namespace {

template <class Value>
Value read(const std::uint8_t* from) {
  Value value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// The number of so many bits whose lowest is `low`, with its sign.
std::int64_t field(std::uint32_t word, unsigned low, unsigned bits) {
  const auto high = static_cast<std::int64_t>(std::uint64_t{word} << (64U - low - bits));
  return high >> (64U - bits);
}

}  // namespace

// Instructions begin anywhere. A distance counts from its own end, where the instruction ends too.
void x86_64(std::span<const std::uint8_t> code, std::uintptr_t address, const Visit& visit) {
  constexpr std::size_t kDistance = sizeof(std::int32_t);
  for (std::size_t at = 1; at + kDistance <= code.size(); ++at) {
    const auto distance = static_cast<std::uintptr_t>(read<std::int32_t>(&code[at]));
    const std::uintptr_t to = address + at + kDistance + distance;
    const bool calls = (code[at - 1] & 0xfeU) == 0xe8;  // and jmp
    const bool branches = at > 1 && code[at - 2] == 0x0f && (code[at - 1] & 0xf0U) == 0x80;
    if (calls || branches) visit(Target::code, to);
    const bool is_relative = (code[at - 1] & 0xc7U) == 0x05;  // to rip
    if (is_relative) visit(Target::place, to);
  }
}

void aarch64(std::span<const std::uint8_t> code, std::uintptr_t address, const Visit& visit) {
  constexpr std::size_t kBytes = 4;
  std::uintptr_t pages[32] = {};  // what adrp has put into each register
  for (std::size_t at = 0; at + kBytes <= code.size(); at += kBytes) {
    const auto word = read<std::uint32_t>(&code[at]);
    const std::uintptr_t here = address + at;
    const auto go = [&](std::int64_t words) {
      visit(Target::code, here + static_cast<std::uintptr_t>(words) * kBytes);
    };
    if ((word & 0x7c000000U) == 0x14000000U) go(field(word, 0, 26));  // b, bl
    if ((word & 0xff000010U) == 0x54000000U) go(field(word, 5, 19));  // b.condition
    if ((word & 0x7e000000U) == 0x34000000U) go(field(word, 5, 19));  // cbz, cbnz
    if ((word & 0x9f000000U) == 0x90000000U) {                        // adrp
      const auto high = static_cast<std::uint64_t>(field(word, 5, 19)) << 2U;
      const std::uint64_t page = high | (word >> 29U & 3U);
      pages[word & 31U] = (here & ~std::uintptr_t{0xfff}) + (page << 12U);
    }
    if ((word & 0xffc00000U) == 0xf9400000U) {  // ldr of 64 bits
      visit(Target::place, pages[word >> 5U & 31U] + (word >> 10U & 0xfffU) * 8);
    }
  }
}

namespace {

void look_through(std::span<const std::uint8_t> code, const Visit& visit) {
  const auto address = reinterpret_cast<std::uintptr_t>(code.data());
#if defined(__x86_64__)
  x86_64(code, address, visit);
#elif defined(__aarch64__)
  aarch64(code, address, visit);
#endif
}

// Where the functions of an object begin, as DWARF's .eh_frame_hdr says (Linux Standard Base, 10.6).
class Functions {
 public:
  Functions() = default;
  explicit Functions(const std::uint8_t* header) {
    constexpr std::uint8_t kVersion = 1;
    constexpr std::uint8_t kWords = 0x3b;  // of 32 bits, from the header on; what linkers write
    constexpr std::uint8_t kCount = 0x03;
    if (header[0] != kVersion || header[2] != kCount || header[3] != kWords) return;
    header_ = header;
    count_ = read<std::uint32_t>(header + 8);
  }
  [[nodiscard]] bool empty() const { return count_ == 0; }

  // The one that contains the address, and what lies between it and the next. `code`: what the
  // object has of it.
  [[nodiscard]] std::span<const std::uint8_t> around(std::uintptr_t address,
                                                     std::span<const std::uint8_t> code) const {
    std::size_t low = 0;
    std::size_t high = count_;
    while (low < high) {
      const std::size_t middle = (low + high) / 2;
      (begin(middle) <= address ? low : high) = begin(middle) <= address ? middle + 1 : middle;
    }
    const auto first = reinterpret_cast<std::uintptr_t>(code.data());
    const std::uintptr_t from = low == 0 ? first : std::max(begin(low - 1), first);
    const std::uintptr_t end = first + code.size();
    const std::uintptr_t to = low == count_ ? end : std::min(begin(low), end);
    return code.subspan(from - first, to - from);
  }

 private:
  [[nodiscard]] std::uintptr_t begin(std::size_t index) const {
    constexpr std::size_t kTable = 12;
    constexpr std::size_t kRow = 8;
    return reinterpret_cast<std::uintptr_t>(header_) +
           static_cast<std::uintptr_t>(read<std::int32_t>(header_ + kTable + index * kRow));
  }

  const std::uint8_t* header_ = nullptr;
  std::size_t count_ = 0;
};

// What a place that the loader fills leads to.
struct Import {
  Obstacle obstacle;
  std::uintptr_t own = 0;  // a function of the object itself, 0: none
};

// A loaded object as far as its code is looked through.
struct Object {
  mh_object known{};
  std::vector<std::span<const std::uint8_t>> code{};
  Functions functions{};
  std::unordered_map<std::uintptr_t, Import> imports{};  // by place
  Obstacle worst = Obstacle::none;                     // of those, the first that is one
};

void take_import(const char* name, void** place, void* data) {
  auto& object = *static_cast<Object*>(data);
  Import import{.obstacle = Obstacle::none};
  if (rebind::is_of_run_time(name)) import.obstacle = rule_of(name).obstacle;
  if (object.worst == Obstacle::none) object.worst = import.obstacle;
  import.own = reinterpret_cast<std::uintptr_t>(mh_address(&object.known, name));
  if (import.obstacle == Obstacle::none && import.own == 0) return;
  object.imports.emplace(reinterpret_cast<std::uintptr_t>(place), import);
}

const std::uint8_t* at(const dl_phdr_info& info, const ElfW(Phdr) & part) {
  return reinterpret_cast<const std::uint8_t*>(info.dlpi_addr + part.p_vaddr);
}

struct Wanted {
  const std::uint8_t* code;
  Object object{};
};

int find_object(dl_phdr_info* info, std::size_t /*bytes*/, void* data) {
  auto& wanted = *static_cast<Wanted*>(data);
  constexpr unsigned kCode = PF_R | PF_X;
  Object object{.known = mh_object_of(info)};
  bool here = false;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = info->dlpi_phdr[i];
    if (part.p_type == PT_GNU_EH_FRAME) object.functions = Functions(at(*info, part));
    if (part.p_type != PT_LOAD || (part.p_flags & kCode) != kCode) continue;
    object.code.emplace_back(at(*info, part), part.p_memsz);
    here = here || static_cast<std::size_t>(wanted.code - at(*info, part)) < part.p_memsz;
  }
  if (!here) return 0;
  wanted.object = std::move(object);
  return 1;
}

// One walk from a region's code on.
class Walk {
 public:
  explicit Walk(const Object& object) : object_(object) {}

  Obstacle from(std::uintptr_t code) {
    follow(code);
    while (!open_.empty() && found_ == Obstacle::none) {
      const auto next = open_.back();
      open_.pop_back();
      seen_bytes_ += next.size();
      if (seen_bytes_ > kMost) return object_.worst;
      look_through(next, [this](Target what, std::uintptr_t to) { meet(what, to); });
    }
    return found_;
  }

 private:
  void meet(Target what, std::uintptr_t to) {
    if (what == Target::code) return follow(to);
    const auto import = object_.imports.find(to);
    if (import == object_.imports.end()) return;
    if (found_ == Obstacle::none) found_ = import->second.obstacle;
    if (import->second.own != 0) follow(import->second.own);
  }

  void follow(std::uintptr_t to) {
    for (const auto& code : object_.code) {
      if (to - reinterpret_cast<std::uintptr_t>(code.data()) >= code.size()) continue;
      if (goes_on(to, code)) return;
      const auto function = object_.functions.around(to, code);
      if (seen_.insert(function.data()).second) open_.push_back(function);
    }
  }

  // A few instructions of the linker's that jump through a place and do nothing else.
  bool goes_on(std::uintptr_t to, std::span<const std::uint8_t> code) {
    const std::size_t first = to - reinterpret_cast<std::uintptr_t>(code.data());
    const auto here = code.subspan(first, std::min(kEntry, code.size() - first));
    const std::size_t jump = jump_in(here);
    if (jump == 0) return false;
    look_through(here.first(jump), [this](Target what, std::uintptr_t place) {
      if (what == Target::place) meet(what, place);
    });
    return true;
  }

  static constexpr std::size_t kEntry = 24;

  // Where such a jump ends, 0: it is something else.
  static std::size_t jump_in(std::span<const std::uint8_t> code) {
    constexpr std::size_t kJump = 6;
#if defined(__x86_64__)
    static constexpr std::uint8_t kLandingPad[] = {0xf3, 0x0f, 0x1e, 0xfa};
    constexpr std::uint8_t kBound = 0xf2;
    std::size_t at = 0;
    if (code.size() >= std::size(kLandingPad) && std::equal(std::begin(kLandingPad), std::end(kLandingPad), &code[0]))
      at += std::size(kLandingPad);
    if (at < code.size() && code[at] == kBound) ++at;
    const bool jumps = at + kJump <= code.size() && code[at] == 0xff && code[at + 1] == 0x25;
    return jumps ? at + kJump : 0;
#elif defined(__aarch64__)
    constexpr std::uint32_t kBranch = 0xd61f0220;  // br x17
    for (std::size_t at = 0; at + 4 <= code.size(); at += 4) {
      if (read<std::uint32_t>(&code[at]) == kBranch) return at + 4;
    }
    return 0;
#else
    return 0;
#endif
  }

  const Object& object_;
  Obstacle found_ = Obstacle::none;
  std::size_t seen_bytes_ = 0;
  std::vector<std::span<const std::uint8_t>> open_;
  std::unordered_set<const std::uint8_t*> seen_;
};

#if defined(__x86_64__) || defined(__aarch64__)
constexpr bool kCanLook = true;
#else
constexpr bool kCanLook = false;
#endif

}  // namespace
}  // namespace reach

Obstacle obstacle_within_reach(const void* code) {
  using namespace reach;
  Wanted wanted{.code = static_cast<const std::uint8_t*>(code)};
  if (stubs::past_the_end() || ::dl_iterate_phdr(find_object, &wanted) == 0) {
    return Obstacle::other_calls;
  }
  Object& object = wanted.object;
  mh_imports(&object.known, take_import, &object);
  if (object.worst == Obstacle::none) return Obstacle::none;
  if (!kCanLook || object.functions.empty()) return object.worst;
  return Walk(object).from(reinterpret_cast<std::uintptr_t>(code));
}

}  // namespace mh::openmp
