// SPDX-License-Identifier: BSD-3-Clause
#include "rma/reduce.hpp"

#include <array>
#include <complex>
#include <cstring>
#include <type_traits>
#include <utility>

namespace mh::rma {
namespace {

// ---- The C types of the elements ----------------------------------------------------------------

// The C structures of MPI's pair types (MPI_DOUBLE_INT): a value and its index.
template <class Value, class Index>
struct ValueIndex {
  Value value;
  Index index;
};

// C types that stand for MPI types with logical operations only (Logical), or bitwise only
// (ByteBits).
template <class Bits>
struct Logical {
  Bits bits;
};
struct ByteBits {
  std::uint8_t bits;
};

// A list of types. `Types` has the C type of each value of the enum Type except `other`, in the
// order of the enum.
template <class... Listed>
struct TypeList {};
using Types =
    TypeList<std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint8_t, std::uint16_t,
             std::uint32_t, std::uint64_t, float, double, long double, std::complex<float>,
             std::complex<double>, std::complex<long double>, Logical<std::uint8_t>,
             Logical<std::uint16_t>, Logical<std::uint32_t>, Logical<std::uint64_t>, ByteBits,
             ValueIndex<float, int>, ValueIndex<double, int>, ValueIndex<long, int>,
             ValueIndex<int, int>, ValueIndex<short, int>, ValueIndex<long double, int>,
             ValueIndex<float, float>, ValueIndex<double, double>>;

template <class T>
inline constexpr bool is_complex = false;
template <class T>
inline constexpr bool is_complex<std::complex<T>> = true;
template <class T>
inline constexpr bool is_pair = false;
template <class Value, class Index>
inline constexpr bool is_pair<ValueIndex<Value, Index>> = true;
template <class T>
inline constexpr bool is_logical = false;
template <class Bits>
inline constexpr bool is_logical<Logical<Bits>> = true;

// ---- An operation on a single element -----------------------------------------------------------

template <Op op, class T>
constexpr bool is_defined() {
  constexpr bool integer = std::is_integral_v<T>;
  switch (op) {
    case Op::sum:
    case Op::prod:
      return integer || std::is_floating_point_v<T> || is_complex<T>;
    case Op::max:
    case Op::min:
      return integer || std::is_floating_point_v<T>;
    case Op::land:
    case Op::lor:
    case Op::lxor:
      return integer || is_logical<T>;
    case Op::band:
    case Op::bor:
    case Op::bxor:
      return integer || std::is_same_v<T, ByteBits>;
    case Op::maxloc:
    case Op::minloc:
      return is_pair<T>;
    default:
      return false;
  }
}

template <class T>
using Unsigned = std::make_unsigned_t<T>;

// Returns the sum or the product of two elements. Those of integers wrap around.
template <Op op, class T>
inline T sum_or_product(T target, T origin) {
  if constexpr (std::is_integral_v<T>) {
    // The arithmetic is unsigned, and at least as wide as `unsigned`: C++ would promote a narrow
    // type to int, whose overflow is undefined.
    using Wider = std::conditional_t<(sizeof(T) < sizeof(unsigned)), unsigned, Unsigned<T>>;
    const auto a = static_cast<Wider>(static_cast<Unsigned<T>>(target));
    const auto b = static_cast<Wider>(static_cast<Unsigned<T>>(origin));
    return static_cast<T>(op == Op::sum ? a + b : a * b);
  } else {
    if constexpr (op == Op::sum) return target + origin;
    return target * origin;
  }
}

template <class T>
constexpr auto bits_in(T value) {
  if constexpr (std::is_integral_v<T>) {
    return value;
  } else {
    return value.bits;
  }
}

template <class T, class Bits>
constexpr T with_bits(Bits bits) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(bits);
  } else {
    return T{static_cast<decltype(T::bits)>(bits)};
  }
}

template <Op op, class T>
inline T combine_bits(T target, T origin) {
  const auto a = bits_in(target);
  const auto b = bits_in(origin);
  if constexpr (op == Op::band) return with_bits<T>(a & b);
  if constexpr (op == Op::bor) return with_bits<T>(a | b);
  if constexpr (op == Op::bxor) return with_bits<T>(a ^ b);
  if constexpr (op == Op::land) return with_bits<T>(a != 0 && b != 0 ? 1 : 0);
  if constexpr (op == Op::lor) return with_bits<T>(a != 0 || b != 0 ? 1 : 0);
  static_assert(op <= Op::bxor, "an operation without a kernel");
  return with_bits<T>((a != 0) != (b != 0) ? 1 : 0);
}

