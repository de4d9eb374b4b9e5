// SPDX-License-Identifier: BSD-3-Clause
// The entry points of LLVM's libomp; see kmpc.cpp.
#pragma once

#include <vector>

#include "openmp/real.hpp"

namespace mh::openmp {

void add_kmpc(std::vector<Binding>& table);
// The run time numbers the calling thread anew: it is the only one of a new process.
void forget_number();

}  // namespace mh::openmp
