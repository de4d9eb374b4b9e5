// SPDX-License-Identifier: BSD-3-Clause
#include "rma/mapping.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <vector>

namespace mh::rma {
namespace {

constexpr std::size_t kPage = 4096;

class MappingTest : public ::testing::TestWithParam<MappingSource> {
 protected:
  MappingTest() : fd_(::memfd_create("mapping-test", MFD_CLOEXEC)) {
    EXPECT_EQ(::ftruncate(fd_, 8 * kPage), 0);
  }
  ~MappingTest() override {
    for (const auto& [address, bytes] : mapped_) ::munmap(address, bytes);
    ::close(fd_);
  }
  std::byte* map(std::size_t pages, std::size_t first_page, int kind = MAP_SHARED,
                 int access = PROT_READ | PROT_WRITE) {
    void* address =
        ::mmap(nullptr, pages * kPage, access, kind, fd_, static_cast<off_t>(first_page * kPage));
    EXPECT_NE(address, MAP_FAILED);
    mapped_.emplace_back(address, pages * kPage);
    return static_cast<std::byte*>(address);
  }

 private:
  int fd_;
  std::vector<std::pair<void*, std::size_t>> mapped_;
};

TEST_P(MappingTest, bytes_of_a_shared_file_are_found_where_it_is_mapped_again) {
  std::byte* mine = map(4, 2);
  const auto file = Mappings::read(GetParam()).file_of(mine + 100, 2 * kPage);
  ASSERT_TRUE(file.has_value());
  EXPECT_EQ(file->offset, 2 * kPage + 100);
  // Until the end of the test this process plays the peer, which maps other pages of the file as
  // well. The first mapping, `mine`, is removed, so that only the peer's mapping, `peers`, contains
  // the bytes that `file` names.
  ::munmap(mine, 4 * kPage);
  std::byte* peers = map(8, 0);
  std::byte* found = Mappings::read(GetParam()).address_of(*file);
  ASSERT_EQ(found, peers + 2 * kPage + 100);
  *found = std::byte{42};
  EXPECT_EQ(peers[2 * kPage + 100], std::byte{42});
}

TEST_P(MappingTest, what_is_not_all_mapped_is_not_found) {
  std::byte* mine = map(4, 2);
  const auto file = Mappings::read(GetParam()).file_of(mine, 4 * kPage);
  ASSERT_TRUE(file.has_value());
  ::munmap(mine, 4 * kPage);
  map(3, 2);
  EXPECT_EQ(Mappings::read(GetParam()).address_of(*file), nullptr);
}

TEST_P(MappingTest, private_and_read_only_memory_is_nobody_elses) {
  EXPECT_FALSE(Mappings::read(GetParam()).file_of(map(2, 0, MAP_PRIVATE), 100).has_value());
  EXPECT_FALSE(
      Mappings::read(GetParam()).file_of(map(2, 0, MAP_SHARED, PROT_READ), 100).has_value());
  const std::vector<char> heap(1 << 20);
  EXPECT_FALSE(Mappings::read(GetParam()).file_of(heap.data(), heap.size()).has_value());
  EXPECT_EQ(Mappings::read(GetParam()).address_of(FileRange{}), nullptr);
}

TEST_P(MappingTest, the_mapping_around_an_address_is_found_alone) {
  std::byte* mine = map(4, 2);
  std::byte* other = map(1, 0);
  const Mappings around = Mappings::around(reinterpret_cast<std::uint64_t>(mine + kPage));
  const auto file = around.file_of(mine, 4 * kPage);
  ASSERT_TRUE(file.has_value());
  EXPECT_EQ(around.address_of(*file), mine);
  // On a kernel that cannot be asked for one mapping, around() reads all mappings.
  EXPECT_EQ(around.file_of(other, kPage).has_value(), around.are_all());
  EXPECT_TRUE(Mappings::read(GetParam()).are_all());
  EXPECT_FALSE(Mappings::around(0).file_of(mine, kPage).has_value() && !around.are_all());
}

TEST_P(MappingTest, both_sources_say_the_same) {
  std::byte* mine = map(4, 2);
  const auto file = Mappings::read(GetParam()).file_of(mine, 4 * kPage);
  const auto again = Mappings::read(MappingSource::list).file_of(mine, 4 * kPage);
  ASSERT_TRUE(file.has_value() && again.has_value());
  EXPECT_EQ(file->device, again->device);
  EXPECT_EQ(file->inode, again->inode);
  EXPECT_EQ(file->name, again->name);
  EXPECT_EQ(file->offset, again->offset);
}

INSTANTIATE_TEST_SUITE_P(Sources, MappingTest,
                         ::testing::Values(MappingSource::kernel, MappingSource::list),
                         [](const auto& source) {
                           return source.param == MappingSource::kernel ? "kernel" : "list";
                         });

}  // namespace
}  // namespace mh::rma
