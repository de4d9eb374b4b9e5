// SPDX-License-Identifier: BSD-3-Clause
// A forked child process for a test. The child runs a function and exits with its value. No child
// outlives the test: the parent's death or an alarm kills it.
#pragma once

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <utility>

namespace mh::test {

class Child {
 public:
  template <class Body>
  explicit Child(Body body) {
    const pid_t parent = ::getpid();
    pid_ = ::fork();
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(0);  // the parent died before prctl()
    ::alarm(kLifeSeconds);
    ::_exit(body());
  }
  Child(Child&& other) noexcept : pid_(std::exchange(other.pid_, 0)) {}
  Child& operator=(Child&&) = delete;
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    wait();
  }

  [[nodiscard]] pid_t pid() const { return pid_; }
  void kill(int signal) const { ::kill(pid_, signal); }
  // Waits for the child's end. Returns its exit code, or minus the signal that ended it.
  int wait() {
    int status = 0;
    if (pid_ <= 0 || ::waitpid(pid_, &status, 0) != pid_) return -1000;
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  // Waits for the child's end without reaping it, so that it stays a zombie.
  void wait_for_zombie() const {
    siginfo_t info{};
    ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT);
  }

 private:
  static constexpr unsigned kLifeSeconds = 200;
  pid_t pid_ = 0;
};

}  // namespace mh::test
