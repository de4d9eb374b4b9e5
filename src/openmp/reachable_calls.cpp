// SPDX-License-Identifier: BSD-3-Clause
#include "openmp/reachable_calls.hpp"

#include <link.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "openmp/calls.hpp"
#include "openmp/instructions.hpp"
#include "openmp/objects.hpp"
#include "openmp/rebind.hpp"
#include "openmp/stubs.hpp"

extern "C" {
#include "base/elf.h"
}

namespace mh::openmp {
namespace {

using instructions::load_value;
using instructions::ReferenceKind;
using instructions::ReferenceVisitor;

// Calls visit() for each function that the code names, and for each slot of the global offset table
// that it uses. Returns false if the code cannot be decoded.
bool visit_references(std::span<const std::uint8_t> code, const ReferenceVisitor& visit) {
  return instructions::x86_64(code, reinterpret_cast<std::uintptr_t>(code.data()), visit);
}

// Finds the functions of an object by where they begin, from the table .eh_frame_hdr for exception
// handling (Linux Standard Base, 10.6).
class FunctionTable {
 public:
  FunctionTable() = default;
  explicit FunctionTable(const std::uint8_t* header) {
    constexpr std::uint8_t kVersion = 1;
    constexpr std::uint8_t kWords = 0x3b;  // 32 bits, relative to the header, as linkers write
    constexpr std::uint8_t kCount = 0x03;
    if (header[0] != kVersion || header[2] != kCount || header[3] != kWords) return;
    header_ = header;
    count_ = load_value<std::uint32_t>(header + 8);
  }
  [[nodiscard]] bool empty() const { return count_ == 0; }

  // Returns the code of the function that contains the address or, if none does, the bytes between
  // two functions. `code`: the code of the object around the address.
  [[nodiscard]] std::span<const std::uint8_t> around(std::uintptr_t address,
                                                     std::span<const std::uint8_t> code) const {
    std::size_t low = 0;
    std::size_t high = count_;
    while (low < high) {
      const std::size_t middle = (low + high) / 2;
      (begin(middle) <= address ? low : high) = begin(middle) <= address ? middle + 1 : middle;
    }
    const auto first = reinterpret_cast<std::uintptr_t>(code.data());
    const std::uintptr_t limit = first + code.size();
    std::uintptr_t from = low == 0 ? first : std::max(begin(low - 1), first);
    std::uintptr_t to = low == count_ ? limit : std::min(begin(low), limit);
    if (const std::uintptr_t end = low == 0 ? 0 : end_of(low - 1); end != 0) {
      if (address < end) to = std::min(to, end);
      if (address >= end) from = std::max(from, end);
    }
    return code.subspan(from - first, to - from);
  }

 private:
  static constexpr std::size_t kTable = 12;
  static constexpr std::size_t kRow = 8;

  // Reads a word of the table. The words are addresses relative to the header.
  [[nodiscard]] std::uintptr_t at(std::size_t offset) const {
    return reinterpret_cast<std::uintptr_t>(header_) +
           static_cast<std::uintptr_t>(load_value<std::int32_t>(header_ + offset));
  }
  [[nodiscard]] std::uintptr_t begin(std::size_t index) const { return at(kTable + index * kRow); }

  // Returns the end of the function in row `index`, or 0 if the end is not known. The row names an
  // entry of .eh_frame. Behind two words, the entry has the beginning and the length of the
  // function, in an encoding that this class does not look up. The class reads both as 32-bit
  // words, the beginning relative to the address of its word. If the result is the beginning in the
  // table, the length is right, too.
  [[nodiscard]] std::uintptr_t end_of(std::size_t index) const {
    const std::uintptr_t entry = at(kTable + index * kRow + kRow / 2);
    const auto* const where = reinterpret_cast<const std::uint8_t*>(entry) + 8;
    const std::uintptr_t says =
        entry + 8 + static_cast<std::uintptr_t>(load_value<std::int32_t>(where));
    return says == begin(index) ? says + load_value<std::uint32_t>(where + 4) : 0;
  }

