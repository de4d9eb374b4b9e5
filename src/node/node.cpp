// SPDX-License-Identifier: BSD-3-Clause
#include "node/node.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <new>
#include <string_view>

#include "base/emulated.hpp"
#include "base/fd.hpp"

namespace mh::node {
namespace {

constexpr std::size_t round_up_to_line(std::size_t bytes) {
  return (bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
}

constexpr std::size_t stride_for(std::size_t area_bytes) {
  return sizeof(RankRecord) + round_up_to_line(area_bytes);
}

// True if a segment of `bytes` bytes can have this header, and if the header agrees with what the
// calling rank `me` of `ranks` ranks expects.
bool describes_segment(const SegmentHeader& header, std::size_t bytes, std::uint32_t me,
                       std::uint32_t ranks) {
  return header.magic == kSegmentMagic && header.layout == kLayout && header.ranks == ranks &&
         me < ranks && header.stride >= sizeof(RankRecord) && header.stride % kCacheLine == 0 &&
         sizeof(SegmentHeader) + ranks * header.stride <= bytes;
}

std::uint64_t own_pid_namespace() {
  struct stat found {};
  return ::stat("/proc/self/ns/pid", &found) == 0 ? found.st_ino : 0;
}

// True if /proc shows the PID namespace of this process, and not an outer namespace, in which
// process numbers mean other processes.
bool proc_is_ours() {
  std::array<char, 32> number{};
  const ssize_t length = ::readlink("/proc/self", number.data(), number.size());
  if (length <= 0) return false;
  pid_t pid = 0;
  std::from_chars(number.data(), number.data() + length, pid);
  return pid == ::getpid();
}

// Returns what start_time_of() returns if /proc/PID/stat cannot be read: 0 if the process does not
// exist (`ended`), else nothing.
std::optional<std::uint64_t> ended_if(bool ended) {
  return ended ? std::optional<std::uint64_t>(0) : std::nullopt;
}

}  // namespace

std::optional<std::uint64_t> start_time_of(pid_t pid) {
  std::array<char, 32> path{};
  std::snprintf(path.data(), path.size(), "/proc/%d/stat", static_cast<int>(pid));
  const Fd file(::open(path.data(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return ended_if(errno == ENOENT);
  std::array<char, 1024> text{};
  const ssize_t length = ::read(file.get(), text.data(), text.size());
  if (length <= 0) return ended_if(length < 0 && errno == ESRCH);
  // The text of /proc/PID/stat is "pid (name) state ppid ...". The name may contain blanks and
  // brackets, so fields are counted from the last bracket.
  std::string_view rest(text.data(), static_cast<std::size_t>(length));
  const std::size_t bracket = rest.rfind(')');
  if (bracket == std::string_view::npos || bracket + 2 >= rest.size()) return 0;
  rest.remove_prefix(bracket + 2);
  if (rest.front() == 'Z' || rest.front() == 'X') return 0;
  constexpr int kStateField = 3;
  constexpr int kStartField = 22;
  for (int field = kStateField; field < kStartField; ++field) {
    const std::size_t blank = rest.find(' ');
    if (blank == std::string_view::npos) return 0;
    rest.remove_prefix(blank + 1);
  }
  std::uint64_t start = 0;
  std::from_chars(rest.data(), rest.data() + rest.size(), start);
  return start;
}

std::size_t Node::bytes_needed(std::uint32_t ranks, std::size_t area_bytes) {
  return sizeof(SegmentHeader) + ranks * stride_for(area_bytes);
}

Status Node::initialise(std::span<std::byte> memory, std::uint32_t ranks, std::size_t area_bytes,
                        const Topology& topology) {
  if (ranks == 0 || ranks > kMaxRanks) return {Code::unsupported, 0};
  if (memory.size() < bytes_needed(ranks, area_bytes)) return {Code::mismatch, 0};
  auto* header = new (memory.data()) SegmentHeader{};
  if (::getrandom(header->job_key, sizeof header->job_key, 0) != sizeof header->job_key) {
    return from_errno(errno);
  }
  if (!header->locks.initialise()) return {Code::system, ENOTSUP};
  header->layout = kLayout;
  header->ranks = ranks;
  header->stride = stride_for(area_bytes);
  header->cache_bytes = topology.cache_bytes;
  header->numa_nodes = topology.numa_nodes;
  const std::size_t known = std::min<std::size_t>(topology.numa_of_cpu.size(), kMaxCpus);
  std::copy_n(topology.numa_of_cpu.begin(), known, header->numa_of_cpu);
  header->magic = kSegmentMagic;
  return {};
}

Node::Node(std::span<std::byte> memory, std::uint32_t me)
    : header_(reinterpret_cast<SegmentHeader*>(memory.data())),
      first_record_(memory.data() + sizeof(SegmentHeader)),
      me_(me) {}

Result<Node> Node::join(std::span<std::byte> memory, std::uint32_t me, std::uint32_t ranks,
                        std::uint32_t world_rank) {
  if (memory.size() < sizeof(SegmentHeader)) return Status{Code::mismatch, 0};
  if (!describes_segment(*reinterpret_cast<const SegmentHeader*>(memory.data()), memory.size(), me,
                         ranks)) {
    return Status{Code::mismatch, 0};
  }
  emulated::enter(me, memory.data());
  Node node(memory, me);
  node.write_own_record(world_rank);
  return node;
}

std::uint16_t Node::numa_of_cpu(std::int32_t cpu) const {
  const bool is_mapped = cpu >= 0 && static_cast<std::uint32_t>(cpu) < kMaxCpus;
  return is_mapped ? header_->numa_of_cpu[cpu] : std::uint16_t{0};
}

void Node::follow_core() {
  if (header_->numa_nodes < 2) return;
  std::atomic<std::uint16_t>& home = mine().numa;
  const std::uint16_t here = numa_of_cpu(emulated::cpu(::sched_getcpu()));
  // The load comes first, and mostly saves the store, since the rank's NUMA node seldom changes. A
  // store would take the cache line away from the ranks that read it.
  if (home.load(std::memory_order_relaxed) != here) home.store(here, std::memory_order_relaxed);
}

void Node::write_own_record(std::uint32_t world_rank) {
  auto* own = new (&mine()) RankRecord{};
  own->pid = ::getpid();
  own->start_time = proc_is_ours() ? start_time_of(own->pid).value_or(0) : 0;
  own->pid_namespace = own_pid_namespace();
  own->world_rank = world_rank;
  own->cpu = emulated::cpu(::sched_getcpu());
  own->numa.store(numa_of_cpu(own->cpu), std::memory_order_relaxed);
  const CpuSet cpus = allowed_cpus();
  for (std::size_t cpu = 0; cpu < kMaxCpus; ++cpu) {
    if (!cpus[cpu]) continue;
    // relaxed: the barrier of all ranks after join() publishes `affinity` and `contested`.
    const std::uint64_t bit = 1ULL << (cpu % 64);
    const std::uint64_t others =
        header_->affinity[cpu / 64].fetch_or(bit, std::memory_order_relaxed);
    if ((others & bit) != 0) {
      header_->contested[cpu / 64].fetch_or(bit, std::memory_order_relaxed);
    }
  }
}

void Node::settle() {
  has_one_pid_namespace_ = mine().pid_namespace != 0;
  for (std::uint32_t rank = 0; rank < ranks(); ++rank) {
    if (record(rank).pid_namespace != mine().pid_namespace) has_one_pid_namespace_ = false;
  }
  usable_cpus_ = 0;
  for (const auto& word : header_->affinity) {
    usable_cpus_ += static_cast<std::uint32_t>(std::popcount(word.load(std::memory_order_relaxed)));
  }
}

CpuSet Node::own_cpus() const {
  CpuSet own = allowed_cpus();
  for (std::size_t cpu = 0; cpu < kMaxCpus; ++cpu) {
    const std::uint64_t word = header_->contested[cpu / 64].load(std::memory_order_relaxed);
    if (((word >> (cpu % 64)) & 1U) != 0) own.reset(cpu);
  }
  return own;
}

bool Node::is_alive(std::uint32_t rank) const {
  const RankRecord& other = record(rank);
  if (other.pid_namespace != mine().pid_namespace) return true;
  if (::kill(other.pid, 0) != 0 && errno == ESRCH) return false;
  if (other.start_time == 0) return true;
  const auto start = start_time_of(other.pid);
  return !start || *start == other.start_time;
}

bool Node::has_idle_peer_except(std::uint32_t but) const {
  for (std::uint32_t rank = 0; rank < ranks(); ++rank) {
    if (rank != me_ && rank != but && record(rank).idle.load(std::memory_order_relaxed) != 0)
      return true;
  }
  return false;
}

std::uint32_t Node::idle_peers() const {
  std::uint32_t count = 0;
  for (std::uint32_t rank = 0; rank < ranks(); ++rank) {
    const bool is_idle = record(rank).idle.load(std::memory_order_relaxed) != 0;
    if (is_idle && rank != me_) ++count;
  }
  return count;
}

bool Node::has_active_ranks(std::uint16_t numa, std::uint64_t limit) const {
  std::uint64_t active = 0;
  for (std::uint32_t rank = 0; rank < ranks() && active < limit; ++rank) {
    const bool is_active = record(rank).idle.load(std::memory_order_relaxed) == 0;
    if (is_active && numa_of(rank) == numa) ++active;
  }
  return active >= limit;
}

}  // namespace mh::node
