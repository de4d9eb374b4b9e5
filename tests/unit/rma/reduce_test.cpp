// SPDX-License-Identifier: BSD-3-Clause
// Tests every reduction operation on every type, with odd counts and odd addresses, against a plain
// loop that does not use the templates of the kernels. Also tests which pairs of operation and type
// the MPI standard defines.
#include "rma/reduce.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

namespace mh::rma {
namespace {

template <class T>
struct Value {
  static T random(std::mt19937_64& source) {
    return static_cast<T>(static_cast<std::int64_t>(source() % 401) - 200);
  }
};
template <class T>
struct Value<std::complex<T>> {
  static std::complex<T> random(std::mt19937_64& source) {
    return {Value<T>::random(source), Value<T>::random(source)};
  }
};

template <class T>
std::vector<T> values(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 source(seed);
  std::vector<T> made;
  for (std::size_t i = 0; i < count; ++i) made.push_back(Value<T>::random(source));
  return made;
}

// Runs the reduction kernel at addresses that are one byte off their alignment. Compares with
// `one`, applied to each element.
template <class T, class One>
void expect_like(Op op, Type type, One one) {
  const ReduceKernel kernel = kernel_of(op, type);
  ASSERT_NE(kernel, nullptr) << static_cast<int>(op) << " of " << static_cast<int>(type);
  ASSERT_EQ(bytes_of(type), sizeof(T));
  for (const std::size_t count : {1U, 2U, 7U, 64U, 1001U}) {
    const std::vector<T> target = values<T>(count, 1);
    const std::vector<T> origin = values<T>(count, 2);
    std::vector<std::byte> to(count * sizeof(T) + 2, std::byte{0x5a});
    std::vector<std::byte> from(count * sizeof(T) + 1);
    std::memcpy(to.data() + 1, target.data(), count * sizeof(T));
    std::memcpy(from.data() + 1, origin.data(), count * sizeof(T));
    kernel(to.data() + 1, from.data() + 1, count);
    for (std::size_t i = 0; i < count; ++i) {
      T got;
      std::memcpy(&got, to.data() + 1 + i * sizeof(T), sizeof(T));
      ASSERT_EQ(got, static_cast<T>(one(target[i], origin[i])))
          << static_cast<int>(op) << " of " << static_cast<int>(type) << " at " << i;
    }
    EXPECT_EQ(to.front(), std::byte{0x5a});
    EXPECT_EQ(to.back(), std::byte{0x5a});
  }
}

// The type in which the expected results are computed: for integers uint64, whose overflow is
// defined.
template <class T>
using Wrapping = std::conditional_t<std::is_integral_v<T>, std::uint64_t, T>;

template <class T>
void expect_arithmetic(Type type) {
  using Wide = Wrapping<T>;
  const auto sum = [](T a, T b) { return static_cast<Wide>(a) + static_cast<Wide>(b); };
  const auto product = [](T a, T b) { return static_cast<Wide>(a) * static_cast<Wide>(b); };
  expect_like<T>(Op::sum, type, sum);
  expect_like<T>(Op::prod, type, product);
}
template <class T>
void expect_ordered(Type type) {
  expect_arithmetic<T>(type);
  expect_like<T>(Op::max, type, [](T a, T b) { return a < b ? b : a; });
  expect_like<T>(Op::min, type, [](T a, T b) { return a < b ? a : b; });
}
template <class T>
void expect_logical(Type type) {
  expect_like<T>(Op::land, type, [](T a, T b) { return a && b; });
  expect_like<T>(Op::lor, type, [](T a, T b) { return a || b; });
  expect_like<T>(Op::lxor, type, [](T a, T b) { return !a != !b; });
}
template <class T>
void expect_bits(Type type) {
  expect_like<T>(Op::band, type, [](T a, T b) { return a & b; });
  expect_like<T>(Op::bor, type, [](T a, T b) { return a | b; });
  expect_like<T>(Op::bxor, type, [](T a, T b) { return a ^ b; });
}
template <class T>
void expect_integer(Type type) {
  expect_ordered<T>(type);
  expect_logical<T>(type);
  expect_bits<T>(type);
}

TEST(Reduce, integers_of_every_width_have_all_operations_but_those_of_pairs) {
  expect_integer<std::int8_t>(Type::int8);
  expect_integer<std::int16_t>(Type::int16);
  expect_integer<std::int32_t>(Type::int32);
  expect_integer<std::int64_t>(Type::int64);
  expect_integer<std::uint8_t>(Type::uint8);
  expect_integer<std::uint16_t>(Type::uint16);
  expect_integer<std::uint32_t>(Type::uint32);
  expect_integer<std::uint64_t>(Type::uint64);
}

TEST(Reduce, real_numbers_are_added_multiplied_and_ordered) {
  expect_ordered<float>(Type::float32);
  expect_ordered<double>(Type::float64);
  expect_ordered<long double>(Type::long_double);
}

TEST(Reduce, complex_numbers_are_added_and_multiplied) {
  expect_arithmetic<std::complex<float>>(Type::complex64);
  expect_arithmetic<std::complex<double>>(Type::complex128);
  expect_arithmetic<std::complex<long double>>(Type::complex_long_double);
}

TEST(Reduce, logical_values_and_bytes_have_operations_of_their_own) {
  expect_logical<std::uint8_t>(Type::logical8);
  expect_logical<std::uint16_t>(Type::logical16);
  expect_logical<std::uint32_t>(Type::logical32);
  expect_logical<std::uint64_t>(Type::logical64);
  expect_bits<std::uint8_t>(Type::byte8);
}

template <class V, class I>
struct CPair {
  V value;
  I index;
};

template <class V, class I>
void expect_pairs(Type type) {
  using Pair = CPair<V, I>;
  ASSERT_EQ(bytes_of(type), sizeof(Pair));
  const std::vector<Pair> targets = {{1, 5}, {1, 5}, {1, 5}, {1, 5}, {-3, 0}};
  const std::vector<Pair> origins = {{2, 9}, {0, 9}, {1, 3}, {1, 9}, {-3, 0}};
  for (const Op op : {Op::maxloc, Op::minloc}) {
    std::vector<Pair> got = targets;
    kernel_of(op, type)(got.data(), origins.data(), got.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      const Pair& a = targets[i];
      const Pair& b = origins[i];
      const bool better = op == Op::maxloc ? b.value > a.value : b.value < a.value;
      const bool lower = b.value == a.value && b.index < a.index;
      EXPECT_EQ(got[i].value, better ? b.value : a.value) << i;
      EXPECT_EQ(got[i].index, better || lower ? b.index : a.index) << i;
    }
  }
}

TEST(Reduce, pairs_find_the_extreme_value_and_its_lowest_index) {
  expect_pairs<float, int>(Type::float_int);
  expect_pairs<double, int>(Type::double_int);
  expect_pairs<long, int>(Type::long_int);
  expect_pairs<int, int>(Type::int_int);
  expect_pairs<short, int>(Type::short_int);
  expect_pairs<long double, int>(Type::long_double_int);
  expect_pairs<float, float>(Type::float_float);
  expect_pairs<double, double>(Type::double_double);
}

TEST(Reduce, extremes_that_compare_neither_way_are_the_origins_as_in_the_libraries) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const Op op : {Op::max, Op::min}) {
    double target[3] = {-0.0, nan, 1.0};
    const double origin[3] = {0.0, 1.0, nan};
    kernel_of(op, Type::float64)(target, origin, 3);
    EXPECT_FALSE(std::signbit(target[0]));
    EXPECT_EQ(target[1], 1.0);
    EXPECT_TRUE(std::isnan(target[2]));
  }
}

