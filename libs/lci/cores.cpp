// SPDX-License-Identifier: BSD-3-Clause
#include "lci/cores.hpp"

#include <sched.h>

#include <algorithm>

namespace mh::lci::detail {

// Returns a text with a character for each core of the host: '1' if this process may use the core,
// else '0'.
std::string usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::string cores;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) cores += CPU_ISSET(core, &set) ? '1' : '0';
  cores.resize(cores.rfind('1') + 1);
  return cores;
}

unsigned own_share(const std::vector<std::string>& cores, std::size_t self) {
  const auto may_use = [](const std::string& of, std::size_t core) {
    return core < of.size() && of[core] == '1';
  };
  double share = 0;
  for (std::size_t core = 0; core < cores[self].size(); ++core) {
    if (!may_use(cores[self], core)) continue;
    const auto users = std::count_if(cores.begin(), cores.end(),
                                     [&](const std::string& of) { return may_use(of, core); });
    share += 1.0 / static_cast<double>(users);
  }
  constexpr double kRounding = 1e-6;
  return std::max(1U, static_cast<unsigned>(share + kRounding));
}

}  // namespace mh::lci::detail
