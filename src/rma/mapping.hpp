// SPDX-License-Identifier: BSD-3-Clause
// Where this process maps memory that another one maps, too.
//
// An MPI library that allocates a window maps the memory of all ranks of a node in each of them,
// but says nothing about it. The kernel does: two shared mappings of one file (device and inode)
// show the same bytes. Owns the reading of /proc/self/maps. Limits: ordinary pages that a library
// keeps mapped as long as the window lives; private and anonymous memory has no file, and so no
// mapping elsewhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace mh::rma {

// Bytes of a file.
struct FileRange {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;  // 0: no file
  std::uint64_t name = 0;   // a digest: inodes of one number may exist twice on some file systems
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

struct Mapping {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  FileRange file;  // of `begin`
};

class Mappings {
 public:
  // Whom to ask: the kernel, or, where it knows no such question, its list of all mappings, which
  // takes some microseconds for each ten of them.
  enum class Source : std::uint8_t { kernel, list };

  // Of this process, now.
  static Mappings read(Source source = Source::kernel);

  // What lies behind [address, address + bytes); nothing unless all of it is one file's.
  [[nodiscard]] std::optional<FileRange> file_of(const void* address, std::uint64_t bytes) const;
  // Where these bytes can be loaded and stored here; null if nowhere.
  [[nodiscard]] std::byte* address_of(const FileRange& range) const;

 private:
  void add(const Mapping& next);

  std::vector<Mapping> shared_;  // readable and writable; neighbours that continue a file are one
};

}  // namespace mh::rma
