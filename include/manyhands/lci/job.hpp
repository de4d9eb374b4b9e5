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
  // -1: from the environment: MH_LCI_RANK and MH_LCI_SIZE, or what the launcher sets (PMI_RANK and
  // PMI_SIZE, OMPI_COMM_WORLD_RANK and _SIZE, SLURM_PROCID and SLURM_NTASKS); else one process.
  int rank = -1;
  int size = -1;
  // The address of rank 0. "HOST:PORT": rank 0 listens there. "/PATH": rank 0 listens at a free
  // port and writes its address into this file, which must not exist. Empty: MH_LCI_ROOT; if that
  // is empty too, a file in /tmp named after the parent process. Then all ranks are children of one
  // process.
  std::string root{};
  int timeout_s = 60;  // for all to come
};

namespace detail {
class JobState;
}

class Job {
 public:
  // Collective: returns when all have come. `misuse`: no rank, size or root; `gone`: somebody did
  // not come in time; `system`: no connection.
  MH_LCI_API static Result<Job> join(const JobConfig& config = {});
  MH_LCI_API Job(Job&&) noexcept;
  Job& operator=(Job&&) = delete;
  // Waits until all others are at the same point, or dead.
  MH_LCI_API ~Job();

  [[nodiscard]] MH_LCI_API int rank() const noexcept;
  [[nodiscard]] MH_LCI_API int size() const noexcept;
  [[nodiscard]] MH_LCI_API bool alive(int rank) const noexcept;
  [[nodiscard]] detail::JobState& state() const noexcept { return *state_; }

  // Collective, for set-up: everybody's `mine`, in the order of ranks. One thread at a time. Calls
  // `meanwhile` now and then while it waits. `gone`: somebody is dead.
  MH_LCI_API Result<std::vector<std::string>> allgather(
      const std::string& mine, const std::function<void()>& meanwhile = {});

 private:
  explicit Job(std::unique_ptr<detail::JobState> state);
  std::unique_ptr<detail::JobState> state_;
};

}  // namespace mh::lci