  const std::uint8_t* header_ = nullptr;
  std::size_t count_ = 0;
};

// The function whose address the loader puts into a slot of an object's global offset table.
struct Import {
  Obstacle obstacle;
  std::uintptr_t own = 0;  // address of a function that the object itself defines, 0: none
  const char* name = "";
  bool meets = false;     // is_meeting()
  bool numbered = false;  // is_numbered()
};

// A loaded program or library whose code is searched for calls of the OpenMP run time.
struct SearchedObject {
  mh_object known{};
  std::vector<std::span<const std::uint8_t>> code{};
  FunctionTable functions{};
  std::unordered_map<std::uintptr_t, Import> imports{};  // by slot
  Obstacle worst = Obstacle::none;                       // the first obstacle among the imports
};

void add_import(const char* name, void** slot, void* data) {
  auto& object = *static_cast<SearchedObject*>(data);
  Import import{.obstacle = Obstacle::none};
  if (rebind::is_of_run_time(name)) import.obstacle = rule_of(name).obstacle;
  if (object.worst == Obstacle::none) object.worst = import.obstacle;
  import.own = reinterpret_cast<std::uintptr_t>(mh_address(&object.known, name));
  if (import.obstacle == Obstacle::none && import.own == 0) return;
  object.imports.emplace(reinterpret_cast<std::uintptr_t>(slot), import);
}

// Adds an import of the object, for a search whose region is to run by virtual threads. Such a
// search needs every import, not only those from the OpenMP run time. If another object defines the
// imported function, the search looks for the obstacle in it (ForeignCode) only if the region's
// code calls it.
void add_import_of_virtual(const char* name, void** slot, void* data) {
  auto& object = *static_cast<SearchedObject*>(data);
  Import import{.obstacle = Obstacle::none, .name = name};
  if (rebind::is_of_run_time(name)) {
    import.obstacle = virtual_obstacle_of(name);
    import.meets = is_meeting(name);
    import.numbered = is_numbered(name);
  }
  import.own = reinterpret_cast<std::uintptr_t>(mh_address(&object.known, name));
  object.imports.emplace(reinterpret_cast<std::uintptr_t>(slot), import);
}

// Returns the loaded program or library that contains `code`, or an object without code if none
// does.
SearchedObject object_with(const std::uint8_t* code) {
  constexpr unsigned kCode = PF_R | PF_X;
  SearchedObject object{.known = mh_object_at(code)};
  bool here = false;
  for (int i = 0; i < object.known.part_count; ++i) {
    const ElfW(Phdr)& part = object.known.parts[i];
    const auto* begin = reinterpret_cast<const std::uint8_t*>(object.known.base + part.p_vaddr);
    if (part.p_type == PT_GNU_EH_FRAME) object.functions = FunctionTable(begin);
    if (part.p_type != PT_LOAD || (part.p_flags & kCode) != kCode) continue;
    object.code.emplace_back(begin, part.p_memsz);
    here = here || static_cast<std::size_t>(code - begin) < part.p_memsz;
  }
  return here ? object : SearchedObject{};
}

constexpr std::size_t kMost = 4U << 20U;  // bytes of code that a search decodes

// A search for obstacles to sharing in the code of one object (program or library). It begins at a
// region's code, and follows its calls.
class CodeWalk {
 public:
  // Returns the obstacle in a function of another object, by the name of the function. If the
  // constructor's `behind` is null, such functions are ignored.
  using ForeignCode = std::function<Obstacle(std::string_view name)>;
  explicit CodeWalk(const SearchedObject& object, ForeignCode behind = nullptr)
      : object_(object), behind_(std::move(behind)) {}

  [[nodiscard]] bool meets() const { return meets_; }
  [[nodiscard]] bool is_numbered() const { return numbered_; }
  // True if the code found so far calls through a pointer.
  [[nodiscard]] bool has_pointers() const { return pointers_; }

  // Returns the first obstacle that is found in the code at `code` and in all code that it calls.
  // If some code cannot be decoded, or there is too much of it, the first obstacle among the
  // object's imports (`worst`) is returned instead.
  Obstacle from(std::uintptr_t code) {
    follow_code(code);
    while (!open_.empty() && found_ == Obstacle::none) {
      const auto next = open_.back();
      open_.pop_back();
      seen_bytes_ += next.size();
      const bool understood = seen_bytes_ <= kMost &&
                              visit_references(next, [this](ReferenceKind what, std::uintptr_t to) {
                                follow_reference(what, to);
                              });
      if (!understood) return object_.worst;
    }
    return found_;
  }

 private:
  void follow_reference(ReferenceKind what, std::uintptr_t to) {
    if (what == ReferenceKind::code) return follow_code(to);
    if (what == ReferenceKind::fence) return note_fence();
    const auto import = object_.imports.find(to);
    if (import == object_.imports.end()) {
      pointers_ = pointers_ || what != ReferenceKind::slot;
      // The code may use the address of a function only to pass it to other code, which calls the
      // function.
      if (what == ReferenceKind::slot && behind_) follow_code(to);
      return;
    }
    if (found_ == Obstacle::none) found_ = obstacle_of(import->second);
    meets_ = meets_ || import->second.meets;
    numbered_ = numbered_ || import->second.numbered;
    if (import->second.own != 0) follow_code(import->second.own);
  }

