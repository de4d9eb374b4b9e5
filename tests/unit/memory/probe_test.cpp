// SPDX-License-Identifier: BSD-3-Clause
#include "memory/probe.hpp"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "support/child.hpp"
#include "support/deny.hpp"
#include "support/shared.hpp"

namespace mh::memory {
namespace {

constexpr std::uint64_t kValue = 0x0123456789abcdef;

View view_of(const void* address, pid_t pid = ::getpid()) {
  return {reinterpret_cast<std::uint64_t>(address), pid, 0};
}

// Starts a child that starts another child and waits. The child writes the pid of its own child to
// `where`.
test::Child family(std::atomic<pid_t>& where) {
  return test::Child([&] {
    const test::Child inner([] {
      ::pause();
      return 0;
    });
    where.store(inner.pid());
    ::pause();
    return 0;
  });
}

TEST(Probe, finds_a_value_that_is_there_and_tells_it_from_another) {
  const std::uint64_t value = kValue;
  const Status status = probe_read(view_of(&value), kValue);
  if (status.code == Code::refused) GTEST_SKIP() << "process_vm_readv is not permitted here";
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(probe_read(view_of(&value), kValue + 1).code, Code::mismatch);
}

TEST(Probe, reports_a_refusal_as_such) {
  test::Child child([] {
    const std::uint64_t value = kValue;
    if (!test::deny(SYS_process_vm_readv, EPERM)) return 1;
    return probe_read(view_of(&value), kValue).code == Code::refused ? 0 : 2;
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST(AccessFacts, are_the_same_in_a_fork) {
  const AccessFacts here = read_access_facts();
  EXPECT_NE(here.pid_namespace, 0U);
  EXPECT_NE(here.net_namespace, 0U);
  test::Child child([&] {
    if (read_access_facts().pid_namespace != here.pid_namespace) return 1;
    if (read_access_facts().net_namespace != here.net_namespace) return 2;
    return read_access_facts().yama_scope == here.yama_scope ? 0 : 3;
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST(CommonAncestor, of_siblings_is_their_parent) {
  const auto body = [] {
    ::pause();
    return 0;
  };
  const test::Child first(body);
  const test::Child second(body);
  const std::array<pid_t, 2> both = {first.pid(), second.pid()};
  EXPECT_EQ(common_ancestor(both), ::getpid());
}

TEST(CommonAncestor, of_a_process_and_its_descendant_is_the_process) {
  test::SharedMemory memory(4096);
  auto& inner = *new (memory.span().data()) std::atomic<pid_t>{0};
  const test::Child outer = family(inner);
  while (inner.load() == 0) ::usleep(1000);
  const std::array<pid_t, 2> line = {inner.load(), outer.pid()};
  EXPECT_EQ(common_ancestor(line), outer.pid());
  const std::array<pid_t, 2> with_me = {inner.load(), ::getpid()};
  EXPECT_EQ(common_ancestor(with_me), ::getpid());
}

TEST(CommonAncestor, of_one_process_is_itself_and_of_none_is_unknown) {
  const std::array<pid_t, 1> me = {::getpid()};
  EXPECT_EQ(common_ancestor(me), ::getpid());
  EXPECT_EQ(common_ancestor({}), 0);
}

TEST(AllowRanksToRead, works_under_yama_and_is_unsupported_without) {
  const std::array<pid_t, 1> me = {::getpid()};
  const Status status = allow_ranks_to_read(me);
  if (read_access_facts().yama_scope < 0) {
    EXPECT_EQ(status.code, Code::unsupported);
  } else {
    EXPECT_TRUE(status.ok());
  }
}

TEST(AllowRanksToRead, never_opens_this_process_to_the_whole_machine) {
  if (read_access_facts().pid_namespace != 0xEFFFFFFCU)
    GTEST_SKIP() << "init here is not that of the machine";
  const std::array<pid_t, 2> everybody = {1, ::getpid()};
  EXPECT_EQ(allow_ranks_to_read(everybody).code, Code::refused);
}

}  // namespace
}  // namespace mh::memory
