// SPDX-License-Identifier: BSD-3-Clause
// What all threads of this process share loops by: the one region, the sites of all others, the
// user's lists. sharing.cpp switches it on and off.
#pragma once

#include <atomic>
#include <cstdint>

#include "openmp/lists.hpp"
#include "openmp/region.hpp"
#include "openmp/sites.hpp"

namespace mh::openmp {

extern Sites sites;
extern Lists& lists;

namespace detail {
// relaxed: set while no loop is shared, and a thread that does not see it yet shares none.
extern std::atomic<Region*> region;
}  // namespace detail

// Whose loops: those that the user marked, or those of every region that allows it.
enum class Whose : std::uint8_t { marked, all };
extern Whose whose;

// Null while loops are not shared.
inline Region* shared_region() { return detail::region.load(std::memory_order_relaxed); }

}  // namespace mh::openmp
