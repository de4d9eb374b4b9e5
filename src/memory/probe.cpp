// SPDX-License-Identifier: BSD-3-Clause
#include "memory/probe.hpp"

#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <string_view>
#include <vector>

namespace mh::memory {
namespace {

constexpr int kCapSysPtrace = 19;
constexpr std::uint64_t kInitialPidNamespace = 0xEFFFFFFCU;  // PROC_PID_INIT_INO of the kernel

std::uint64_t inode_of(const char* path) {
  struct stat facts {};
  return ::stat(path, &facts) == 0 ? static_cast<std::uint64_t>(facts.st_ino) : 0;
}

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

template <class T>
std::optional<T> number(std::string_view text, int base = 10) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return std::nullopt;
  T value{};
  const auto [end, error] =
      std::from_chars(text.data() + first, text.data() + text.size(), value, base);
  if (error != std::errc{}) return std::nullopt;
  return value;
}

// The rest of the line of /proc/self/status that starts with `name` and a colon.
std::string status_field(std::string_view name) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.compare(0, name.size(), name) == 0 && line[name.size()] == ':') {
      return line.substr(name.size() + 1);
    }
  }
  return {};
}

std::uint64_t file_system_bytes(const char* path) {
  struct statvfs facts {};
  return ::statvfs(path, &facts) == 0 ? std::uint64_t{facts.f_blocks} * facts.f_frsize : 0;
}

// 0 for init, for a process outside this pid namespace, and for one that does not exist.
pid_t parent_of(pid_t pid) {
  const std::string stat = first_line("/proc/" + std::to_string(pid) + "/stat");
  const std::size_t bracket = stat.rfind(')');
  constexpr std::size_t kToParent = 4;  // ") S "
  if (bracket == std::string::npos || bracket + kToParent >= stat.size()) return 0;
  return number<pid_t>(std::string_view(stat).substr(bracket + kToParent)).value_or(0);
}

// The process itself first, then its parent, up to init.
std::vector<pid_t> lineage(pid_t pid) {
  std::vector<pid_t> line;
  constexpr std::size_t kDeepest = 4096;  // processes may die and be replaced while we look
  for (; pid > 0 && line.size() < kDeepest; pid = parent_of(pid)) line.push_back(pid);
  return line;
}

}  // namespace

Status probe(const View& of_a_known_value, std::uint64_t value) {
  std::uint64_t found = 0;
  const Status status = read(&found, of_a_known_value, sizeof found);
  if (!status) return status;
  if (found != value) return {Code::mismatch, 0};
  return {};
}

Surroundings look_around() {
  Surroundings found;
  found.pid_namespace = inode_of("/proc/self/ns/pid");
  found.user_namespace = inode_of("/proc/self/ns/user");
  found.net_namespace = inode_of("/proc/self/ns/net");
  found.dev_shm_bytes = file_system_bytes("/dev/shm");
  found.yama_scope =
      number<std::int32_t>(first_line("/proc/sys/kernel/yama/ptrace_scope")).value_or(-1);
  found.seccomp_mode = number<std::int32_t>(status_field("Seccomp")).value_or(-1);
  const auto capabilities = number<std::uint64_t>(status_field("CapEff"), 16).value_or(0);
  found.cap_sys_ptrace = ((capabilities >> kCapSysPtrace) & 1U) != 0;
  found.dumpable = ::prctl(PR_GET_DUMPABLE) == 1;
  return found;
}

std::string huge_page_setting() {
  const std::string line = first_line("/sys/kernel/mm/transparent_hugepage/enabled");
  const std::size_t open = line.find('[');
  const std::size_t close = line.find(']');
  if (open == std::string::npos || close == std::string::npos || close < open) return {};
  return line.substr(open + 1, close - open - 1);
}

pid_t common_ancestor(std::span<const pid_t> pids) {
  if (pids.empty()) return 0;
  std::vector<pid_t> shared = lineage(pids.front());
  for (const pid_t pid : pids.subspan(1)) {
    const std::vector<pid_t> line = lineage(pid);
    std::erase_if(shared, [&](pid_t ancestor) {
      return std::find(line.begin(), line.end(), ancestor) == line.end();
    });
  }
  return shared.empty() ? 0 : shared.front();
}

Status allow_ranks_to_read(std::span<const pid_t> pids) {
  const pid_t ancestor = common_ancestor(pids);
  if (ancestor <= 0) return {Code::gone, 0};
  // Init of the machine is everybody's ancestor. Init of a container is not: there it is the
  // launcher.
  if (ancestor == 1 && inode_of("/proc/self/ns/pid") == kInitialPidNamespace) {
    return {Code::refused, 0};
  }
  if (::prctl(PR_SET_PTRACER, static_cast<unsigned long>(ancestor), 0UL, 0UL, 0UL) != 0) {
    return {Code::unsupported, errno};  // EINVAL: a kernel without Yama
  }
  return {};
}

}  // namespace mh::memory
