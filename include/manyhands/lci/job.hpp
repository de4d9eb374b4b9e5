// SPDX-License-Identifier: BSD-3-Clause
// The ranks of a job: their addresses and their deaths.
//
// Each process has a connection to rank 0. The ranks exchange their addresses over it at the start.
// The operating system closes the connections of a process that ends in any way, so rank 0 notices
// each death without a time limit. TCP keep-alive notices a host that has left the network within
// 5 s. If rank 0 dies, all other ranks notice that at once, but no further deaths.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "manyhands/lci/completion.hpp"
#include "manyhands/result.hpp"

namespace mh::lci {

struct JobConfig {
  // -1: from MH_LCI_RANK and MH_LCI_SIZE, or from the launcher's variables (PMI_RANK and PMI_SIZE,
  // OMPI_COMM_WORLD_RANK and _SIZE, SLURM_PROCID and SLURM_NTASKS, PMIX_RANK with PMIx); without
  // any a job of one process.
  int rank = -1;
  int size = -1;
  // The place where the ranks meet rank 0:
  //   HOST:PORT         rank 0 listens at that port
  //   /PATH             rank 0 writes its address into this file, which must not exist
  //   a name after an at sign: a name in the kernel, for ranks of one host
  //   pmi1, pmi2, pmix  the launcher tells the address
  //   empty             MH_LCI_ROOT
  // If MH_LCI_ROOT is empty too, ranks of several hosts meet through their launcher. Ranks of one
  // host then meet by a name in the kernel made from the id of their parent process. No file is
  // made.
  std::string root{};
  int timeout_s = 60;  // seconds until all ranks have joined
};

namespace detail {
class JobState;
}

class Job {
 public:
  // Collective: returns when all ranks have joined. `misuse`: no valid rank, size or root; `gone`:
  // a rank did not join in time; `system`: no connection.
  MH_LCI_API static Result<Job> join(const JobConfig& config = {});
  MH_LCI_API Job(Job&&) noexcept;
  Job& operator=(Job&&) = delete;
  // Collective: waits until all other ranks leave, too, or are dead.
  MH_LCI_API ~Job();

  [[nodiscard]] MH_LCI_API int rank() const noexcept;
  [[nodiscard]] MH_LCI_API int size() const noexcept;
  [[nodiscard]] MH_LCI_API bool alive(int rank) const noexcept;
  [[nodiscard]] detail::JobState& state() const noexcept { return *state_; }

  // Collective, for set-up: returns the `mine` of all ranks, in the order of ranks. One thread at a
  // time. Calls `meanwhile` about every millisecond. `gone`: a rank is dead.
  MH_LCI_API Result<std::vector<std::string>> allgather(
      const std::string& mine, const std::function<void()>& meanwhile = {});

 private:
  explicit Job(std::unique_ptr<detail::JobState> state);
  std::unique_ptr<detail::JobState> state_;
};

}  // namespace mh::lci
