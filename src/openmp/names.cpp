// SPDX-License-Identifier: BSD-3-Clause
#include "openmp/names.hpp"

#include <cxxabi.h>
#include <fmt/format.h>
#include <link.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

extern "C" {
#include "base/elf.h"
}

namespace mh::openmp {
namespace {

std::string last_part(std::string_view path) {
  return std::string(path.substr(path.find_last_of('/') + 1));
}

std::string file_of(const mh_object& object) {
  if (object.file[0] != 0) return last_part(object.file);
  std::array<char, 4096> path{};
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size());
  return length > 0 ? last_part({path.data(), static_cast<std::size_t>(length)}) : "program";
}

std::string symbol_at(const mh_object& object, const void* address) {
  std::array<char, 4096> name{};
  const bool found = mh_function_at(&object, address, name.data(), name.size());
  return found ? name.data() : "";
}

// ---- Instructions that load the address of a region's function ----------------------------------

// True if the x86-64 instruction at `code` loads `address` into a register: lea
// DISTANCE(%rip),REGISTER in position-independent code, mov $ADDRESS,REGISTER elsewhere.
bool takes_address(const std::uint8_t* code, std::uintptr_t address) {
  std::int32_t value = 0;
  if (code[0] == 0x8d && (code[1] & 0xc7U) == 0x05) {
    std::memcpy(&value, code + 2, sizeof value);
    return reinterpret_cast<std::uintptr_t>(code + 6) + static_cast<std::uintptr_t>(value) ==
           address;
  }
  if ((code[0] & 0xf8U) != 0xb8) return false;
  std::memcpy(&value, code + 1, sizeof value);
  return static_cast<std::uint32_t>(value) == address;
}

const void* reference_in(std::uintptr_t low, std::size_t bytes, std::uintptr_t to) {
  constexpr std::size_t kLongest = 6;
  const auto* code = reinterpret_cast<const std::uint8_t*>(low);
  for (std::size_t at = 0; at + kLongest <= bytes; ++at) {
    if (takes_address(code + at, to)) return code + at;
  }
  return nullptr;
}

// Returns an instruction, in the same program or library, that loads the address of the function
// `code`, or null. The function with that instruction starts the region that was compiled to
// `code`.
const void* referrer_of(const mh_object& object, const void* code) {
  constexpr unsigned kCode = PF_R | PF_X;
  const void* from = nullptr;
  for (int i = 0; i < object.part_count && from == nullptr; ++i) {
    const ElfW(Phdr)& part = object.parts[i];
    if (part.p_type != PT_LOAD || (part.p_flags & kCode) != kCode) continue;
    from = reference_in(object.base + part.p_vaddr, part.p_memsz,
                        reinterpret_cast<std::uintptr_t>(code));
  }
  return from;
}

// ---- From symbols to names ----------------------------------------------------------------------

std::string demangled(const std::string& symbol) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status), &std::free);
  return status == 0 && text != nullptr ? text.get() : "";
}

// Returns the position of the '(' that belongs to the ')' just before position `end`, or 0 if there
// is none.
std::size_t opening(std::string_view text, std::size_t end) {
  int depth = 0;
  for (std::size_t at = end; at-- > 0;) {
    if (text[at] == ')') ++depth;
    if (text[at] == '(' && --depth == 0) return at;
  }
  return 0;
}

// Returns the position at which the function's name begins in a demangled declaration: behind the
// last space that is outside of brackets.
std::size_t beginning_of(std::string_view text) {
  int depth = 0;
  for (std::size_t at = text.size(); at-- > 0;) {
    const char c = text[at];
    depth += c == ')' || c == '>' || c == '}' ? 1 : 0;
    depth -= c == '(' || c == '<' || c == '{' ? 1 : 0;
    if (c == ' ' && depth <= 0) return at + 1;
  }
  return 0;
}

std::string without_template_arguments(std::string_view text) {
  const std::size_t symbols_end = text.find("operator");  // operator< and similar
  std::string rest;
  int depth = 0;
  for (const char c : text.substr(0, symbols_end)) {
    depth += c == '<' ? 1 : 0;
    if (depth == 0) rest += c;
    depth -= c == '>' ? 1 : 0;
  }
  if (symbols_end != std::string_view::npos) rest += text.substr(symbols_end);
  return rest;
}

// Returns the symbol without the two underscores that gfortran puts before the names of procedures
// of modules.
std::string plain_name(const std::string& symbol) {
  const bool of_module = symbol.starts_with("__") && symbol.find("_MOD_") != std::string::npos;
  return of_module ? symbol.substr(2) : symbol;
}

void set_function(RegionName& name, std::string_view symbol) {
  if (symbol.empty()) return;
  const std::string linked(symbol);
  const std::string full = demangled(linked);
  name.symbols.push_back(linked);
  if (!full.empty()) name.symbols.push_back(full);
  name.function = full.empty() ? plain_name(linked) : short_name(full);
}

// Adds to `name` the function, file and line from the source location
// ";file;function;line;column;;" that LLVM's compilers leave.
void set_source(RegionName& name, std::string_view source) {
  std::array<std::string_view, 4> fields;
  for (std::string_view& field : fields) {
    const std::size_t end = source.find(';');
    if (end == std::string_view::npos) return;
    field = source.substr(0, end);
    source.remove_prefix(end + 1);
  }
  if (fields[1].empty() || fields[1] == "unknown") return;
  name.source = fmt::format("{}:{}", last_part(fields[1]), fields[3]);
  if (!name.function.empty()) name.symbols.push_back(name.function);
  name.function = fields[2];
}

bool is_loaded(const void* address) { return mh_object_at(address).dynamic != nullptr; }

}  // namespace

std::string_view function_of(std::string_view outlined) {
  // The marks by which GCC, Clang, flang, and Intel's compilers, in this order, name the function
  // of a region.
  for (const std::string_view mark : {"._omp_fn.", ".omp_outlined", "..omp_par", ".DIR.OMP."}) {
    const std::size_t at = outlined.find(mark);
    if (at != std::string_view::npos) return outlined.substr(0, at);
  }
  return outlined.substr(0, outlined.find('.'));  // for example f.constprop.0
}

std::string short_name(std::string_view demangled) {
  const std::size_t close = demangled.rfind(')');
  if (close != std::string_view::npos) {
    const std::size_t open = opening(demangled, close + 1);
    demangled = demangled.substr(0, open);
  }
  return without_template_arguments(demangled.substr(beginning_of(demangled)));
}

RegionName name_of(const void* code, const char* source) {
  RegionName name;
  const mh_object object = mh_object_at(code);
  if (object.dynamic == nullptr) {
    name.at = "code that is gone";
    return name;
  }
  name.object = file_of(object);
  name.at =
      fmt::format("{}+{:#x}", name.object, reinterpret_cast<std::uintptr_t>(code) - object.base);
  const std::string outlined = symbol_at(object, code);
  std::string function(function_of(outlined));
  // The symbol does not name the containing function, so the function that starts the region is
  // searched in all code of the object. A stripped object is skipped: its functions have no names.
  if (function.empty() && !outlined.empty()) {
    if (const void* from = referrer_of(object, code))
      function = function_of(symbol_at(object, from));
  }
  set_function(name, function);
  if (!outlined.empty()) name.symbols.push_back(outlined);
  if (source != nullptr && is_loaded(source)) set_source(name, source);
  return name;
}

}  // namespace mh::openmp