  // Code with a fence exchanges values with other threads in memory, and perhaps waits for them.
  // Virtual threads run one after the other, so the values may come too late.
  void note_fence() {
    if (behind_ && found_ == Obstacle::none) found_ = Obstacle::waiting;
  }

  [[nodiscard]] Obstacle obstacle_of(const Import& import) const {
    const bool is_foreign = behind_ && import.own == 0 && !rebind::is_of_run_time(import.name);
    return is_foreign ? behind_(import.name) : import.obstacle;
  }

  void follow_code(std::uintptr_t to) {
    for (const auto& code : object_.code) {
      if (to - reinterpret_cast<std::uintptr_t>(code.data()) >= code.size()) continue;
      if (follows_stub(to, code)) return;
      const auto function = object_.functions.around(to, code);
      if (seen_.insert(function.data()).second) open_.push_back(function);
    }
  }

  // Follows one of the linker's stubs, a few instructions that jump through a slot of the global
  // offset table, to the function in the slot. Returns false if there is no stub at `to`.
  bool follows_stub(std::uintptr_t to, std::span<const std::uint8_t> code) {
    const std::size_t first = to - reinterpret_cast<std::uintptr_t>(code.data());
    const auto here = code.subspan(first, std::min(kEntry, code.size() - first));
    const std::size_t jump = jump_in(here);
    if (jump == 0) return false;
    visit_references(here.first(jump), [this](ReferenceKind what, std::uintptr_t slot) {
      if (what == ReferenceKind::through_slot) follow_reference(what, slot);
    });
    return true;
  }

  static constexpr std::size_t kEntry = 24;  // bytes in which a stub's jump lies

  // Returns the position behind the jump of a linker's stub, which jumps through a slot; 0 if the
  // code is something else.
  static std::size_t jump_in(std::span<const std::uint8_t> code) {
    constexpr std::size_t kJump = 6;
    static constexpr std::uint8_t kLandingPad[] = {0xf3, 0x0f, 0x1e, 0xfa};  // endbr64
    constexpr std::uint8_t kBound = 0xf2;  // prefix of the jump (MPX)
    std::size_t at = 0;
    if (code.size() >= std::size(kLandingPad) &&
        std::equal(std::begin(kLandingPad), std::end(kLandingPad), &code[0]))
      at += std::size(kLandingPad);
    if (at < code.size() && code[at] == kBound) ++at;
    const bool jumps = at + kJump <= code.size() && code[at] == 0xff && code[at + 1] == 0x25;
    return jumps ? at + kJump : 0;
  }

  const SearchedObject& object_;
  ForeignCode behind_;
  bool pointers_ = false;
  bool meets_ = false;
  bool numbered_ = false;
  Obstacle found_ = Obstacle::none;
  std::size_t seen_bytes_ = 0;
  std::vector<std::span<const std::uint8_t>> open_;
  std::unordered_set<const std::uint8_t*> seen_;
};

}  // namespace

Obstacle obstacle_within_reach(const void* code) {
  SearchedObject object = object_with(static_cast<const std::uint8_t*>(code));
  if (stubs::is_exhausted() || object.code.empty()) return Obstacle::other_calls;
  mh_imports(&object.known, add_import, &object);
  if (object.worst == Obstacle::none) return Obstacle::none;
  if (object.functions.empty()) return object.worst;
  return CodeWalk(object).from(reinterpret_cast<std::uintptr_t>(code));
}

VirtualReach virtual_threads_within_reach(const void* code, bool thread_data_permitted) {
  SearchedObject object = object_with(static_cast<const std::uint8_t*>(code));
  if (stubs::is_exhausted() || object.code.empty() || object.functions.empty())
    return {.obstacle = Obstacle::unknown_code};
  if (!thread_data_permitted && has_thread_data(object.known))
    return {.obstacle = Obstacle::thread_data};
  object.worst = Obstacle::unknown_code;
  mh_imports(&object.known, add_import_of_virtual, &object);
  CodeWalk walk(object, [&](std::string_view name) {
    return obstacle_behind_import(name, thread_data_permitted);
  });
  const Obstacle found = walk.from(reinterpret_cast<std::uintptr_t>(code));
  if (found != Obstacle::none) return {.obstacle = found};
  const CallsOfAll all = calls_of_all();
  const bool meets = walk.meets() || (walk.has_pointers() && all.meets);
  if (walk.has_pointers() && !all.permit(meets)) return {.obstacle = Obstacle::unknown_code};
  if (meets && walk.is_numbered()) return {.obstacle = Obstacle::barrier};
  return {.use = {.on = true, .meets = meets, .has_pointers = walk.has_pointers()}};
}

}  // namespace mh::openmp
