// SPDX-License-Identifier: BSD-3-Clause
// The node segment of a running MPI job, as a process outside of the job sees it.
//
// The first rank of a node keeps a descriptor of the segment (node::PublishedFd). A process of the
// same user opens it again by /proc, read-only, and maps it without permission to write. The view
// writes nothing, takes no lock, and leaves nothing in the job. The job's memory stays allocated
// until the last view is gone.
//
// A segment whose structures are those of another version (node::kLayout) is refused. Only `magic`
// and `layout` are read before the layout is known; they are the first members of the header in
// every version.
//
// Not thread-safe.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "mpi/job/area.hpp"
#include "node/rank.hpp"
#include "observe/counters.hpp"

namespace mh::top {

// A file descriptor of another process.
struct ProcessDescriptor {
  pid_t pid = 0;
  int fd = -1;
  [[nodiscard]] std::string path() const;
  // The inode of the descriptor's file; 0: the descriptor or process is gone, or out of reach.
  [[nodiscard]] std::uint64_t file() const;
};

// The descriptors that process `pid` has of files made by memfd_create() with this name.
std::vector<ProcessDescriptor> descriptors_of(pid_t pid, const std::string& name);

struct Search {
  std::vector<ProcessDescriptor> segments;  // candidates; several processes may hold the same file
  std::uint32_t unreadable = 0;  // processes of this user whose descriptors the kernel hides
};
Search find_segments(uid_t user);

class SegmentView {
 public:
  SegmentView() = default;
  // Opens and maps the node segment behind `descriptor`. If is_open() is false afterwards, why()
  // gives the reason, for the user.
  explicit SegmentView(const ProcessDescriptor& descriptor);
  SegmentView(SegmentView&& other) noexcept { *this = std::move(other); }
  SegmentView& operator=(SegmentView&& other) noexcept;
  SegmentView(const SegmentView&) = delete;
  SegmentView& operator=(const SegmentView&) = delete;
  ~SegmentView();

  [[nodiscard]] bool is_open() const { return fits_; }
  // True if the file is a node segment, of this or another version of Manyhands.
  [[nodiscard]] bool is_segment() const { return is_segment_; }
  [[nodiscard]] const std::string& why() const { return why_; }

  // Precondition of this and the following functions: is_open().
  [[nodiscard]] std::uint32_t ranks() const { return header().ranks; }
  [[nodiscard]] const node::SegmentHeader& header() const {
    return *reinterpret_cast<const node::SegmentHeader*>(memory_);
  }
  [[nodiscard]] const node::RankRecord& record(std::uint32_t rank) const {
    return *reinterpret_cast<const node::RankRecord*>(memory_ + sizeof(node::SegmentHeader) +
                                                      rank * header().stride);
  }
  [[nodiscard]] const mpi::RankArea& area(std::uint32_t rank) const {
    return *reinterpret_cast<const mpi::RankArea*>(
        reinterpret_cast<const std::byte*>(&record(rank)) + sizeof(node::RankRecord));
  }
  // helped(rank)[victim]: bytes that `rank` has copied in jobs of the rank `victim`, as a third
  // rank.
  [[nodiscard]] const observe::Counter* helped(std::uint32_t rank) const {
    return reinterpret_cast<const observe::Counter*>(&area(rank) + 1);
  }

 private:
  void map(const ProcessDescriptor& descriptor);
  void check();

  const std::byte* memory_ = nullptr;
  std::size_t bytes_ = 0;
  bool is_segment_ = false;
  bool fits_ = false;
  std::string why_;
};

}  // namespace mh::top
