// SPDX-License-Identifier: BSD-3-Clause
// LCI's transport through shared memory of a node: refused system calls, ranks without shared
// memory in the same job, and the death of a rank.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "lci/job_of_processes.hpp"
#include "lci/ranks.hpp"
#include "support/deny.hpp"

namespace mh::lci {
namespace {

using test::deny;
using test::JobOfProcesses;
using test::pattern;
using test::same;

void refuse(long system_call, int with_errno) {
  if (!deny(system_call, with_errno)) ::_exit(100);
}

// Each rank exchanges short and long messages with all ranks, itself included.
int exchange(Job& /*job*/, Device& device) {
  auto all = Communicator::open(device);
  MH_CHECK(all.ok());
  const auto ranks = static_cast<std::uint32_t>(device.size());
  const auto self = static_cast<std::uint32_t>(device.rank());
  for (const std::size_t size : {0U, 1U, 64U, 8000U, 8001U, 300'000U, 3'000'000U}) {
    std::vector<Synchronizer> sent(ranks);
    std::vector<Synchronizer> received(ranks);
    std::vector<std::vector<std::byte>> theirs(ranks, std::vector<std::byte>(size));
    for (std::uint32_t i = 0; i < ranks; ++i) {
      MH_CHECK(all->start_receive(static_cast<int>(i), i, theirs[i], received[i]).ok());
    }
    const auto mine = pattern(size, self);
    for (std::uint32_t i = 0; i < ranks; ++i) {
      MH_CHECK(all->start_send(static_cast<int>(i), self, mine, sent[i]).ok());
    }
    for (std::uint32_t i = 0; i < ranks; ++i) {
      const auto got = all->wait(received[i]);
      MH_CHECK(got.ok() && *got == size && same(theirs[i], pattern(size, i)));
      MH_CHECK(all->wait(sent[i]).ok());
    }
    MH_CHECK(all->barrier().ok());
  }
  return 0;
}

// Runs a job, and returns what all its ranks wrote to stderr.
std::string said(const JobOfProcesses& job, int size, const std::function<void(int rank)>& before) {
  const std::string file = job.file("said");
  job.run(size, {}, exchange, [&](int rank) {
    const int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    ::dup2(fd, STDERR_FILENO);
    before(rank);
  });
  std::ifstream stream(file);
  std::string text{std::istreambuf_iterator<char>(stream), {}};
  ::unlink(file.c_str());
  return text;
}

TEST(Node, one_rank_alone_sends_to_itself) { JobOfProcesses().run(1, {}, exchange); }

TEST(Node, four_ranks_exchange_messages_of_all_sizes) { JobOfProcesses().run(4, {}, exchange); }

TEST(Node, large_messages_go_through_the_ring_where_the_kernel_refuses) {
  for (const int error : {EPERM, ENOSYS}) {
    EXPECT_EQ(said(JobOfProcesses(), 3, [error](int) { refuse(SYS_process_vm_writev, error); }),
              "");
  }
}

// Rank 0 gets shared memory, but must not use it, because its peers have none.
TEST(Node, a_rank_without_memory_sends_all_to_the_network_and_one_says_so) {
  const std::string text = said(JobOfProcesses(), 3, [](int rank) {
    if (rank != 0) refuse(SYS_memfd_create, EMFILE);
  });
  EXPECT_EQ(text,
            "manyhands: lci: the processes of a host cannot share memory (Too many open files): "
            "their messages go through libfabric, which is slower\n");
}

TEST(Node, a_full_memory_is_refused_when_the_device_is_opened) {
  const std::string text =
      said(JobOfProcesses(), 2, [](int /*rank*/) { refuse(SYS_fallocate, ENOSPC); });
  EXPECT_NE(text.find("(No space left on device)"), std::string::npos) << text;
}

TEST(Node, switched_off_it_asks_for_no_memory) {
  EXPECT_EQ(said(JobOfProcesses(), 2,
                 [](int /*rank*/) {
                   ::setenv("MH_LCI_NODE", "off", 1);
                   refuse(SYS_memfd_create, EMFILE);
                 }),
            "");
}

// Ranks 0 and 1 use shared memory, and MH_LCI_NODE=off keeps ranks 2 and 3 from it. The job thus
// has two transports, as over several hosts. Each transport has packets of its own.
TEST(Node, ranks_with_and_without_it_are_in_one_job) {
  JobOfProcesses().run(4, {}, exchange, [](int rank) {
    if (rank >= 2) ::setenv("MH_LCI_NODE", "off", 1);
  });
}

// Rank 2 makes no progress and dies. All operations with rank 2 end, and the other ranks continue.
TEST(Node, a_peer_that_dies_behind_a_full_ring_is_an_error_in_time) {
  const auto start = std::chrono::steady_clock::now();
  auto ranks = JobOfProcesses().start(
      3, {},
      [](Job& /*job*/, Device& device) {
        auto all = Communicator::open(device);
        MH_CHECK(all.ok() && all->barrier().ok());
        if (device.rank() == 2) {
          ::usleep(300'000);  // makes no progress meanwhile
          ::kill(::getpid(), SIGKILL);
        }
        const auto data = pattern(4000, 1);
        Status status{};
        while (status.ok()) status = all->send(2, 0, data);
        MH_CHECK(status.code == Code::gone);
        const auto large = pattern(500'000, 1);
        MH_CHECK(all->send(2, 0, large).code == Code::gone);
        const int other = 1 - device.rank();
        std::vector<std::byte> buffer(large.size());
        Synchronizer received;
        MH_CHECK(all->start_receive(other, 3, buffer, received).ok());
        MH_CHECK(all->send(other, 3, large).ok());
        MH_CHECK(all->wait(received).ok() && same(buffer, large));
        return 0;
      },
      [](int rank) {
        if (rank == 1) refuse(SYS_process_vm_writev, EPERM);
      });
  EXPECT_EQ(ranks[2].wait(), -SIGKILL);
  EXPECT_EQ(ranks[0].wait(), 0);
  EXPECT_EQ(ranks[1].wait(), 0);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

// The messages that a rank sent before its death arrive before its death is reported.
TEST(Node, messages_of_the_dead_arrive) {
  auto ranks = JobOfProcesses().start(2, {}, [](Job& /*job*/, Device& device) {
    auto all = Communicator::open(device);
    MH_CHECK(all.ok() && all->barrier().ok());
    std::uint32_t number = 0;
    const auto bytes = std::as_writable_bytes(std::span(&number, 1));
    constexpr std::uint32_t kMessages = 100;
    if (device.rank() == 1) {
      for (; number < kMessages; ++number) MH_CHECK(all->send(0, number, bytes).ok());
      ::kill(::getpid(), SIGKILL);
    }
    ::usleep(100'000);
    while (device.alive(1)) device.progress();
    for (std::uint32_t tag = 0; tag < kMessages; ++tag) {
      MH_CHECK(all->receive(1, tag, bytes).ok() && number == tag);
    }
    MH_CHECK(all->receive(1, kMessages, bytes).status().code == Code::gone);
    return 0;
  });
  EXPECT_EQ(ranks[1].wait(), -SIGKILL);
  EXPECT_EQ(ranks[0].wait(), 0);
}

}  // namespace
}  // namespace mh::lci
