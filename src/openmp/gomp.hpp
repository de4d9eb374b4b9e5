// SPDX-License-Identifier: BSD-3-Clause
// The entry points of libgomp; see gomp.cpp.
#pragma once

#include <vector>

#include "openmp/real.hpp"

namespace mh::openmp {

void add_gomp(std::vector<Binding>& table);

}  // namespace mh::openmp
