// SPDX-License-Identifier: BSD-3-Clause
// The names of the balancers of task collections, for name_of(), balancer_of() and `mh simulate
// --scheme`. Constant.
#pragma once

#include <array>
#include <string_view>
#include <utility>

#include "manyhands/tasks/config.hpp"

namespace mh::tasks {

inline constexpr std::array<std::pair<std::string_view, Balancer>, 6> kBalancerNames{{
    {"none", Balancer::none},
    {"steal", Balancer::steal},
    {"retain", Balancer::retain},
    {"plb-central", Balancer::plb_central},
    {"plb-tree", Balancer::plb_tree},
    {"auto", Balancer::automatic},
}};

}  // namespace mh::tasks
