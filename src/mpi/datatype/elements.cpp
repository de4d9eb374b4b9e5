// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/datatype/elements.hpp"

#include <algorithm>
#include <iterator>
#include <mutex>
#include <string_view>
#include <unordered_map>

#include "mpi/datatype/contents.hpp"
#include "mpi/handle_cache.hpp"
#include "mpi/next.hpp"

namespace mh::mpi::elements {
namespace {

using mh::rma::Type;

// Names of MPI's predefined types, without "MPI_". Name and size together tell the representation.
constexpr std::string_view kIntegers[] = {
    "AINT",   "COUNT",     "INT",           "INT16_T",  "INT32_T",  "INT64_T",
    "INT8_T", "INTEGER",   "INTEGER1",      "INTEGER2", "INTEGER4", "INTEGER8",
    "LONG",   "LONG_LONG", "LONG_LONG_INT", "OFFSET",   "SHORT",    "SIGNED_CHAR"};
constexpr std::string_view kNaturals[] = {"UINT16_T",      "UINT32_T",      "UINT64_T",
                                          "UINT8_T",       "UNSIGNED",      "UNSIGNED_CHAR",
                                          "UNSIGNED_INT",  "UNSIGNED_LONG", "UNSIGNED_LONG_LONG",
                                          "UNSIGNED_SHORT"};
constexpr std::string_view kReals[] = {"DOUBLE", "DOUBLE_PRECISION", "FLOAT", "REAL", "REAL4",
                                       "REAL8"};
constexpr std::string_view kComplexes[] = {
    "COMPLEX",           "COMPLEX16", "COMPLEX32",        "COMPLEX8",        "CXX_DOUBLE_COMPLEX",
    "CXX_FLOAT_COMPLEX", "C_COMPLEX", "C_DOUBLE_COMPLEX", "C_FLOAT_COMPLEX", "DOUBLE_COMPLEX"};
constexpr std::string_view kLogicals[] = {"CXX_BOOL", "C_BOOL",   "LOGICAL", "LOGICAL1",
                                          "LOGICAL2", "LOGICAL4", "LOGICAL8"};
struct PairName {
  std::string_view name;
  Type type;
};
constexpr PairName kPairs[] = {
    {"DOUBLE_INT", Type::double_int},
    {"FLOAT_INT", Type::float_int},
    {"LONG_DOUBLE_INT", Type::long_double_int},
    {"LONG_INT", Type::long_int},
    {"SHORT_INT", Type::short_int},
    {"2DOUBLE_PRECISION", Type::double_double},
    {"2INT", Type::int_int},
    {"2INTEGER", Type::int_int},
    {"2REAL", Type::float_float},
};

// Returns the type of `bytes` bytes. `smallest`, of `smallest_bytes` bytes, is the first of `sizes`
// consecutive values of mh::rma::Type, each of which stands for a type twice as long as the one
// before.
Type by_bytes(std::uint64_t bytes, Type smallest, std::uint64_t smallest_bytes, int sizes) {
  for (int i = 0; i < sizes; ++i) {
    if (bytes == smallest_bytes << static_cast<unsigned>(i)) {
      return static_cast<Type>(static_cast<int>(smallest) + i);
    }
  }
  return Type::other;
}

Type integer_type(std::uint64_t bytes) { return by_bytes(bytes, Type::int8, 1, 4); }
Type real_type(std::uint64_t bytes) { return by_bytes(bytes, Type::float32, 4, 2); }
Type complex_type(std::uint64_t bytes) { return by_bytes(bytes, Type::complex64, 8, 2); }

// The predefined types that the program has renamed, as their first names tell them.
struct RenamedTypes {
  std::mutex lock;
  std::unordered_map<std::uint64_t, Type> known;
};
RenamedTypes& renamed_types() {
  static auto* const all = new RenamedTypes;  // used until the process ends
  return *all;
}

Type named_type(MPI_Datatype type, std::uint64_t bytes) {
  {
    RenamedTypes& renamed = renamed_types();
    const std::lock_guard hold(renamed.lock);
    const auto found = renamed.known.find(bits_of(type));
    if (found != renamed.known.end()) return found->second;
  }
  char text[MPI_MAX_OBJECT_NAME + 1] = {};
  int length = 0;
  if (real.Type_get_name(type, text, &length) != MPI_SUCCESS) return Type::other;
  std::string_view name(text);
  if (!name.starts_with("MPI_")) return Type::other;
  name.remove_prefix(4);
  const auto is_in = [name](const auto& names) {
    return std::ranges::find(names, name) != std::end(names);
  };
  // Only the name LONG_DOUBLE means C's long double. REAL16 and similar types may have another
  // format of 16 bytes.
  if (name == "LONG_DOUBLE") return Type::long_double;
  if (name == "C_LONG_DOUBLE_COMPLEX" || name == "CXX_LONG_DOUBLE_COMPLEX") {
    return Type::complex_long_double;
  }
  if (name == "BYTE") return bytes == 1 ? Type::byte8 : Type::other;
  if (is_in(kIntegers)) return integer_type(bytes);
  if (is_in(kNaturals)) return by_bytes(bytes, Type::uint8, 1, 4);
  if (is_in(kReals)) return real_type(bytes);
  if (is_in(kComplexes)) return complex_type(bytes);
  if (is_in(kLogicals)) return by_bytes(bytes, Type::logical8, 1, 4);
  const auto* pair = std::ranges::find(kPairs, name, &PairName::name);
  return pair != std::end(kPairs) ? pair->type : Type::other;
}

// Returns the type of an element that MPI_Type_create_f90_real or a similar call has made.
// `combiner` tells which call made it, `bytes` is the size.
Type parameterised_type(int combiner, std::uint64_t bytes) {
  if (combiner == MPI_COMBINER_F90_REAL) return real_type(bytes);
  return combiner == MPI_COMBINER_F90_COMPLEX ? complex_type(bytes) : integer_type(bytes);
}

enum class Composition : std::uint8_t { none, alike, unlike };

// The content of a datatype: no elements, elements of one predefined type, or elements of several.
struct TypeContent {
  Composition parts = Composition::none;
  MPI_Datatype basic{};
  int combiner = 0;  // of the basic type
};

TypeContent read_content(MPI_Datatype type, int depth) {
  const Contents made(type);
  if (!made.is_readable() || depth > kDeepestType) return {.parts = Composition::unlike};
  if (made.is_predefined()) {
    if (size_of(type) == 0) return {};  // such as MPI_UB, a marker of bounds
    return {.parts = Composition::alike, .basic = type, .combiner = made.combiner()};
  }
  TypeContent found;
  for (std::size_t i = 0; i < made.types(); ++i) {
    if (i > 0 && made.type(i) == made.type(i - 1)) continue;
    const TypeContent part = read_content(made.type(i), depth + 1);
    if (part.parts == Composition::none) continue;
    const bool differs = found.parts == Composition::alike && found.basic != part.basic;
    if (part.parts == Composition::unlike || differs) return {.parts = Composition::unlike};
    found = part;
  }
  return found;
}

}  // namespace

Element detail::inspect(MPI_Datatype type) {
  const TypeContent kind = read_content(type, 0);
  Element found;
  if (kind.parts == Composition::alike) {
    const std::uint64_t bytes = size_of(kind.basic);
    const auto extent = static_cast<std::uint64_t>(bounds_of(kind.basic).extent);
    found = {.type = kind.combiner == MPI_COMBINER_NAMED ? named_type(kind.basic, bytes)
                                                         : parameterised_type(kind.combiner, bytes),
             .uniform = extent >= bytes,
             .padded = extent != bytes,
             .named = kind.basic == type && kind.combiner == MPI_COMBINER_NAMED,
             .bytes = static_cast<std::uint32_t>(extent)};
    // If the library's element has another size than this compiler's C type, only the library
    // computes with it (Type::other).
    if (mh::rma::bytes_of(found.type) != found.bytes) found.type = Type::other;
  }
  cache.fill(bits_of(type), pack(found));
  return found;
}

void remember_name(MPI_Datatype type) {
  const TypeContent kind = read_content(type, 0);
  if (kind.combiner != MPI_COMBINER_NAMED || kind.basic != type) return;
  const Type named = named_type(type, size_of(type));
  RenamedTypes& renamed = renamed_types();
  const std::lock_guard hold(renamed.lock);
  renamed.known.try_emplace(bits_of(type), named);
}

MPI_Datatype basic_of(MPI_Datatype type) { return read_content(type, 0).basic; }

}  // namespace mh::mpi::elements
