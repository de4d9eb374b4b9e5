// SPDX-License-Identifier: BSD-3-Clause
// Finds in the environment variables by which interface (PMI-1, PMI-2 or PMIx) the ranks can talk
// to their launcher.
#include "lci/launcher.hpp"

#include <cstdlib>
#include <initializer_list>

namespace mh::lci::detail {
namespace {

// Returns the value of an environment variable; nullptr: the variable is unset or empty.
const char* value_of(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr || *text == '\0' ? nullptr : text;
}

// Returns the number in the first of these environment variables that is set; 0: none is set.
int number_of(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (const char* text = value_of(name)) return std::atoi(text);
  }
  return 0;
}

}  // namespace

Launcher launcher_named(std::string_view name) {
  if (name == "pmi1") return Launcher::pmi1;
  if (name == "pmi2") return Launcher::pmi2;
  return name == "pmix" ? Launcher::pmix : Launcher::none;
}

std::string offered_launcher() {
  if (value_of("PMI_FD") != nullptr) return "pmi2";
  return value_of("PMIX_NAMESPACE") != nullptr && has_pmix() ? "pmix" : "";
}

HostSpread spread_of(int size) {
  const int near = number_of({"MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE"});
  if (near > 0) return near == size ? HostSpread::one_host : HostSpread::several_hosts;
  const int hosts = number_of({"SLURM_STEP_NUM_NODES", "FLUX_JOB_NNODES"});
  if (hosts > 0) return hosts == 1 ? HostSpread::one_host : HostSpread::several_hosts;
  return HostSpread::unknown;
}

std::string share_text(Launcher launcher, int rank, const std::string& text, Deadline deadline) {
  if (launcher == Launcher::pmix) return share_by_pmix(text, deadline);
  return share_by_pmi(launcher == Launcher::pmi1 ? 1 : 2, rank, text, deadline);
}

}  // namespace mh::lci::detail
