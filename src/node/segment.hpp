// SPDX-License-Identifier: BSD-3-Clause
// The memory that the ranks of a node share, and its distribution.
//
// Segment: a sealed and mapped memfd. The memfd has no name, so it leaves nothing behind in
// /dev/shm and is not subject to the size limit of /dev/shm. All memory is allocated at creation,
// so a lack of memory is a Status then and never a SIGBUS later. New memory is zero.
//
// Door: an abstract unix socket with a random name. The *root* (the first rank of the node) hands
// file descriptors to processes of the same user through it.
//
// Threads: a segment and a door belong to a single thread. Limit: a rank in another network
// namespace does not reach the door; the result is `refused`, and the node runs unhelped.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>

#include "base/fd.hpp"
#include "base/result.hpp"

namespace mh::node {

class Segment {
 public:
  static Result<Segment> create(std::size_t bytes);
  // Maps the segment behind `fd`. mismatch: the memfd's size differs from `bytes`, or is not fixed
  // by seals.
  static Result<Segment> attach(Fd fd, std::size_t bytes);

  Segment(Segment&& other) noexcept
      : fd_(std::move(other.fd_)), bytes_(std::exchange(other.bytes_, {})) {}
  Segment& operator=(Segment&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;
  ~Segment();

  [[nodiscard]] std::byte* data() const { return bytes_.data(); }
  [[nodiscard]] std::size_t size() const { return bytes_.size(); }
  [[nodiscard]] int fd() const { return fd_.get(); }
  // Closes the memfd's file descriptor and keeps the mapping, since the program may count its
  // descriptors or expect certain numbers.
  void close_fd() { fd_.reset(); }

 private:
  Segment(Fd fd, std::span<std::byte> bytes) : fd_(std::move(fd)), bytes_(bytes) {}
  static Result<Segment> map(Fd fd, std::size_t bytes);

  Fd fd_;
  std::span<std::byte> bytes_;
};

// A descriptor of the segment by which `mh top` finds and maps the segment of a running job. The
// descriptor has a high number, so that the program's own descriptors get the numbers that they
// would have had. A program that closes it, or puts another file in its place, only hides its job
// from `mh top`. Without a free high number there is no such descriptor. Not thread-safe.
class PublishedFd {
 public:
  // Duplicates the segment's descriptor `fd` to a high number.
  void open(int fd);
  void withdraw();
  [[nodiscard]] int fd() const { return fd_; }

 private:
  int fd_ = -1;
  std::uint64_t file_ = 0;  // inode
};

// The random name of a door. Plain data, so that the root can broadcast it by MPI. Not a secret:
// the door checks the user of each process.
using DoorName = std::array<char, 48>;

class Door {
 public:
  using Milliseconds = std::chrono::milliseconds;

  // Opens the door. Called by the root (the first rank of the node). From then on, fetch() with
  // this name() can connect.
  static Result<Door> open();
  [[nodiscard]] const DoorName& name() const { return name_; }

  // Called by the root: sends `fd` to `peers` processes of the same effective user. Processes of
  // other users are refused and not counted. gone: some of the expected processes have not come
  // within `timeout`.
  Status hand_over(int peers, int fd, Milliseconds timeout);

  // Called by the other ranks: returns the descriptor that the root hands over, close-on-exec. Only
  // a root of the same effective user is accepted.
  static Result<Fd> fetch(const DoorName& name, Milliseconds timeout);

  // In an exchange, each rank sends all other ranks a file descriptor, or none (-1). `take` is
  // called once for each other rank that sent a descriptor, and may keep or close the descriptor.
  // Only the root holds all descriptors at the same time.
  using TakeFd = std::function<void(std::uint32_t rank, Fd fd)>;
  // The root's part of the exchange; `me` is the root's rank. gone: some ranks have not come within
  // `timeout`.
  Status exchange(std::uint32_t me, std::uint32_t ranks, int fd, const TakeFd& take,
                  Milliseconds timeout);
  // The other ranks' part of the exchange, with the root whose door has this name.
  static Status exchange_with(const DoorName& name, std::uint32_t me, int fd, const TakeFd& take,
                              Milliseconds timeout);

 private:
  Door(Fd listener, const DoorName& name) : listener_(std::move(listener)), name_(name) {}
  Result<Fd> next_peer(std::chrono::steady_clock::time_point deadline);
  static Result<Fd> enter(const DoorName& name, std::chrono::steady_clock::time_point deadline);

  Fd listener_;
  DoorName name_{};
};

}  // namespace mh::node
