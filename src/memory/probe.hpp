// SPDX-License-Identifier: BSD-3-Clause
// Finds out which accesses to each other's memory the operating system allows the ranks.
//
// Only a read of a peer's memory is a proof: a permission check passes in some containers where the
// read fails. At the start, the ranks of a node therefore read from each other, and compare the
// outcomes and their AccessFacts.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <string>

#include "base/result.hpp"
#include "memory/view.hpp"

namespace mh::memory {

// Reads eight bytes of another process at `of_a_known_value`. Compares them with `value`, which
// that process has stored there. Result mismatch: the read works but finds other bytes, so
// View::pid names another process than expected (the ranks are in different PID namespaces).
Status probe_read(const View& of_a_known_value, std::uint64_t value);

// Facts about this process that the ranks of a node send each other at the start and compare: ranks
// in different PID namespaces cannot name each other's processes.
struct AccessFacts {
  std::uint64_t pid_namespace = 0;  // inode of /proc/self/ns/pid; 0: not readable
  std::uint64_t net_namespace = 0;  // inode of /proc/self/ns/net; the node's door is in it
  std::int32_t yama_scope = -1;     // kernel.yama.ptrace_scope; -1: no Yama
};
AccessFacts read_access_facts();

// Returns the nearest common ancestor of the processes `pids`, which may itself be one of them; 0
// if it is unknown. Used under Yama scope 1, where a process can permit one other process and its
// descendants to read its memory.
pid_t common_ancestor(std::span<const pid_t> pids);

// Permits all descendants of the common ancestor of the ranks (processes `pids`) to read this
// process. Called by every rank under Yama scope 1. unsupported: the kernel has no Yama. refused:
// the common ancestor is the machine's init, which would permit every process.
Status allow_ranks_to_read(std::span<const pid_t> pids);

// True once the run time of an accelerator (CUDA, HIP, Level Zero) is loaded: addresses of the
// program may then be device memory, which only the MPI library can read. The dynamic loader is
// asked for the run times only if it has loaded something since the last call of this function. Any
// thread may call this function.
bool device_runtime_loaded();

// True if this machine has an accelerator that a program may use: the driver's device file is in
// the folder `devices`.
bool has_accelerator(const std::string& devices = "/dev");

}  // namespace mh::memory
