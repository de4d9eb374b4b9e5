// SPDX-License-Identifier: BSD-3-Clause
// Who is here: ranks, addresses, and who has died.
//
// Each process has one connection to rank 0, over which addresses are exchanged at the start and by
// which deaths are noticed: the operating system closes the connections of a process that ends in
// any way, so no time limit has to tell a slow peer from a dead one. (A host that vanishes from the
// network is noticed by TCP keep-alive, within 5 s.) If rank 0 dies, all others see that at once,
// but no further deaths.
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
  // Where rank 0 is found. "HOST:PORT": it listens there. "/PATH": it listens anywhere and writes
  // its address into this file, which must not be there before. Empty: MH_LCI_ROOT; if that is
  // empty, too, a file in /tmp named after the process that started this one: one machine, no shell
  // between.
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
