// SPDX-License-Identifier: BSD-3-Clause
// Divides the cores of a host among the ranks on it. The threads of a process do not know of the
// threads of other processes. If threads of two processes spin on one core, each takes the core
// from the other for whole time slices.
//
// Each rank names the cores that it may use. A core that several ranks of the host may use is
// divided among them.
#pragma once

#include <string>
#include <vector>

namespace mh::lci::detail {

// Returns the cores that this process may use, as a text for own_share().
std::string usable_cores();
// Returns the number of this rank's cores, at least 1. `cores`: usable_cores() of each rank of the
// host; `self`: the index of this rank.
unsigned own_share(const std::vector<std::string>& cores, std::size_t self);

}  // namespace mh::lci::detail