TEST(Reduce, integers_wrap_around) {
  std::int32_t target[2] = {INT32_MAX, 1 << 20};
  const std::int32_t origin[2] = {1, 1 << 20};
  kernel_of(Op::sum, Type::int32)(&target[0], &origin[0], 1);
  kernel_of(Op::prod, Type::int32)(&target[1], &origin[1], 1);
  EXPECT_EQ(target[0], INT32_MIN);
  EXPECT_EQ(target[1], 0);
  std::int16_t narrow = INT16_MAX;
  const std::int16_t much = INT16_MAX;
  kernel_of(Op::prod, Type::int16)(&narrow, &much, 1);
  EXPECT_EQ(narrow, 1);
}

TEST(Reduce, what_the_standard_does_not_define_has_no_kernel) {
  std::size_t defined = 0;
  for (std::size_t op = 0; op < kOps; ++op) {
    for (std::size_t type = 0; type < kTypes; ++type) {
      if (kernel_of(static_cast<Op>(op), static_cast<Type>(type)) != nullptr) ++defined;
    }
  }
  // Defined operations: 8 integer types x 10, 3 real x 4, 3 complex x 2, 4 logical x 3, bytes x 3,
  // 8 pair types x 2.
  EXPECT_EQ(defined, 80U + 12U + 6U + 12U + 3U + 16U);
  EXPECT_EQ(kernel_of(Op::band, Type::float64), nullptr);
  EXPECT_EQ(kernel_of(Op::max, Type::complex128), nullptr);
  EXPECT_EQ(kernel_of(Op::sum, Type::logical32), nullptr);
  EXPECT_EQ(kernel_of(Op::sum, Type::byte8), nullptr);
  EXPECT_EQ(kernel_of(Op::replace, Type::float64), nullptr);
  EXPECT_EQ(kernel_of(Op::sum, Type::other), nullptr);
  EXPECT_EQ(bytes_of(Type::other), 0U);
}

}  // namespace
}  // namespace mh::rma
