// SPDX-License-Identifier: BSD-3-Clause
// Exclusion among all ranks of the node, for `ws critical` and `ws atomic`: the locks of the
// segment.
//
// Inside, the compiler's own code excludes the threads of this rank once more; it is all that is
// left without a segment (one rank on the node). Thread-safe.
#include <atomic>

#include "base/say.hpp"
#include "lend/pool.hpp"
#include "mpi/front/entry.hpp"
#include "mpi/job/config.hpp"
#include "mpi/job/services.hpp"

namespace mh::mpi {
namespace {

void say_once_no_lock() {
  static std::atomic<bool> said{false};  // relaxed: one thread of a rank says it
  if (said.exchange(true, std::memory_order_relaxed)) return;
  print_message(
      "rank {} has more than {} names of critical sections; the further ones exclude only threads "
      "of their own rank",
      config.world_rank, node::NamedLocks::kMost);
}

void lock_or_unlock(std::uint64_t name, int begins) {
  if (!services.node) return;
  node::NamedLock* const lock = services.node->header().locks.find(name);
  if (lock == nullptr) return say_once_no_lock();
  if (begins == 0) return lock->unlock();
  if (lock->lock_soon()) return;
  lend::give_core_back();  // a guest that has to wait
  lock->lock();
}

}  // namespace

mh_locker locker() { return lock_or_unlock; }

}  // namespace mh::mpi
