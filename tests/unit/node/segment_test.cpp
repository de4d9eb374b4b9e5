// SPDX-License-Identifier: BSD-3-Clause
#include "node/segment.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "support/child.hpp"
#include "support/deny.hpp"

namespace mh::node {
namespace {

constexpr std::size_t kBytes = 1U << 20U;

std::size_t entries(const char* folder) {
  const std::filesystem::directory_iterator all(folder);
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

Fd duplicate(int fd) { return Fd(::fcntl(fd, F_DUPFD_CLOEXEC, 0)); }

TEST(Segment, is_zero_and_writable_to_its_last_byte) {
  Result<Segment> segment = Segment::create(kBytes);
  ASSERT_TRUE(segment.ok());
  ASSERT_EQ(segment->size(), kBytes);
  EXPECT_TRUE(std::all_of(segment->data(), segment->data() + kBytes,
                          [](std::byte byte) { return byte == std::byte{0}; }));
  segment->data()[kBytes - 1] = std::byte{1};
}

TEST(Segment, attached_twice_is_the_same_memory) {
  Result<Segment> first = Segment::create(kBytes);
  ASSERT_TRUE(first.ok());
  Result<Segment> second = Segment::attach(duplicate(first->fd()), kBytes);
  ASSERT_TRUE(second.ok());
  ASSERT_NE(first->data(), second->data());
  first->data()[100] = std::byte{42};
  EXPECT_EQ(second->data()[100], std::byte{42});
}

TEST(Segment, the_mapping_outlives_the_descriptor) {
  Result<Segment> segment = Segment::create(kBytes);
  ASSERT_TRUE(segment.ok());
  segment->close_fd();
  EXPECT_EQ(segment->fd(), -1);
  segment->data()[0] = std::byte{1};
}

TEST(Segment, nobody_can_change_its_size) {
  Result<Segment> segment = Segment::create(kBytes);
  ASSERT_TRUE(segment.ok());
  EXPECT_NE(::ftruncate(segment->fd(), 0), 0);
  EXPECT_NE(::ftruncate(segment->fd(), 2 * kBytes), 0);
}

TEST(Segment, another_size_is_a_mismatch) {
  Result<Segment> segment = Segment::create(kBytes);
  ASSERT_TRUE(segment.ok());
  EXPECT_EQ(Segment::attach(duplicate(segment->fd()), 2 * kBytes).status().code, Code::mismatch);
  EXPECT_EQ(Segment::attach(duplicate(segment->fd()), kBytes / 2).status().code, Code::mismatch);
}

TEST(Segment, a_file_that_could_shrink_is_a_mismatch) {
  Fd open_ended(::memfd_create("test", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(open_ended.get(), kBytes), 0);
  EXPECT_EQ(Segment::attach(std::move(open_ended), kBytes).status().code, Code::mismatch);
}

TEST(Segment, leaves_nothing_behind) {
  const std::size_t files = entries("/dev/shm");
  const std::size_t descriptors = entries("/proc/self/fd");
  {
    Result<Segment> segment = Segment::create(kBytes);
    ASSERT_TRUE(segment.ok());
    EXPECT_EQ(entries("/dev/shm"), files);
    EXPECT_NE(::fcntl(segment->fd(), F_GETFD) & FD_CLOEXEC, 0);
  }
  EXPECT_EQ(entries("/dev/shm"), files);
  EXPECT_EQ(entries("/proc/self/fd"), descriptors);
}

// Runs `prepare` and then Segment::create() in a child process. Returns the code with which
// create() fails.
template <class Prepare>
Code code_of_create_after(Prepare prepare) {
  test::Child child([&] {
    if (!prepare()) return 100;
    return static_cast<int>(Segment::create(kBytes).status().code);
  });
  return static_cast<Code>(child.wait());
}

TEST(Segment, more_memory_than_there_is_is_never_asked_of_the_kernel) {
  // create() must refuse such sizes itself, with Code::full: fallocate() would allocate memory
  // until the OOM killer came. Here fallocate() is denied with an errno that leads to another code.
  for (const std::size_t bytes : {std::size_t{1} << 45U, std::size_t{1} << 60U, SIZE_MAX}) {
    test::Child child([&] {
      if (!test::deny(SYS_fallocate, EPERM)) return 100;
      return static_cast<int>(Segment::create(bytes).status().code);
    });
    EXPECT_EQ(static_cast<Code>(child.wait()), Code::full);
  }
}

TEST(Segment, a_file_size_limit_is_an_error_and_does_not_end_the_program) {
  EXPECT_EQ(code_of_create_after([] {
              const rlimit limit{4096, 4096};
              return ::setrlimit(RLIMIT_FSIZE, &limit) == 0;
            }),
            Code::full);
}

TEST(Segment, a_kernel_without_memfd_is_unsupported) {
  EXPECT_EQ(code_of_create_after([] { return test::deny(SYS_memfd_create, ENOSYS); }),
            Code::unsupported);
}

TEST(Segment, a_lack_of_memory_is_full) {
  EXPECT_EQ(code_of_create_after([] { return test::deny(SYS_fallocate, ENOSPC); }), Code::full);
}

TEST(Segment, a_refusal_of_the_sandbox_is_refused) {
  EXPECT_EQ(code_of_create_after([] { return test::deny(SYS_memfd_create, EPERM); }),
            Code::refused);
}

TEST(PublishedFd, has_a_high_number_and_is_closed_at_its_end) {
  const Result<Segment> segment = Segment::create(kBytes);
  ASSERT_TRUE(segment);
  PublishedFd published;
  published.open(segment->fd());
  const int fd = published.fd();
  EXPECT_GE(fd, 192);
  EXPECT_EQ(::fcntl(fd, F_GETFD), FD_CLOEXEC);
  published.withdraw();
  EXPECT_EQ(::fcntl(fd, F_GETFD), -1);
  published.withdraw();
}

TEST(PublishedFd, a_file_that_the_program_has_put_in_its_place_stays_open) {
  const Result<Segment> segment = Segment::create(kBytes);
  const Result<Segment> other = Segment::create(kBytes);
  ASSERT_TRUE(segment && other);
  PublishedFd published;
  published.open(segment->fd());
  const int fd = published.fd();
  ASSERT_EQ(::dup2(other->fd(), fd), fd);
  published.withdraw();
  EXPECT_GE(::fcntl(fd, F_GETFD), 0);
  ::close(fd);
}

TEST(PublishedFd, a_program_with_few_descriptors_keeps_them_all) {
  test::Child child([] {
    const Result<Segment> segment = Segment::create(kBytes);
    const rlimit limit{100, 100};
    if (!segment || ::setrlimit(RLIMIT_NOFILE, &limit) != 0) return 100;
    PublishedFd published;
    published.open(segment->fd());
    return published.fd() < 0 ? 0 : 1;
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST(Segment, no_descriptor_left_is_full) {
  EXPECT_EQ(code_of_create_after([] {
              const rlimit limit{3, 3};
              return ::setrlimit(RLIMIT_NOFILE, &limit) == 0;
            }),
            Code::full);
}

}  // namespace
}  // namespace mh::node
