// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/datatype/elements.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "mpi/datatype/contents.hpp"
#include "mpi/handle_cache.hpp"
#include "mpi/next.hpp"

namespace mh::mpi::elements {
namespace {

using mh::rma::Type;

// What the names of predefined types, without MPI_, say; their sizes say the rest.
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
struct Pair {
  std::string_view name;
  Type type;
};
constexpr Pair kPairs[] = {
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

// The type with so many bytes among `sizes` types that follow each other in mh::rma::Type, each
// twice as long as the one before.
Type by_bytes(std::uint64_t bytes, Type smallest, std::uint64_t smallest_bytes, int sizes) {
  for (int i = 0; i < sizes; ++i) {
    if (bytes == smallest_bytes << static_cast<unsigned>(i)) {
      return static_cast<Type>(static_cast<int>(smallest) + i);
    }
  }
  return Type::other;
}

Type integer(std::uint64_t bytes) { return by_bytes(bytes, Type::int8, 1, 4); }
Type real_number(std::uint64_t bytes) { return by_bytes(bytes, Type::float32, 4, 2); }
Type complex(std::uint64_t bytes) { return by_bytes(bytes, Type::complex64, 8, 2); }

Type named(MPI_Datatype type, std::uint64_t bytes) {
  char text[MPI_MAX_OBJECT_NAME + 1] = {};
  int length = 0;
  if (real.Type_get_name(type, text, &length) != MPI_SUCCESS) return Type::other;
  std::string_view name(text);
  if (!name.starts_with("MPI_")) return Type::other;
  name.remove_prefix(4);
  const auto is_in = [name](const auto& names) {
    return std::ranges::find(names, name) != std::end(names);
  };
  // REAL16 and its like may be another 16 bytes than C's.
  if (name == "LONG_DOUBLE") return Type::long_double;
  if (name == "C_LONG_DOUBLE_COMPLEX" || name == "CXX_LONG_DOUBLE_COMPLEX") {
    return Type::complex_long_double;
  }
  if (name == "BYTE") return bytes == 1 ? Type::byte8 : Type::other;
  if (is_in(kIntegers)) return integer(bytes);
  if (is_in(kNaturals)) return by_bytes(bytes, Type::uint8, 1, 4);
  if (is_in(kReals)) return real_number(bytes);
  if (is_in(kComplexes)) return complex(bytes);
  if (is_in(kLogicals)) return by_bytes(bytes, Type::logical8, 1, 4);
  const auto* pair = std::ranges::find(kPairs, name, &Pair::name);
  return pair != std::end(kPairs) ? pair->type : Type::other;
}

// Made by MPI_Type_create_f90_real and its like: what they are is how large they are.
Type parameterised(int combiner, std::uint64_t bytes) {
  if (combiner == MPI_COMBINER_F90_REAL) return real_number(bytes);
  return combiner == MPI_COMBINER_F90_COMPLEX ? complex(bytes) : integer(bytes);
}

// What a type consists of: nothing, elements of one predefined type, or unlike ones.
struct Kind {
  enum class Parts : std::uint8_t { none, alike, unlike } parts = Parts::none;
  MPI_Datatype basic{};
  int combiner = 0;  // of the basic one
};

Kind read(MPI_Datatype type, int depth) {
  using Parts = Kind::Parts;
  const Contents made(type);
  if (!made.readable() || depth > kDeepestType) return {.parts = Parts::unlike};
  if (made.is_predefined()) {
    if (size_of(type) == 0) return {};  // a marker of bounds
    return {.parts = Parts::alike, .basic = type, .combiner = made.combiner()};
  }
  Kind found;
  for (std::size_t i = 0; i < made.types(); ++i) {
    if (i > 0 && made.type(i) == made.type(i - 1)) continue;
    const Kind part = read(made.type(i), depth + 1);
    if (part.parts == Parts::none) continue;
    const bool differs = found.parts == Parts::alike && found.basic != part.basic;
    if (part.parts == Parts::unlike || differs) return {.parts = Parts::unlike};
    found = part;
  }
  return found;
}

}  // namespace

Element detail::inspect(MPI_Datatype type) {
  const Kind kind = read(type, 0);
  Element found;
  if (kind.parts == Kind::Parts::alike) {
    const std::uint64_t bytes = size_of(kind.basic);
    const auto extent = static_cast<std::uint64_t>(bounds_of(kind.basic).extent);
    found = {.type = kind.combiner == MPI_COMBINER_NAMED ? named(kind.basic, bytes)
                                                         : parameterised(kind.combiner, bytes),
             .uniform = extent >= bytes,
             .padded = extent != bytes,
             .named = kind.basic == type && kind.combiner == MPI_COMBINER_NAMED,
             .bytes = static_cast<std::uint32_t>(extent)};
    // A library with other structures than the compiler's: it computes itself.
    if (mh::rma::bytes_of(found.type) != found.bytes) found.type = Type::other;
  }
  cache.fill(bits_of(type), pack(found));
  return found;
}

MPI_Datatype basic_of(MPI_Datatype type) { return read(type, 0).basic; }

}  // namespace mh::mpi::elements
