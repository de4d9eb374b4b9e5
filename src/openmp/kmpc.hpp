// SPDX-License-Identifier: BSD-3-Clause
// The entry points of LLVM's libomp; see kmpc.cpp.
#pragma once

#include <vector>

#include "openmp/real.hpp"

namespace mh::openmp {

void add_kmpc(std::vector<Binding>& table);

}  // namespace mh::openmp
