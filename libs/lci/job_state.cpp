// SPDX-License-Identifier: BSD-3-Clause
// The allgather of a job's ranks and the notices of their deaths, over the job's sockets.
#include "lci/job_state.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

namespace mh::lci::detail {
namespace {

constexpr std::chrono::milliseconds kBetweenProgress{1};
constexpr std::uint64_t kLongestFrame = std::uint64_t{1} << 30U;

bool read_all(int socket, void* data, std::size_t size) {
  auto* next = static_cast<char*>(data);
  while (size != 0) {
    const ssize_t got = ::recv(socket, next, size, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    next += got;
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

// Writes all of `data`. A failed write needs no report: it means that the peer is dead, and the
// watcher thread notices the closed socket.
void write_all(int socket, const std::string& data) {
  std::size_t done = 0;
  while (done < data.size()) {
    const ssize_t sent = ::send(socket, data.data() + done, data.size() - done, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return;
    done += static_cast<std::size_t>(sent);
  }
}

void write_frame(int socket, Frame frame, const std::string& payload) {
  frame.size = payload.size();
  std::string bytes(sizeof frame, '\0');
  std::memcpy(bytes.data(), &frame, sizeof frame);
  write_all(socket, bytes + payload);
}

std::string join(const std::vector<std::string>& parts) {
  std::string whole;
  for (const std::string& part : parts) {
    const std::uint64_t size = part.size();
    whole.append(reinterpret_cast<const char*>(&size), sizeof size);
    whole += part;
  }
  return whole;
}

std::vector<std::string> split(const std::string& whole, int count) {
  std::vector<std::string> parts(static_cast<std::size_t>(count));
  std::size_t at = 0;
  for (std::string& part : parts) {
    std::uint64_t size = 0;
    if (at + sizeof size > whole.size()) break;
    std::memcpy(&size, whole.data() + at, sizeof size);
    at += sizeof size;
    part = whole.substr(std::min(at, whole.size()), size);
    at += size;
  }
  return parts;
}

}  // namespace

std::string this_machine() {
  std::string name;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> name;
  for (const char* space : {"net", "ipc", "mnt", "pid"}) {
    std::array<char, 64> target{};
    const std::string link = std::string("/proc/self/ns/") + space;
    if (::readlink(link.c_str(), target.data(), target.size() - 1) > 0) name += target.data();
  }
  return name;
}

JobState::JobState(int rank, int size, std::vector<Fd> sockets)
    : rank_(rank),
      size_(size),
      sockets_(std::move(sockets)),
      stop_(::eventfd(0, EFD_CLOEXEC)),
      alive_(static_cast<std::size_t>(size)),
      parts_(static_cast<std::size_t>(size)),
      present_(static_cast<std::size_t>(size)) {
  for (auto& alive : alive_) alive.store(true, std::memory_order_relaxed);
  watcher_ = std::thread([this] { watch(); });
}

JobState::~JobState() {
  // All ranks leave the job together. After this last allgather no rank asks which ranks are alive,
  // so the sockets may close.
  (void)allgather({}, {});
  const std::uint64_t one = 1;
  if (::write(stop_.get(), &one, sizeof one) == sizeof one) watcher_.join();
}

Result<std::vector<std::string>> JobState::allgather(const std::string& mine,
                                                     const std::function<void()>& meanwhile) {
  std::unique_lock guard(mutex_);
  ready_ = false;
  if (rank_ == 0) {
    take({Frame::Kind::part, 0, mine.size()}, mine);
  } else {
    write_frame(sockets_[0].get(), {Frame::Kind::part, rank_, 0}, mine);
  }
  while (!ready_) {
    if (rank_ != 0 && !alive(0)) return Status{Code::gone};
    changed_.wait_for(guard, kBetweenProgress);
    if (!meanwhile) continue;
    guard.unlock();
    meanwhile();
    guard.lock();
  }
  if (deaths() != 0) return Status{Code::gone};
  return std::exchange(whole_, {});
}

// --- the watcher thread: reads the sockets --------------------------------------------------

void JobState::watch() {
  std::vector<pollfd> polled;
  for (const Fd& socket : sockets_) polled.push_back({socket.get(), POLLIN, 0});
  polled.push_back({stop_.get(), POLLIN, 0});
  for (;;) {
    if (::poll(polled.data(), polled.size(), -1) < 0 && errno != EINTR) return;
    if (polled.back().revents != 0) return;
    for (std::size_t i = 0; i + 1 < polled.size(); ++i) {
      if (polled[i].revents == 0) continue;
      if (!read_frame(static_cast<int>(i), polled[i].fd)) polled[i].fd = -1;  // poll() ignores it
    }
  }
}

// Reads one frame (a message of job_state.hpp) and handles it. `from`: the index of the socket,
// which is the sender's rank. False: the connection has ended.
bool JobState::read_frame(int from, int socket) {
  Frame frame{};
  std::string payload;
  bool whole = read_all(socket, &frame, sizeof frame) && frame.size <= kLongestFrame;
  if (whole) {
    payload.resize(frame.size);
    whole = read_all(socket, payload.data(), payload.size());
  }
  const std::lock_guard guard(mutex_);
  if (whole) {
    take(frame, std::move(payload));
  } else {
    bury(from);
  }
  changed_.notify_all();
  return whole;
}

void JobState::take(const Frame& frame, std::string payload) {
  if (frame.rank < 0 || frame.rank >= size_) return;
  switch (frame.kind) {
    case Frame::Kind::part:
      parts_[static_cast<std::size_t>(frame.rank)] = std::move(payload);
      present_[static_cast<std::size_t>(frame.rank)] = true;
      return finish_gathering();
    case Frame::Kind::whole:
      whole_ = split(payload, size_);
      ready_ = true;
      return;
    case Frame::Kind::gone:
      return bury(frame.rank);
  }
}

void JobState::bury(int rank) {
  if (!alive_[static_cast<std::size_t>(rank)].exchange(false, std::memory_order_relaxed)) return;
  deaths_.fetch_add(1, std::memory_order_relaxed);
  if (rank_ != 0) return;
  send_to_all({Frame::Kind::gone, rank, 0}, {});
  finish_gathering();
}

// Called at rank 0. Sends the result of the allgather to all ranks if the texts of all living ranks
// have arrived.
void JobState::finish_gathering() {
  for (int rank = 0; rank < size_; ++rank) {
    if (alive(rank) && !present_[static_cast<std::size_t>(rank)]) return;
  }
  whole_ = std::exchange(parts_, std::vector<std::string>(static_cast<std::size_t>(size_)));
  present_.assign(static_cast<std::size_t>(size_), false);
  ready_ = true;
  send_to_all({Frame::Kind::whole, 0, 0}, join(whole_));
}

void JobState::send_to_all(const Frame& frame, const std::string& payload) {
  for (int rank = 1; rank < size_; ++rank) {
    if (alive(rank)) write_frame(sockets_[static_cast<std::size_t>(rank)].get(), frame, payload);
  }
}

}  // namespace mh::lci::detail
