// SPDX-License-Identifier: BSD-3-Clause
// Starts a benchmark of LCI in two processes of this machine, without a launcher.
#pragma once

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <string>

// Calls live(0, root) in this process and live(1, root) in a child process. Both processes join the
// job of LCI at the address `root`. Returns the result of live(0, root) if it is not 0, else the
// wait status of the child.
template <class Live>
int in_two_processes(const std::string& program, Live live) {
  const std::string root = "@" + program + "-" + std::to_string(::getpid());
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    std::exit(live(1, root));
  }
  const int code = live(0, root);
  int status = 0;
  ::waitpid(child, &status, 0);
  return code != 0 ? code : status;
}
