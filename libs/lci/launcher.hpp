// SPDX-License-Identifier: BSD-3-Clause
// The key-value space of the launcher (mpirun, srun), which brings the address of rank 0 to ranks
// on other hosts.
//
// A launcher offers one of three interfaces. PMIx is a library, opened at run time (Open MPI,
// PRRTE, srun --mpi=pmix). PMI-1 and PMI-2 are short texts over the socket PMI_FD (hydra of MPICH
// and Intel MPI, srun --mpi=pmi2, flux).
//
// Limits: a process leaves PMI for good after its first share_text(), so it joins one job by PMI.
// In a process that has loaded an MPI library, PMI belongs to that library. PMIx has neither limit.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace mh::lci::detail {

enum class Launcher { none, pmi1, pmi2, pmix };
using Deadline = std::chrono::steady_clock::time_point;

// Returns the launcher's interface named "pmi1", "pmi2" or "pmix"; Launcher::none for any other
// text.
Launcher launcher_named(std::string_view name);

// Returns the name of the launcher's interface that the environment offers to this process; empty:
// there is none.
std::string offered_launcher();

enum class HostSpread { unknown, one_host, several_hosts };
// Tells from the launcher's environment variables whether the `size` ranks of the job are on one
// host or on several.
HostSpread spread_of(int size);

// Returns the id of the process that has started the ranks of this host. A wrapper that starts one
// rank only is passed over. Call in a process that has its rank from its environment.
int starter_of_ranks();
// Returns the id of the process at the other end of PMI_FD, which is the launcher's; 0: unknown.
int launcher_at_pmi_fd();

// Passes a text from rank 0 to all ranks through the launcher. Collective. Rank 0 gives a text
// without spaces and semicolons, and all ranks get that text. Empty: no answer before the deadline,
// and a message has said why. A launcher that refuses PMI-2 is asked for PMI-1.
std::string share_text(Launcher launcher, int rank, const std::string& text, Deadline deadline);

// Does the work of share_text() by PMI-1 or PMI-2. `version`: 1 or 2.
std::string share_by_pmi(int version, int rank, const std::string& text, Deadline deadline);

// The functions below use PMIx, by one thread of the process at a time. has_pmix() returns false if
// this build has no PMIx, or the machine lacks its library.
bool has_pmix();
// Returns the number of ranks of the job, as the launcher's PMIx says; -1: unknown.
int size_by_pmix();
std::string share_by_pmix(const std::string& text, Deadline deadline);
// Ends the process's use of PMIx in the destructor. No rank may end its use before all ranks have
// called share_by_pmix(), because an earlier end makes share_by_pmix() of other ranks fail.
struct PmixUse {
  PmixUse() = default;
  PmixUse(const PmixUse&) = delete;
  PmixUse& operator=(const PmixUse&) = delete;
  ~PmixUse();
};

}  // namespace mh::lci::detail
