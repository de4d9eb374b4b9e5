// SPDX-License-Identifier: BSD-3-Clause
// Finding out what the operating system allows, before anything depends on it.
//
// A live read of a real peer is the only proof (a permission check passes in containers where the
// use fails); the facts gathered here explain the verdict to a user and let the node agree
// beforehand.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <string>

#include "base/result.hpp"
#include "memory/view.hpp"

namespace mh::memory {

// Reads eight bytes at `of_a_known_value` and compares. mismatch: the read works but finds other
// bytes, so that pid is not the process it was taken for (another pid namespace).
Status probe(const View& of_a_known_value, std::uint64_t value);

// Plain data, comparable between ranks: ranks whose name spaces differ cannot name each other's
// processes.
struct Surroundings {
  std::uint64_t pid_namespace = 0;   // inode of /proc/self/ns/pid, 0 when not readable
  std::uint64_t user_namespace = 0;  // inode of /proc/self/ns/user
  std::uint64_t net_namespace = 0;   // inode of /proc/self/ns/net: the door of the node is in it
  std::uint64_t dev_shm_bytes = 0;   // size of /dev/shm, 0 without one
  std::int32_t yama_scope = -1;      // kernel.yama.ptrace_scope, -1 without Yama
  std::int32_t seccomp_mode =
      -1;                       // field Seccomp of /proc/self/status: 0 off, 2 filter, -1 unknown
  bool cap_sys_ptrace = false;  // in the effective set
  bool dumpable = true;         // prctl(PR_GET_DUMPABLE) is 1: others of this user may attach
};
Surroundings look_around();
// The chosen word of /sys/kernel/mm/transparent_hugepage/enabled ("madvise"), empty when absent.
std::string huge_page_setting();

// Yama scope 1. The nearest process that all of `pids` descend from (one of them, if it is the
// ancestor of the others), or 0 when that cannot be found out.
pid_t common_ancestor(std::span<const pid_t> pids);

// Yama scope 1, every rank. Lets the ranks `pids` of this node read this process, and no wider than
// through their common ancestor: its descendants may attach too. unsupported without Yama; refused
// when only init of the machine is common, which would open this process to everything.
Status allow_ranks_to_read(std::span<const pid_t> pids);

}  // namespace mh::memory
