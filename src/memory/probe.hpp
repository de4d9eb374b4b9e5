// SPDX-License-Identifier: BSD-3-Clause
// Finds out which accesses to each other's memory the operating system allows the ranks.
//
// Only a read of a peer's memory is a proof: a permission check passes in some containers where the
// read fails. The ranks compare the outcome and AccessFacts before they depend on reads.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>

#include "base/result.hpp"
#include "memory/view.hpp"

namespace mh::memory {

// Reads eight bytes at `of_a_known_value` and compares them with `value`. mismatch: the read works
// but finds other bytes, so `pid` names another process (another PID namespace).
Status probe_read(const View& of_a_known_value, std::uint64_t value);

// Plain data that ranks compare: ranks of different namespaces cannot name each other's processes.
struct AccessFacts {
  std::uint64_t pid_namespace = 0;  // inode of /proc/self/ns/pid; 0: not readable
  std::uint64_t net_namespace = 0;  // inode of /proc/self/ns/net; the node's door is in it
  std::int32_t yama_scope = -1;     // kernel.yama.ptrace_scope; -1: no Yama
};
AccessFacts read_access_facts();

// Used under Yama scope 1. Returns the nearest common ancestor of `pids`, which may itself be one
// of `pids`; 0 if it is unknown.
pid_t common_ancestor(std::span<const pid_t> pids);

// Used under Yama scope 1, by every rank. Permits all descendants of the ranks' common ancestor to
// read this process. unsupported: no Yama. refused: the common ancestor is the machine's init,
// which would permit every process.
Status allow_ranks_to_read(std::span<const pid_t> pids);

// True once the run time of an accelerator is loaded: addresses of the program may then be device
// memory, which only the MPI library can read. Asks the loader again only after the loader has
// loaded something. Any thread.
bool device_runtime_loaded();

}  // namespace mh::memory
