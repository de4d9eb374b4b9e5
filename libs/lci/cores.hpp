// SPDX-License-Identifier: BSD-3-Clause
// A rank's part of the cores of its host. Processes do not see each other's threads, and two
// processes whose threads spin on the same cores take them from each other for whole time slices.
//
// Each rank names the cores that it may use. A core that several ranks of the host may use is
// divided among them.
#pragma once

#include <string>
#include <vector>

namespace mh::lci::detail {

// The cores that this process may use, as text for own_share().
std::string usable_cores();
// `cores`: the texts of the ranks of one host, that of this rank at `self`. At least one core.
unsigned own_share(const std::vector<std::string>& cores, std::size_t self);

}  // namespace mh::lci::detail
