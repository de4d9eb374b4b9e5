// SPDX-License-Identifier: BSD-3-Clause
// The host that a process sees: kernel, host name, and namespaces.
#pragma once

#include <cstdint>

namespace mh::node {

// Returns a hash of the host's facts: kernel, host name and namespaces. Processes with the same
// hash run on one kernel, under one host name and in the same namespaces, so they can share memory.
// 0: the facts are not known. Thread-safe.
std::uint64_t host_identity();

}  // namespace mh::node
