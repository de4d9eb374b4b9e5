// SPDX-License-Identifier: BSD-3-Clause
#include "top/segment_view.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "base/fd.hpp"

namespace mh::top {
namespace {

// ---- The structures of the segment that this program reads --------------------------------------

constexpr std::uint64_t fingerprint(std::initializer_list<std::uint64_t> numbers) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;  // FNV-1a
  for (const std::uint64_t number : numbers) hash = (hash ^ number) * 0x100000001b3ULL;
  return hash;
}

using Area = mpi::RankArea;
using Counters = observe::RankCounters;
using Record = node::RankRecord;

// A hash of the sizes and offsets of structures and members of the segment that this program reads.
constexpr std::uint64_t kShape = fingerprint({
    sizeof(node::SegmentHeader),
    offsetof(node::SegmentHeader, ranks),
    offsetof(node::SegmentHeader, stride),
    sizeof(Record),
    offsetof(Record, pid),
    offsetof(Record, world_rank),
    offsetof(Record, start_time),
    offsetof(Record, pid_namespace),
    offsetof(Record, waiting_since),
    offsetof(Record, claiming),
    sizeof(Area),
    offsetof(Area, counters),
    offsetof(Area, presence),
    offsetof(Area, lendings),
    offsetof(Area, arrival_lines),
    offsetof(Area, arrival_table),
    offsetof(Area, boards),
    sizeof(observe::Presence),
    sizeof(lend::Channel),
    offsetof(lend::Channel, helper_tid),
    offsetof(lend::Channel, units_begun),
    offsetof(lend::Lendings, channels),
    sizeof(mpi::ArrivalLines::Line),
    offsetof(mpi::ArrivalLines::Line, arrivals),
    offsetof(mpi::ArrivalLines::Line, barriers),
    offsetof(mpi::ArrivalTable, entries),
    sizeof(coll::Board),
    sizeof(coll::RoundRecord),
    offsetof(Counters, messages_by_rendezvous),
    offsetof(Counters, bytes_by_rendezvous),
    offsetof(Counters, own_bytes_received),
    offsetof(Counters, own_bytes_sent),
    offsetof(Counters, others_bytes),
    offsetof(Counters, wait_ticks),
    offsetof(Counters, help_ticks),
    offsetof(Counters, own_copy_ticks),
    offsetof(Counters, start_tick),
    offsetof(Counters, lent_ticks),
    offsetof(Counters, lent_units),
    offsetof(Counters, collectives_direct),
    offsetof(Area, jobs),
});
// If the assertion fails, the segment's structures have changed: raise node::kLayout, and write
// both numbers of the assertion anew. Without a new kLayout, `mh top` would read the wrong bytes in
// the segment of a job that runs with an older library.
static_assert(node::kLayout == 11 && kShape == 9372717119294020163ULL,
              "raise node::kLayout with the shape");

// ---- File descriptors of other processes --------------------------------------------------------

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};
using Folder = std::unique_ptr<DIR, CloseFolder>;

// Calls each(number) for the entries of the folder `path` whose names are numbers. False: no such
// folder, or no permission.
template <class Each>
bool each_number(const std::string& path, Each&& each) {
  const Folder folder(::opendir(path.c_str()));
  if (!folder) return false;
  while (const dirent* entry = ::readdir(folder.get())) {
    const std::string_view name = entry->d_name;
    int number = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (error == std::errc() && end == name.data() + name.size()) each(number);
  }
  return true;
}

// Adds the descriptors of process `pid` that refer to memfds with the name `name`. False: the
// kernel hides the descriptors of process `pid`.
bool add_descriptors(std::vector<ProcessDescriptor>& descriptors, pid_t pid,
                     const std::string& name) {
  const std::string wanted = "/memfd:" + name + " (deleted)";
  return each_number(fmt::format("/proc/{}/fd", pid), [&](int fd) {
    const ProcessDescriptor descriptor{.pid = pid, .fd = fd};
    std::array<char, 64> target{};
    const ssize_t length = ::readlink(descriptor.path().c_str(), target.data(), target.size());
    if (length > 0 && std::string_view(target.data(), static_cast<std::size_t>(length)) == wanted)
      descriptors.push_back(descriptor);
  });
}

