// SPDX-License-Identifier: BSD-3-Clause
// Tests how LCI talks to launchers: to one that speaks PMI-1 only, and to launchers that fail.
#include "lci/launcher.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <string>
#include <thread>

#include "manyhands/lci/job.hpp"

namespace mh::lci::detail {
namespace {

using std::chrono::milliseconds;

Deadline soon() { return Deadline::clock::now() + std::chrono::seconds(20); }

// A launcher at the other end of PMI_FD, which answers each command from a table. It closes the
// connection at a command that is not in the table.
class OldLauncher {
 public:
  explicit OldLauncher(std::map<std::string, std::string> answers) : answers_(std::move(answers)) {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    ours_ = ends[0];
    theirs_ = ends[1];
    ::setenv("PMI_FD", std::to_string(theirs_).c_str(), 1);
    thread_ = std::thread([this] { serve(); });
  }
  ~OldLauncher() {
    ::shutdown(theirs_, SHUT_RDWR);
    thread_.join();
    ::close(theirs_);
    ::close(ours_);
    ::unsetenv("PMI_FD");
  }
  OldLauncher(const OldLauncher&) = delete;
  OldLauncher& operator=(const OldLauncher&) = delete;

 private:
  void serve() const {
    std::string line;
    for (char next = 0; ::read(ours_, &next, 1) == 1;) {
      if (next != '\n') {
        line += next;
        continue;
      }
      const auto answer = answers_.find(line);
      if (answer == answers_.end()) break;
      const std::string text = answer->second + '\n';
      if (::write(ours_, text.data(), text.size()) < 0) break;
      line.clear();
    }
    ::shutdown(ours_, SHUT_RDWR);
  }

  const std::map<std::string, std::string> answers_;
  int ours_ = -1;
  int theirs_ = -1;
  std::thread thread_;
};

std::map<std::string, std::string> pmi_1() {
  return {
      {"cmd=init pmi_version=2 pmi_subversion=0",
       "cmd=response_to_init rc=-1 pmi_version=1 pmi_subversion=1"},
      {"cmd=init pmi_version=1 pmi_subversion=1",
       "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1"},
      {"cmd=get_my_kvsname", "cmd=my_kvsname rc=0 kvsname=job"},
      {"cmd=put kvsname=job key=mh-lci-root value=h:7", "cmd=put_result rc=0 msg=success"},
      {"cmd=barrier_in", "cmd=barrier_out rc=0"},
      {"cmd=get kvsname=job key=mh-lci-root", "cmd=get_result rc=0 msg=success value=h:7"},
      {"cmd=finalize", "cmd=finalize_ack rc=0"},
  };
}

TEST(Launcher, that_refuses_pmi_2_is_asked_for_pmi_1) {
  const OldLauncher launcher(pmi_1());
  EXPECT_EQ(offered_launcher(), "pmi2");
  EXPECT_EQ(share_text(Launcher::pmi2, 0, "h:7", soon()), "h:7");
}

TEST(Launcher, gives_the_text_to_a_rank_that_has_none) {
  auto answers = pmi_1();
  answers.erase("cmd=put kvsname=job key=mh-lci-root value=h:7");
  const OldLauncher launcher(answers);
  EXPECT_EQ(share_text(Launcher::pmi1, 1, "", soon()), "h:7");
}

TEST(Launcher, that_closes_the_connection_gives_no_text) {
  auto answers = pmi_1();
  answers.erase("cmd=barrier_in");
  const OldLauncher launcher(answers);
  EXPECT_EQ(share_text(Launcher::pmi1, 0, "h:7", soon()), "");
}

TEST(Launcher, that_is_silent_is_given_up_at_the_deadline) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  ::setenv("PMI_FD", std::to_string(ends[1]).c_str(), 1);
  EXPECT_EQ(share_text(Launcher::pmi2, 0, "h:7", Deadline::clock::now() + milliseconds(20)), "");
  ::unsetenv("PMI_FD");
  ::close(ends[0]);
  ::close(ends[1]);
}

// A program may inherit the variable PMI_FD without the launcher's socket. The descriptor may then
// be a file, to which LCI must not write.
TEST(Launcher, is_not_written_to_where_it_is_a_file) {
  const std::string path = testing::TempDir() + "/pmi";
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ::setenv("PMI_FD", std::to_string(file).c_str(), 1);
  EXPECT_EQ(share_text(Launcher::pmi2, 0, "h:7", soon()), "");
  EXPECT_EQ(::lseek(file, 0, SEEK_END), 0);
  ::unsetenv("PMI_FD");
  ::close(file);
  ::unlink(path.c_str());
}

TEST(Launcher, tells_where_the_ranks_are) {
  for (const char* name : {"MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE"}) {
    ::setenv(name, "4", 1);
    EXPECT_EQ(spread_of(4), HostSpread::one_host);
    EXPECT_EQ(spread_of(8), HostSpread::several_hosts);
    ::unsetenv(name);
  }
  ::setenv("SLURM_STEP_NUM_NODES", "2", 1);
  EXPECT_EQ(spread_of(4), HostSpread::several_hosts);
  ::setenv("SLURM_STEP_NUM_NODES", "1", 1);
  EXPECT_EQ(spread_of(4), HostSpread::one_host);
  ::unsetenv("SLURM_STEP_NUM_NODES");
  EXPECT_EQ(spread_of(4), HostSpread::unknown);
}

// Returns what rank 1 prints that does not find rank 0 at `root`.
std::string told_alone_at(const std::string& root) {
  testing::internal::CaptureStderr();
  const auto job = Job::join({.rank = 1, .size = 2, .root = root, .timeout_s = 0});
  EXPECT_EQ(job.status().code, Code::gone);
  return testing::internal::GetCapturedStderr();
}

TEST(Start, names_the_remedy_if_a_wrapper_may_have_kept_the_ranks_apart) {
  const std::string remedy = "set MH_LCI_ROOT";
  EXPECT_NE(told_alone_at("@mh-no-such-rank-0").find(remedy), std::string::npos);
  EXPECT_EQ(told_alone_at("/no/such/rank-0").find(remedy), std::string::npos);
}

}  // namespace
}  // namespace mh::lci::detail
