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

using onesided::Type;

// What the name of a predefined type says; its size says the rest.
enum class Family : std::uint8_t { integer, natural, real, complex, logical, byte, pair };
struct Name {
  std::string_view name;  // without MPI_
  Family family;
  Type pair = Type::other;
};

constexpr Name kNames[] = {
    {"AINT", Family::integer},
    {"BYTE", Family::byte},
    {"COMPLEX", Family::complex},
    {"COMPLEX16", Family::complex},
    {"COMPLEX32", Family::complex},
    {"COMPLEX8", Family::complex},
    {"COUNT", Family::integer},
    {"CXX_BOOL", Family::logical},
    {"CXX_DOUBLE_COMPLEX", Family::complex},
    {"CXX_FLOAT_COMPLEX", Family::complex},
    {"CXX_LONG_DOUBLE_COMPLEX", Family::complex},
    {"C_BOOL", Family::logical},
    {"C_COMPLEX", Family::complex},
    {"C_DOUBLE_COMPLEX", Family::complex},
    {"C_FLOAT_COMPLEX", Family::complex},
    {"C_LONG_DOUBLE_COMPLEX", Family::complex},
    {"DOUBLE", Family::real},
    {"DOUBLE_COMPLEX", Family::complex},
    {"DOUBLE_INT", Family::pair, Type::double_int},
    {"DOUBLE_PRECISION", Family::real},
    {"FLOAT", Family::real},
    {"FLOAT_INT", Family::pair, Type::float_int},
    {"INT", Family::integer},
    {"INT16_T", Family::integer},
    {"INT32_T", Family::integer},
    {"INT64_T", Family::integer},
    {"INT8_T", Family::integer},
    {"INTEGER", Family::integer},
    {"INTEGER1", Family::integer},
    {"INTEGER2", Family::integer},
    {"INTEGER4", Family::integer},
    {"INTEGER8", Family::integer},
    {"LOGICAL", Family::logical},
    {"LOGICAL1", Family::logical},
    {"LOGICAL2", Family::logical},
    {"LOGICAL4", Family::logical},
    {"LOGICAL8", Family::logical},
    {"LONG", Family::integer},
    {"LONG_DOUBLE", Family::real},
    {"LONG_DOUBLE_INT", Family::pair, Type::long_double_int},
    {"LONG_INT", Family::pair, Type::long_int},
    {"LONG_LONG", Family::integer},
    {"LONG_LONG_INT", Family::integer},
    {"OFFSET", Family::integer},
    {"REAL", Family::real},
    {"REAL4", Family::real},
    {"REAL8", Family::real},
    {"SHORT", Family::integer},
    {"SHORT_INT", Family::pair, Type::short_int},
    {"SIGNED_CHAR", Family::integer},
    {"UINT16_T", Family::natural},
    {"UINT32_T", Family::natural},
    {"UINT64_T", Family::natural},
    {"UINT8_T", Family::natural},
    {"UNSIGNED", Family::natural},
    {"UNSIGNED_CHAR", Family::natural},
    {"UNSIGNED_INT", Family::natural},
    {"UNSIGNED_LONG", Family::natural},
    {"UNSIGNED_LONG_LONG", Family::natural},
    {"UNSIGNED_SHORT", Family::natural},
    {"2DOUBLE_PRECISION", Family::pair, Type::double_double},
    {"2INT", Family::pair, Type::int_int},
    {"2INTEGER", Family::pair, Type::int_int},
    {"2REAL", Family::pair, Type::float_float},
};

// The type of a family with so many bytes, of the four or three there are.
Type by_bytes(std::uint64_t bytes, Type smallest, std::uint64_t smallest_bytes, int sizes) {
  for (int i = 0; i < sizes; ++i) {
    if (bytes == smallest_bytes << static_cast<unsigned>(i)) {
      return static_cast<Type>(static_cast<int>(smallest) + i);
    }
  }
  return Type::other;
}

Type type_of(Family family, Type pair, std::uint64_t bytes) {
  switch (family) {
    case Family::integer:
      return by_bytes(bytes, Type::int8, 1, 4);
    case Family::natural:
      return by_bytes(bytes, Type::uint8, 1, 4);
    case Family::logical:
      return by_bytes(bytes, Type::logical8, 1, 4);
    case Family::real:
      return by_bytes(bytes, Type::float32, 4, 2);
    case Family::complex:
      return by_bytes(bytes, Type::complex64, 8, 2);
    case Family::byte:
      return bytes == 1 ? Type::byte8 : Type::other;
    case Family::pair:
      return pair;
  }
  return Type::other;
}

Type named(MPI_Datatype type, std::uint64_t bytes) {
  char text[MPI_MAX_OBJECT_NAME + 1] = {};
  int length = 0;
  if (real.Type_get_name(type, text, &length) != MPI_SUCCESS) return Type::other;
  std::string_view name(text);
  if (!name.starts_with("MPI_")) return Type::other;
  name.remove_prefix(4);
  const auto* found = std::ranges::find(kNames, name, &Name::name);
  if (found == std::end(kNames)) return Type::other;
  // REAL16 and its like may be another 16 bytes than C's.
  if (name == "LONG_DOUBLE") return Type::long_double;
  if (name.ends_with("LONG_DOUBLE_COMPLEX")) return Type::complex_long_double;
  return type_of(found->family, found->pair, bytes);
}

// Made by MPI_Type_create_f90_real and its like: what they are is how large they are.
Type parameterised(int combiner, std::uint64_t bytes) {
  if (combiner == MPI_COMBINER_F90_REAL) return type_of(Family::real, Type::other, bytes);
  if (combiner == MPI_COMBINER_F90_COMPLEX) return type_of(Family::complex, Type::other, bytes);
  return type_of(Family::integer, Type::other, bytes);
}

// What a type consists of: nothing, elements of one predefined type, or unlike ones.
struct Kind {
  enum class Parts : std::uint8_t { none, alike, unlike } parts = Parts::none;
  MPI_Datatype basic{};
  int combiner = 0;  // of the basic one
};
constexpr int kDeepest = 64;  // levels of a type as it was made

Kind read(MPI_Datatype type, int depth) {
  using Parts = Kind::Parts;
  const Contents made(type);
  if (!made.readable() || depth > kDeepest) return {.parts = Parts::unlike};
  if (made.is_predefined()) {
    MPI_Count size = 0;
    real.Type_size_x(type, &size);
    if (size == 0) return {};  // a marker of bounds
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
    MPI_Count size = 0;
    MPI_Count lower = 0;
    MPI_Count extent = 0;
    real.Type_size_x(kind.basic, &size);
    real.Type_get_extent_x(kind.basic, &lower, &extent);
    const auto bytes = static_cast<std::uint64_t>(size);
    found = {.type = kind.combiner == MPI_COMBINER_NAMED ? named(kind.basic, bytes)
                                                         : parameterised(kind.combiner, bytes),
             .uniform = extent >= size,
             .padded = extent != size,
             .bytes = static_cast<std::uint32_t>(extent)};
    // A library with other structures than the compiler's: it computes itself.
    if (onesided::bytes_of(found.type) != found.bytes) found.type = Type::other;
  }
  cache.fill(bits_of(type), pack(found));
  return found;
}

MPI_Datatype basic_of(MPI_Datatype type) { return read(type, 0).basic; }

}  // namespace mh::mpi::elements