// Carries out MPI_MAXLOC or MPI_MINLOC on two pairs. Among equal values, the lesser index wins.
template <Op op, class T>
inline T extreme_with_index(T target, T origin) {
  if (origin.value == target.value) {
    if (origin.index < target.index) target.index = origin.index;
    return target;
  }
  const bool better = op == Op::maxloc ? origin.value > target.value : origin.value < target.value;
  return better ? origin : target;
}

// Combines an element of the target and one of the origin. The maximum and the minimum of signed
// zeros and of NaNs are the same as in MPICH and Open MPI.
template <Op op, class T>
inline T combine_elements(T target, T origin) {
  if constexpr (op == Op::sum || op == Op::prod) {
    return sum_or_product<op>(target, origin);
  } else if constexpr (op == Op::max) {
    return target > origin ? target : origin;
  } else if constexpr (op == Op::min) {
    return target < origin ? target : origin;
  } else if constexpr (op == Op::maxloc || op == Op::minloc) {
    return extreme_with_index<op>(target, origin);
  } else {
    return combine_bits<op>(target, origin);
  }
}

// ---- Kernels: an operation on arrays of elements ------------------------------------------------

// Combines the elements of two arrays. Accesses them by memcpy, because they may lie at any
// address; compilers turn memcpy into plain loads and stores.
template <Op op, class T>
inline __attribute__((always_inline)) void combine_all(void* target, const void* origin,
                                                       std::size_t elements) {
  auto* to = static_cast<std::byte*>(target);
  const auto* from = static_cast<const std::byte*>(origin);
  for (std::size_t i = 0; i < elements; ++i) {
    T a;
    T b;
    std::memcpy(&a, to + i * sizeof(T), sizeof(T));
    std::memcpy(&b, from + i * sizeof(T), sizeof(T));
    a = combine_elements<op, T>(a, b);
    std::memcpy(to + i * sizeof(T), &a, sizeof(T));
  }
}

template <Op op, class T>
void narrow(void* target, const void* origin, std::size_t elements) {
  combine_all<op, T>(target, origin, elements);
}

// Does the same as narrow() above, compiled for AVX2. Without fused multiply-add, so that the
// results are bitwise the same.
template <Op op, class T>
[[gnu::target("avx2")]] void wide(void* target, const void* origin, std::size_t elements) {
  combine_all<op, T>(target, origin, elements);
}
const bool kHasWide = [] {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") != 0;
}();

using KernelRow = std::array<ReduceKernel, kTypes>;
using KernelTable = std::array<KernelRow, kOps>;

template <Op op, class T>
constexpr ReduceKernel entry([[maybe_unused]] bool for_wide) {
  if constexpr (is_defined<op, T>()) {
    if (for_wide) return wide<op, T>;
    return narrow<op, T>;
  } else {
    return nullptr;
  }
}

template <Op op, class... Listed>
constexpr KernelRow row(TypeList<Listed...> /*types*/, bool for_wide) {
  return {entry<op, Listed>(for_wide)..., nullptr};
}

template <std::size_t... ops>
constexpr KernelTable table(std::index_sequence<ops...> /*all*/, bool for_wide) {
  return {row<static_cast<Op>(ops)>(Types{}, for_wide)...};
}

constexpr KernelTable kNarrow = table(std::make_index_sequence<kOps>{}, false);
constexpr KernelTable kWide = table(std::make_index_sequence<kOps>{}, true);

template <class... Listed>
constexpr std::array<std::size_t, kTypes> sizes(TypeList<Listed...> /*types*/) {
  static_assert(sizeof...(Listed) + 1 == kTypes,
                "Types has a C++ type for each Type in order, without `other`");
  return {sizeof(Listed)..., 0};
}
constexpr std::array<std::size_t, kTypes> kSizes = sizes(Types{});

}  // namespace

std::size_t bytes_of(Type type) { return kSizes[static_cast<std::size_t>(type)]; }

ReduceKernel kernel_of(Op op, Type type) {
  const auto [row, column] =
      std::pair(static_cast<std::size_t>(op), static_cast<std::size_t>(type));
  if (kHasWide) return kWide[row][column];
  return kNarrow[row][column];
}

}  // namespace mh::rma