bool is_owned_by(pid_t pid, uid_t user) {
  struct stat status {};
  return ::stat(fmt::format("/proc/{}", pid).c_str(), &status) == 0 && status.st_uid == user;
}

std::string reason_of(int error, const ProcessDescriptor& descriptor) {
  if (error == ENOENT) return "the job has ended";
  return fmt::format("cannot read the descriptors of process {}: {}", descriptor.pid,
                     std::strerror(error));
}

}  // namespace

std::string ProcessDescriptor::path() const { return fmt::format("/proc/{}/fd/{}", pid, fd); }

std::uint64_t ProcessDescriptor::file() const {
  struct stat status {};
  return ::stat(path().c_str(), &status) == 0 ? status.st_ino : 0;
}

std::vector<ProcessDescriptor> descriptors_of(pid_t pid, const std::string& name) {
  std::vector<ProcessDescriptor> descriptors;
  add_descriptors(descriptors, pid, name);
  return descriptors;
}

Search find_segments(uid_t user) {
  Search found;
  each_number("/proc", [&](int pid) {
    if (!is_owned_by(pid, user)) return;
    if (!add_descriptors(found.segments, pid, "manyhands") && is_owned_by(pid, user))
      ++found.unreadable;
  });
  return found;
}

// ---- SegmentView: opens, maps and checks a segment ----------------------------------------------

SegmentView::SegmentView(const ProcessDescriptor& descriptor) {
  map(descriptor);
  if (memory_ != nullptr) check();
}

SegmentView& SegmentView::operator=(SegmentView&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(bytes_, other.bytes_);
  std::swap(is_segment_, other.is_segment_);
  std::swap(fits_, other.fits_);
  std::swap(why_, other.why_);
  return *this;
}

SegmentView::~SegmentView() {
  if (memory_ != nullptr) ::munmap(const_cast<std::byte*>(memory_), bytes_);
}

// Maps the segment behind `descriptor` only if its file is sealed against shrinking, since an
// access beyond the end of a file raises SIGBUS.
void SegmentView::map(const ProcessDescriptor& descriptor) {
  const Fd file(::open(descriptor.path().c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status {};
  if (!file.valid() || ::fstat(file.get(), &status) != 0) {
    why_ = reason_of(errno, descriptor);
    return;
  }
  const auto bytes = static_cast<std::size_t>(status.st_size);
  const int seals = ::fcntl(file.get(), F_GET_SEALS);
  if (bytes < sizeof(node::SegmentHeader) || seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    why_ = "not a node segment";
    return;
  }
  void* memory = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) {
    why_ = reason_of(errno, descriptor);
    return;
  }
  memory_ = static_cast<const std::byte*>(memory);
  bytes_ = bytes;
}

void SegmentView::check() {
  const node::SegmentHeader& head = header();
  is_segment_ = head.magic == node::kSegmentMagic;
  if (!is_segment_) {
    why_ = "not a node segment";
  } else if (head.layout != node::kLayout) {
    why_ = fmt::format(
        "the job runs another version of Manyhands (segment layout {}; this `mh top` reads {}): "
        "use the `mh` of the installation that started the job",
        head.layout, node::kLayout);
  } else if (head.ranks == 0 || head.ranks > node::kMaxRanks || head.stride > bytes_ ||
             head.stride < sizeof(Record) + sizeof(Area) + observe::helped_row_bytes(head.ranks) ||
             sizeof head + head.ranks * head.stride > bytes_) {
    why_ = "the segment has another shape than its version says";
  } else {
    fits_ = true;
  }
}

}  // namespace mh::top
