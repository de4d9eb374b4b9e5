// SPDX-License-Identifier: BSD-3-Clause
// Finds the process that has started the ranks of this host: the nearest ancestor outside of the
// rank.
//
// A wrapper of one rank (`perf stat`, a script) is inside of the rank: the launcher gave it the
// rank's variables, and it passes them on. A launcher that runs in a rank of another launcher may
// have inherited the same values. It is told by the socket PMI_FD, which it has made.
#include <sys/types.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "base/kernel_file.hpp"
#include "lci/launcher.hpp"

namespace mh::lci::detail {
namespace {

// Variables in which a rank differs from the other ranks, or from ranks of other jobs.
constexpr const char* kOfRank[] = {"MH_LCI_RANK",  "PMI_RANK",     "OMPI_COMM_WORLD_RANK",
                                   "PMIX_RANK",    "PMI_FD",       "PMIX_NAMESPACE",
                                   "SLURM_PROCID", "SLURM_STEP_ID"};

// True: the process has each of this rank's variables, with the same value. False: one differs, or
// the process cannot be read, or this process has none.
bool has_variables_of_rank(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/environ");
  std::string environment(1, '\0');  // a zero byte stands before and after each variable
  environment.append(std::istreambuf_iterator<char>(file), {});
  bool has_one = false;
  for (const char* name : kOfRank) {
    const char* value = std::getenv(name);
    if (value == nullptr) continue;
    const std::string variable = std::string(name) + '=' + value;
    if (environment.find('\0' + variable + '\0') == std::string::npos) return false;
    has_one = true;
  }
  return has_one;
}

}  // namespace

int starter_of_ranks() {
  const pid_t launcher = launcher_at_pmi_fd();
  pid_t starter = ::getppid();
  while (starter != launcher && has_variables_of_rank(starter)) starter = parent_of(starter);
  return starter;
}

}  // namespace mh::lci::detail
