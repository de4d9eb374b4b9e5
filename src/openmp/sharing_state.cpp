// SPDX-License-Identifier: BSD-3-Clause
#include "openmp/sharing_state.hpp"

namespace mh::openmp {

Sites sites;
Lists& lists = *new Lists;  // never gone: exit handlers of the program may have regions
std::atomic<Region*> detail::region{nullptr};
Whose whose = Whose::marked;

}  // namespace mh::openmp
