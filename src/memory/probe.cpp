// SPDX-License-Identifier: BSD-3-Clause
#include "memory/probe.hpp"

#include <dlfcn.h>
#include <link.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/kernel_file.hpp"

namespace mh::memory {
namespace {

constexpr std::uint64_t kInitialPidNamespace = 0xEFFFFFFCU;  // PROC_PID_INIT_INO of the kernel

std::uint64_t inode_of(const char* path) {
  struct stat status {};
  return ::stat(path, &status) == 0 ? static_cast<std::uint64_t>(status.st_ino) : 0;
}

template <class T>
std::optional<T> parsed_number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return std::nullopt;
  return value;
}

// Returns the process itself, its parent, and so on up to init.
std::vector<pid_t> ancestry_of(pid_t pid) {
  std::vector<pid_t> line;
  // The bound on the number of ancestors ends the loop below even if some of these processes die
  // meanwhile and the kernel gives their numbers to others, so that parent_of() leads round in a
  // circle.
  constexpr std::size_t kDeepest = 4096;
  for (; pid > 0 && line.size() < kDeepest; pid = parent_of(pid)) line.push_back(pid);
  return line;
}

// ---- Accelerators (libraries for device memory) -------------------------------------------------

bool ask_loader() {
  constexpr std::array kRuntimes{"libcuda.so.1", "libamdhip64.so", "libze_loader.so.1"};
  return std::ranges::any_of(kRuntimes, [](const char* name) {
    void* library = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
    if (library != nullptr) dlclose(library);
    return library != nullptr;
  });
}

// Callback of dl_iterate_phdr(): reads from its first call how many objects the dynamic loader has
// loaded so far (dlpi_adds), and returns 1 to end the iteration.
int read_loads(dl_phdr_info* info, std::size_t /*bytes*/, void* loads) {
  *static_cast<std::uint64_t*>(loads) = info->dlpi_adds;
  return 1;
}

// The answer of the last ask_loader() plus two times the dynamic loader's count of loaded objects
// at that time. The answer is 1 if an accelerator's run time was loaded. Both are in one word, so
// no order between two words matters (relaxed).
std::atomic<std::uint64_t> g_seen{0};

}  // namespace

Status probe_read(const View& of_a_known_value, std::uint64_t value) {
  std::uint64_t found = 0;
  const Status status = read_remote(&found, of_a_known_value, sizeof found);
  if (!status) return status;
  if (found != value) return {Code::mismatch, 0};
  return {};
}

AccessFacts read_access_facts() {
  AccessFacts found;
  found.pid_namespace = inode_of("/proc/self/ns/pid");
  found.net_namespace = inode_of("/proc/self/ns/net");
  found.yama_scope =
      parsed_number<std::int32_t>(first_line("/proc/sys/kernel/yama/ptrace_scope")).value_or(-1);
  return found;
}

pid_t common_ancestor(std::span<const pid_t> pids) {
  if (pids.empty()) return 0;
  std::vector<pid_t> shared = ancestry_of(pids.front());
  for (const pid_t pid : pids.subspan(1)) {
    const std::vector<pid_t> line = ancestry_of(pid);
    std::erase_if(shared, [&](pid_t ancestor) {
      return std::find(line.begin(), line.end(), ancestor) == line.end();
    });
  }
  return shared.empty() ? 0 : shared.front();
}

Status allow_ranks_to_read(std::span<const pid_t> pids) {
  const pid_t ancestor = common_ancestor(pids);
  if (ancestor <= 0) return {Code::gone, 0};
  // prctl(PR_SET_PTRACER), below, permits the ancestor and all its descendants to read this
  // process. The machine's init is the ancestor of every process, so this function refuses it. A
  // container's init is the ancestor of the container's processes alone, usually the launcher.
  if (ancestor == 1 && inode_of("/proc/self/ns/pid") == kInitialPidNamespace) {
    return {Code::refused, 0};
  }
  if (::prctl(PR_SET_PTRACER, static_cast<unsigned long>(ancestor), 0UL, 0UL, 0UL) != 0) {
    return {Code::unsupported, errno};  // EINVAL: a kernel without Yama
  }
  return {};
}

bool has_accelerator(const std::string& devices) {
  const auto is_there = [&](const char* file) {
    return ::access((devices + "/" + file).c_str(), F_OK) == 0;
  };
  return is_there("nvidiactl") || is_there("kfd") || is_there("dri/renderD128") || is_there("dxg");
}

bool device_runtime_loaded() {
  std::uint64_t loads = 0;
  dl_iterate_phdr(read_loads, &loads);
  const std::uint64_t seen = g_seen.load(std::memory_order_relaxed);
  if (seen >> 1U == loads) return (seen & 1U) != 0;
  const bool found = ask_loader();
  g_seen.store(loads << 1U | (found ? 1U : 0U), std::memory_order_relaxed);
  return found;
}

}  // namespace mh::memory
