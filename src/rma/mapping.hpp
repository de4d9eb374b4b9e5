// SPDX-License-Identifier: BSD-3-Clause
// Finds the address at which this process maps memory that another process maps, too.
//
// An MPI library that allocates a window maps the memory of all ranks of a node into each rank, and
// does not publish the addresses. The kernel lists the mappings: two shared mappings of the same
// bytes of a file (device and inode) show the same memory. Each object belongs to one thread.
// Limits: the library must keep the pages mapped as long as the window lives; private and anonymous
// memory has no file, and is never found.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace mh::rma {

// A range of bytes of a file, by which two processes can tell that they map the same memory.
struct FileRange {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;  // 0: no file
  std::uint64_t name = 0;   // digest of the path: inode numbers may repeat on some file systems
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

struct Mapping {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  FileRange file;  // from `begin` on
};

// The way to learn the mappings of this process. With `kernel`, each mapping is queried
// (PROCMAP_QUERY, Linux 6.11), or the list is read on older kernels. With `list`, all mappings are
// read as text from /proc/self/maps, which takes some microseconds for each ten mappings.
enum class MappingSource : std::uint8_t { kernel, list };

class Mappings {
 public:
  // Reads all shared, writable file mappings that this process has at the time of the call.
  static Mappings read(MappingSource source = MappingSource::kernel);
  // Reads the mapping of `address` alone, if the kernel answers queries (Linux 6.11); otherwise all
  // mappings.
  static Mappings around(std::uint64_t address);

  // True if read() has made this object: it has all shared, writable file mappings of the process.
  [[nodiscard]] bool are_all() const { return are_all_; }

  // Returns the bytes of a file that this process has mapped at [address, address + bytes), or
  // nothing unless one file backs all of them.
  [[nodiscard]] std::optional<FileRange> file_of(const void* address, std::uint64_t bytes) const;
  // Returns the address at which this process can load and store these bytes of a file, or null if
  // it does not map all of them.
  [[nodiscard]] std::byte* address_of(const FileRange& range) const;

 private:
  void add(const Mapping& next);

  // The readable and writable mappings; adjacent mappings of adjacent bytes of a file are merged.
  std::vector<Mapping> shared_;
  bool are_all_ = false;
};

}  // namespace mh::rma
