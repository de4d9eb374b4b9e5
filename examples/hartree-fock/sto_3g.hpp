// SPDX-License-Identifier: BSD-3-Clause
// The STO-3G basis (Hehre, Stewart, Pople, J. Chem. Phys. 51, 2657, 1969; Hehre et al. 52, 2769,
// 1970) of a few elements: for each shell its angular momentum, exponents and coefficients.
#pragma once

#include <array>
#include <vector>

namespace hf {

struct BasisShell {
  int angular;
  std::array<double, 3> exponents;
  std::array<double, 3> coefficients;
};

// Returns the shells of an element, or none if the element is not in the table.
inline std::vector<BasisShell> sto_3g(int atomic_number) {
  switch (atomic_number) {
    case 1:
      return {
          {0, {3.42525091, 0.62391373, 0.1688554}, {0.15432897, 0.53532814, 0.44463454}},
      };
    case 4:
      return {
          {0, {30.167871, 5.4951153, 1.4871927}, {0.15432897, 0.53532814, 0.44463454}},
          {0, {1.3148331, 0.3055389, 0.0993707}, {-0.09996723, 0.39951283, 0.70011547}},
          {1, {1.3148331, 0.3055389, 0.0993707}, {0.15591627, 0.60768372, 0.39195739}},
      };
    case 6:
      return {
          {0, {71.616837, 13.045096, 3.5305122}, {0.15432897, 0.53532814, 0.44463454}},
          {0, {2.9412494, 0.6834831, 0.2222899}, {-0.09996723, 0.39951283, 0.70011547}},
          {1, {2.9412494, 0.6834831, 0.2222899}, {0.15591627, 0.60768372, 0.39195739}},
      };
    case 7:
      return {
          {0, {99.106169, 18.052312, 4.8856602}, {0.15432897, 0.53532814, 0.44463454}},
          {0, {3.7804559, 0.8784966, 0.2857144}, {-0.09996723, 0.39951283, 0.70011547}},
          {1, {3.7804559, 0.8784966, 0.2857144}, {0.15591627, 0.60768372, 0.39195739}},
      };
    case 8:
      return {
          {0, {130.70932, 23.808861, 6.4436083}, {0.15432897, 0.53532814, 0.44463454}},
          {0, {5.0331513, 1.1695961, 0.380389}, {-0.09996723, 0.39951283, 0.70011547}},
          {1, {5.0331513, 1.1695961, 0.380389}, {0.15591627, 0.60768372, 0.39195739}},
      };
    default:
      return {};
  }
}

}  // namespace hf
