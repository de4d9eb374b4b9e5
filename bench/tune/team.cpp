// SPDX-License-Identifier: BSD-3-Clause
// Forks, pins and reaps the members of a team. team.hpp defines the words.
#include "tune/team.hpp"

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <new>
#include <string>

#include "base/clock.hpp"
#include "node/topology.hpp"

namespace mh::tune {
namespace {

// Returns true if `cpu` is the lowest hardware thread of its core. The team pins members only to
// such threads, and leaves the core's other hardware threads idle.
bool first_of_its_core(int cpu) {
  std::ifstream siblings("/sys/devices/system/cpu/cpu" + std::to_string(cpu) +
                         "/topology/thread_siblings_list");
  int lowest = cpu;
  return !(siblings >> lowest) || lowest == cpu;
}

void pin_to(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(cpu), &set);
  if (::sched_setaffinity(0, sizeof set, &set) != 0)
    std::perror("mh-tune: cannot pin a process to its core");
}

// The body of a forked member; does not return. Under Yama scope 1 only a tracer may read the
// memory of a member. The member names its parent as tracer, which also permits the other members,
// since they are descendants of the parent.
[[noreturn]] void be_member(Member member, int cpu, const std::function<int(Member&)>& work) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::prctl(PR_SET_PTRACER, ::getppid());
  pin_to(cpu);
  const int code = work(member);
  std::fflush(nullptr);
  ::_exit(code);
}

// The parent waits until all members have ended. If one fails, it sets `abandoned`, so that the
// others leave their barriers with false. Returns the largest exit code, 128 + the signal's number
// for a killed member.
int wait_for(Shared& shared, std::size_t members) {
  constexpr int kSignalled = 128;
  int worst = 0;
  for (std::size_t ended = 0; ended < members; ++ended) {
    int status = 0;
    if (::wait(&status) < 0) break;
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : kSignalled + WTERMSIG(status);
    // relaxed: the flag publishes no data; members that wait in a barrier or for a message poll it.
    if (code != 0) shared.abandoned.store(true, std::memory_order_relaxed);
    worst = std::max(worst, code);
  }
  return worst;
}

}  // namespace

bool Member::barrier() {
  constexpr int kSpins = 4000;
  // relaxed: `phase` counts the barriers that are over, and cannot change before this member has
  // arrived at the present barrier.
  const std::uint32_t phase = shared_->phase.load(std::memory_order_relaxed);
  // acq_rel: counts this member's arrival. The last member to arrive sees all writes that the other
  // members made before their arrival. Its release store of the next phase passes these writes on
  // to all members.
  if (shared_->arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == members_) {
    shared_->arrived.store(0, std::memory_order_relaxed);  // published by the store below
    shared_->phase.store(phase + 1, std::memory_order_release);
    return true;
  }
  // acquire: pairs with the release store of the next phase by the last member to arrive.
  for (int spins = 0; shared_->phase.load(std::memory_order_acquire) == phase; ++spins) {
    spin_pause();
    if (spins < kSpins) continue;
    if (shared_->abandoned.load(std::memory_order_relaxed)) return false;
    ::sched_yield();
  }
  return true;
}

std::vector<Place> places() {
  std::vector<Place> found;
  const node::CpuSet allowed = node::allowed_cpus();
  const Result<node::Topology> topology = node::load_topology();
  for (std::size_t cpu = 0; cpu < allowed.size() && found.size() < kMaxMembers; ++cpu) {
    if (!allowed[cpu] || !first_of_its_core(static_cast<int>(cpu))) continue;
    const bool known = topology.ok() && cpu < topology->numa_of_cpu.size();
    const std::uint16_t numa = known ? topology->numa_of_cpu[cpu] : std::uint16_t{0};
    found.push_back({static_cast<int>(cpu), numa});
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Place& a, const Place& b) { return a.numa < b.numa; });
  return found;
}

int run_team(std::span<const Place> places, const std::function<int(Member&)>& work) {
  void* page =
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) {
    std::perror("mh-tune: cannot get shared memory");
    return 1;
  }
  auto& shared = *new (page) Shared;
  ticks_per_ns();  // calibrates the clock before fork(), so that all members inherit the result
  std::fflush(nullptr);
  const auto members = static_cast<std::uint32_t>(places.size());
  std::uint32_t forked = 0;
  for (; forked < members; ++forked) {
    const pid_t child = ::fork();
    if (child == 0) be_member(Member(shared, forked, members), places[forked].cpu, work);
    if (child > 0) continue;
    std::perror("mh-tune: cannot start a process");
    shared.abandoned.store(true, std::memory_order_relaxed);
    break;
  }
  const int code = wait_for(shared, forked);
  ::munmap(page, sizeof(Shared));
  return forked == members ? code : 1;
}

}  // namespace mh::tune
