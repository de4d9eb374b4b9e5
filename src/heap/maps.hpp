// SPDX-License-Identifier: BSD-3-Clause
// Reads the mappings of this process from /proc/self/maps, one after the other.
//
// The mappings may change while they are read. Each read continues at the address where the last
// read stopped, so the result may mix old and new mappings, but repeats none. Not thread-safe: all
// readers share a buffer in static memory, because stacks may be small.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mh::heap {

struct MapsEntry {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  int protection = 0;  // as for mmap()
  bool shared = false;
  std::uint64_t offset = 0;  // in the file
  std::uint64_t inode = 0;   // 0: no file
};

class Maps {
 public:
  Maps();
  Maps(const Maps&) = delete;
  Maps& operator=(const Maps&) = delete;
  ~Maps();

  // False if /proc cannot be read.
  [[nodiscard]] bool readable() const { return file_ >= 0; }
  // Reads the next mapping; false if there is none.
  bool next(MapsEntry& mapping);

 private:
  int get();
  std::uint64_t number(unsigned base);

  int file_;
  std::size_t at_ = 0;
  std::size_t end_ = 0;
  int last_ = 0;  // the character behind the number read last; -1 at the end
};

}  // namespace mh::heap
