// SPDX-License-Identifier: BSD-3-Clause
// Finding out what the operating system allows, before anything depends on it.
//
// A live read of a real peer is the only proof (a permission check passes in containers where the
// use fails); the facts gathered here let the node agree beforehand.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>

#include "base/result.hpp"
#include "memory/view.hpp"

namespace mh::memory {

// Reads eight bytes at `of_a_known_value` and compares. mismatch: the read works but finds other
// bytes, so that pid is not the process it was taken for (another pid namespace).
Status probe(const View& of_a_known_value, std::uint64_t value);

// Plain data, comparable between ranks: ranks whose name spaces differ cannot name each other's
// processes.
struct Surroundings {
  std::uint64_t pid_namespace = 0;  // inode of /proc/self/ns/pid, 0 when not readable
  std::uint64_t net_namespace = 0;  // inode of /proc/self/ns/net: the door of the node is in it
  std::int32_t yama_scope = -1;     // kernel.yama.ptrace_scope, -1 without Yama
};
Surroundings look_around();

// Yama scope 1. The nearest process that all of `pids` descend from (one of them, if it is the
// ancestor of the others), or 0 when that cannot be found out.
pid_t common_ancestor(std::span<const pid_t> pids);

// Yama scope 1, every rank. Lets the ranks `pids` of this node read this process, and no wider than
// through their common ancestor: its descendants may attach too. unsupported without Yama; refused
// when only init of the machine is common, which would open this process to everything.
Status allow_ranks_to_read(std::span<const pid_t> pids);

// Whether addresses of the program may be those of an accelerator, which only the MPI library can
// read: true once a run time of one is loaded. Asks the loader again only after it has loaded
// something. Any thread.
bool device_runtime_loaded();

}  // namespace mh::memory
