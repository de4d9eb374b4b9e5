// SPDX-License-Identifier: BSD-3-Clause
// The ranks of a job: their addresses and their deaths.
//
// Each process has a connection to rank 0. The ranks exchange their addresses over these
// connections at the start. The operating system closes the connections of a process that ends in
// any way, so rank 0 notices each death without a time limit. TCP keep-alive notices a host that
// has left the network within 5 s. If rank 0 dies, all other ranks notice that death at once, but
// no later deaths.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "manyhands/lci/completion.hpp"
#include "manyhands/result.hpp"

namespace mh::lci {

struct JobConfig {
  // The rank of this process. -1: taken from MH_LCI_RANK and MH_LCI_SIZE, or from the launcher's
  // variables (PMI_RANK and PMI_SIZE, OMPI_COMM_WORLD_RANK and _SIZE, SLURM_PROCID and
  // SLURM_NTASKS, PMIX_RANK with PMIx). If none is set, the job has one process. A program that
  // gives `rank` also gives `size`.
  int rank = -1;
  int size = -1;
  // The place where the ranks meet rank 0:
  //   HOST:PORT         rank 0 listens at that port
  //   /PATH             rank 0 writes its address into this file, which must not exist yet
  //   `@NAME`           rank 0 listens at this abstract Unix socket; for ranks of one host
  //   pmi1, pmi2, pmix  the launcher passes on the address, by that interface
  //   empty             as the environment variable MH_LCI_ROOT says
  // If MH_LCI_ROOT is empty, too, ranks of several hosts meet through their launcher. Ranks of one
  // host then meet at an abstract Unix socket, and no file is made. Its name has the ids of the
  // user and of the process that started the ranks: their launcher, or their parent if the program
  // gives `rank`.
  std::string root{};
  int timeout_s = 60;  // seconds until all ranks have joined
};

namespace detail {
class JobState;
}

class Job {
 public:
  // Connects this process to the other ranks of the job. Collective: returns when all ranks have
  // joined. One thread at a time. `misuse`: no valid rank, size or root (meeting place); `gone`: a
  // rank did not join in time; `system` or `full`: the system refuses a connection or a thread. If
  // the environment is at fault or a rank is late, a line on stderr says so.
  MH_LCI_API static Result<Job> join(const JobConfig& config = {});
  MH_LCI_API Job(Job&&) noexcept;
  Job& operator=(Job&&) = delete;
  // Leaves the job. Collective: waits until all other ranks destroy the job, too, or are dead. All
  // devices of the job must have been destroyed before.
  MH_LCI_API ~Job();

  [[nodiscard]] MH_LCI_API int rank() const noexcept;
  [[nodiscard]] MH_LCI_API int size() const noexcept;
  // Any thread may call this. False: the rank has died, or `rank` is out of range.
  [[nodiscard]] MH_LCI_API bool alive(int rank) const noexcept;
  [[nodiscard]] detail::JobState& state() const noexcept { return *state_; }

  // Collective, for set-up: returns the texts `mine` of all ranks, in the order of ranks. One
  // thread at a time. The calling thread calls `meanwhile` about every millisecond while it waits.
  // `gone`: a rank is dead.
  MH_LCI_API Result<std::vector<std::string>> allgather(
      const std::string& mine, const std::function<void()>& meanwhile = {});

 private:
  explicit Job(std::unique_ptr<detail::JobState> state);
  std::unique_ptr<detail::JobState> state_;
};

}  // namespace mh::lci
