// SPDX-License-Identifier: BSD-3-Clause
#include "memory/view.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <numeric>
#include <vector>

#include "support/child.hpp"
#include "support/deny.hpp"
#include "support/shared.hpp"

namespace mh::memory {
namespace {

std::size_t page() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

View view_of(const void* address, pid_t pid = ::getpid()) {
  return {reinterpret_cast<std::uint64_t>(address), pid, 0};
}

std::vector<std::uint8_t> pattern(std::size_t bytes, std::uint8_t first) {
  std::vector<std::uint8_t> all(bytes);
  std::iota(all.begin(), all.end(), first);
  return all;
}

// Forks a child that sleeps. The child has `data` at the same address as this process.
test::Child sleeper() {
  return test::Child([] {
    ::pause();
    return 0;
  });
}

// Returns whether the kernel permits process_vm_readv. If it does not, the tests check the refusal
// or are skipped.
bool cma_works() {
  const int value = 1;
  int copy = 0;
  return read_remote(&copy, view_of(&value), sizeof value).ok();
}
#define SKIP_WITHOUT_CMA() \
  if (!cma_works()) GTEST_SKIP() << "process_vm_readv is not permitted here"

TEST(View, reads_and_writes_another_process) {
  SKIP_WITHOUT_CMA();
  auto shared_address = pattern(3 * page() + 17, 1);
  test::Child other = sleeper();
  const View there = view_of(shared_address.data(), other.pid());
  std::vector<std::uint8_t> got(shared_address.size());
  ASSERT_TRUE(read_remote(got.data(), there, got.size()).ok());
  EXPECT_EQ(got, shared_address);
  const auto fresh = pattern(got.size(), 77);
  ASSERT_TRUE(write_remote(there, fresh.data(), fresh.size()).ok());
  ASSERT_TRUE(read_remote(got.data(), there, got.size()).ok());
  EXPECT_EQ(got, fresh);
  EXPECT_NE(shared_address, fresh) << "the copy of this process is its own";
}

TEST(View, a_process_that_is_gone_is_gone) {
  SKIP_WITHOUT_CMA();
  test::Child child([] { return 0; });
  const pid_t pid = child.pid();
  child.wait();
  int value = 0;
  EXPECT_EQ(read_remote(&value, view_of(&value, pid), sizeof value).code, Code::gone);
  EXPECT_EQ(write_remote(view_of(&value, pid), &value, sizeof value).code, Code::gone);
}

TEST(View, memory_that_is_not_there_is_a_fault_after_the_part_that_is) {
  SKIP_WITHOUT_CMA();
  void* two_pages =
      ::mmap(nullptr, 2 * page(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(two_pages, MAP_FAILED);
  *static_cast<std::uint8_t*>(two_pages) = 9;
  ASSERT_EQ(::munmap(static_cast<std::byte*>(two_pages) + page(), page()), 0);
  std::vector<std::uint8_t> got(2 * page());
  EXPECT_EQ(read_remote(got.data(), view_of(two_pages), got.size()).code, Code::fault);
  EXPECT_EQ(got[0], 9) << "a prefix may have been written";
  EXPECT_EQ(write_remote(view_of(two_pages), got.data(), got.size()).code, Code::fault);
  ::munmap(two_pages, page());
}

TEST(View, memory_that_may_only_be_read_is_not_written) {
  SKIP_WITHOUT_CMA();
  void* read_only = ::mmap(nullptr, page(), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(read_only, MAP_FAILED);
  const int value = 1;
  EXPECT_EQ(write_remote(view_of(read_only), &value, sizeof value).code, Code::fault);
  ::munmap(read_only, page());
}

TEST(View, a_sandbox_that_forbids_it_is_a_refusal_in_both_directions) {
  test::Child child([] {
    int value = 0;
    if (!test::deny(SYS_process_vm_readv, EPERM)) return 1;
    if (read_remote(&value, view_of(&value), sizeof value).code != Code::refused) return 2;
    if (!test::deny(SYS_process_vm_writev, EPERM)) return 3;
    if (write_remote(view_of(&value), &value, sizeof value).code != Code::refused) return 4;
    return 0;
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST(View, a_kernel_without_the_call_is_unsupported) {
  test::Child child([] {
    int value = 0;
    if (!test::deny(SYS_process_vm_readv, ENOSYS)) return 1;
    return read_remote(&value, view_of(&value), sizeof value).code == Code::unsupported ? 0 : 2;
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST(View, a_process_of_another_user_is_a_refusal) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to become another user";
  const int value = 7;
  const pid_t root = ::getpid();
  test::Child stranger([&] {
    if (::setuid(65534) != 0) return 1;
    int got = 0;
    return read_remote(&got, view_of(&value, root), sizeof got).code == Code::refused ? 0 : 2;
  });
  EXPECT_EQ(stranger.wait(), 0);
}

}  // namespace
}  // namespace mh::memory
