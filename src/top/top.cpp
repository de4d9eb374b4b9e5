// SPDX-License-Identifier: BSD-3-Clause
// mh-top: reads the node segments of running MPI jobs and prints JSON lines. `mh top` runs mh-top
// and shows the lines to people.
//
//   mh-top find                    a line for each MPI job of this user on this machine
//   mh-top watch PID FD MS COUNT   a line for each interval of MS milliseconds, COUNT times (0:
//                                  until the job ends); then, if the job has ended, {"ended": ...}
//
// PID and FD are those of a line of `find`. The program ends when its output is closed. Exit codes:
// 0, and 2 for wrong arguments.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "top/interval.hpp"
#include "top/output.hpp"
#include "top/segment_view.hpp"

namespace mh::top {
namespace {

constexpr int kUsage = 2;

// Prints a line to standard output. Returns false if the reader has closed it.
bool print(const std::string& line) {
  return std::puts(line.c_str()) >= 0 && std::fflush(stdout) == 0;
}

// ---- find: the MPI jobs of this user ------------------------------------------------------------

// True if the descriptor is that of the node's first rank itself. Forked children of the rank
// inherit the descriptor, so several processes may have one for the same segment; the rank's own is
// preferred.
bool is_of_rank(const ProcessDescriptor& descriptor) {
  const SegmentView view(descriptor);
  return view.is_open() && view.record(0).pid == descriptor.pid;
}

void find() {
  const Search search = find_segments(::geteuid());
  std::map<std::uint64_t, ProcessDescriptor> by_file;
  for (const ProcessDescriptor& descriptor : search.segments) {
    const std::uint64_t file = descriptor.file();
    if (file != 0 && (!by_file.contains(file) || is_of_rank(descriptor)))
      by_file[file] = descriptor;
  }
  for (const auto& [file, descriptor] : by_file) {
    const SegmentView view(descriptor);
    if (view.is_segment() && (!view.is_open() || goes_on(view, descriptor, file)))
      print(line_of_job(view, descriptor));
  }
  if (search.unreadable != 0) print("{\"unreadable\":" + std::to_string(search.unreadable) + "}");
}

// ---- watch: an MPI job, interval by interval ----------------------------------------------------

// The shared heaps of the ranks of an MPI job. The constructor looks for their descriptors, once.
class Heaps {
 public:
  explicit Heaps(const SegmentView& view) {
    if (!has_own_pids(view)) return;
    for (std::uint32_t rank = 0; rank < view.ranks(); ++rank) {
      for (const ProcessDescriptor& descriptor :
           descriptors_of(view.record(rank).pid, "manyhands-heap"))
        descriptors_.push_back(descriptor);
    }
  }

  // The bytes of memory that the system has given to these heaps; nothing if no heap is found.
  [[nodiscard]] std::optional<std::uint64_t> bytes() const {
    constexpr std::uint64_t kBlock = 512;
    std::map<std::uint64_t, std::uint64_t> by_file;
    for (const ProcessDescriptor& descriptor : descriptors_) {
      struct stat status {};
      if (::stat(descriptor.path().c_str(), &status) == 0)
        by_file[status.st_ino] = static_cast<std::uint64_t>(status.st_blocks) * kBlock;
    }
    if (by_file.empty()) return std::nullopt;
    std::uint64_t sum = 0;
    for (const auto& [file, bytes] : by_file) sum += bytes;
    return sum;
  }

 private:
  std::vector<ProcessDescriptor> descriptors_;
};

void watch_job(const ProcessDescriptor& descriptor, std::chrono::milliseconds length, int count) {
  const SegmentView view(descriptor);
  if (!view.is_open()) {
    print(line_of_end(view.why()));
    return;
  }
  const Heaps heaps(view);
  for (int done = 0; count == 0 || done < count; ++done) {
    const std::optional<Interval> interval = watch(view, descriptor, length);
    if (!interval) {
      print(line_of_end("the job has ended"));
      return;
    }
    if (!print(line_of_interval(view, *interval, heaps.bytes()))) return;
  }
}

// ---- Arguments of the command line --------------------------------------------------------------

std::optional<int> number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool good = error == std::errc() && end == text.data() + text.size() && value >= 0;
  return good ? std::optional(value) : std::nullopt;
}

int usage() {
  std::fputs("usage: mh-top find | mh-top watch PID FD MS COUNT   (internal; use `mh top`)\n",
             stderr);
  return kUsage;
}

int run(const std::vector<std::string_view>& words) {
  if (words.size() == 1 && words[0] == "find") {
    find();
    return 0;
  }
  if (words.size() != 5 || words[0] != "watch") return usage();
  const auto pid = number(words[1]);
  const auto fd = number(words[2]);
  const auto length = number(words[3]);
  const auto count = number(words[4]);
  if (!pid || !fd || !length || !count || *length == 0) return usage();
  watch_job({.pid = *pid, .fd = *fd}, std::chrono::milliseconds(*length), *count);
  return 0;
}

}  // namespace
}  // namespace mh::top

int main(int argc, char** argv) { return mh::top::run({argv + 1, argv + argc}); }
