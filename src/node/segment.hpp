// SPDX-License-Identifier: BSD-3-Clause
// The memory that the ranks of one node share, and how the first rank gives it to the others.
//
// Segment: a sealed memfd, mapped. It has no name anywhere, so nothing can be left behind in
// /dev/shm and the size limit of /dev/shm does not apply. All of it is allocated at creation: a
// lack of memory is a Status here and never a SIGBUS later. New memory is zero. Door: an abstract
// unix socket with a random name through which the *root* (the first rank of the node) hands the
// descriptor to processes of the same user. Limit: ranks of one node in different network
// namespaces do not reach the door; that is a refusal, and such a node runs unhelped.
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
  // Maps the segment behind `fd`, which must have exactly `bytes` bytes (else mismatch) and be
  // sealed against a change of size.
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
  // The mapping stays; only the descriptor goes (the program may count or reuse descriptors).
  void close_fd() { fd_.reset(); }

 private:
  Segment(Fd fd, std::span<std::byte> bytes) : fd_(std::move(fd)), bytes_(bytes) {}
  static Result<Segment> map(Fd fd, std::size_t bytes);

  Fd fd_;
  std::span<std::byte> bytes_;
};

// Plain data, so that it can be broadcast. Not a secret: the door itself checks who comes.
using DoorName = std::array<char, 48>;

class Door {
 public:
  using Milliseconds = std::chrono::milliseconds;

  // Root. From here on fetch(name()) can connect.
  static Result<Door> open();
  [[nodiscard]] const DoorName& name() const { return name_; }

  // Root. Gives `fd` to `peers` processes of the same effective user. Others are turned away and
  // not counted. code gone when not all came within `timeout`.
  Status hand_over(int peers, int fd, Milliseconds timeout);

  // The others. The descriptor is close-on-exec. Only a root of the same effective user is
  // believed.
  static Result<Fd> fetch(const DoorName& name, Milliseconds timeout);

  // Each process of a node gives all others a descriptor, or none (-1). `take` is called once for
  // each other rank that gave one, and may keep it or not: no process holds all at once but the
  // root.
  using Take = std::function<void(std::uint32_t rank, Fd fd)>;
  // Root, `me` being its rank. code gone when not all came within `timeout`.
  Status exchange(std::uint32_t me, std::uint32_t ranks, int fd, const Take& take,
                  Milliseconds timeout);
  // The others.
  static Status exchange_with(const DoorName& name, std::uint32_t me, int fd, const Take& take,
                              Milliseconds timeout);

 private:
  Door(Fd listener, const DoorName& name) : listener_(std::move(listener)), name_(name) {}
  Result<Fd> next_peer(std::chrono::steady_clock::time_point deadline);
  static Result<Fd> enter(const DoorName& name, std::chrono::steady_clock::time_point deadline);

  Fd listener_;
  DoorName name_{};
};

}  // namespace mh::node
