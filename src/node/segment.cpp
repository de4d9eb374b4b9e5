// SPDX-License-Identifier: BSD-3-Clause
#include "node/segment.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "base/high_descriptor.hpp"

namespace mh::node {
namespace {

using SteadyClock = std::chrono::steady_clock;

// These seals of the memfd fix its size, so no process can make a mapped byte invalid by
// truncation.
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// Refuses a size beyond the machine's free memory. A memfd has no quota, so such an allocation
// would start the OOM killer. If the free memory is unknown, the request goes ahead. Small requests
// skip the check, because its 40 us would be most of the cost of a small window.
Status check_memory(std::size_t bytes) {
  constexpr std::size_t kUnchecked = 1U << 20U;
  if (bytes <= kUnchecked) return {};
  std::ifstream meminfo("/proc/meminfo");
  std::string name;
  for (std::uint64_t kibibytes = 0; meminfo >> name >> kibibytes;) {
    if (name == "MemAvailable:") {
      if (bytes / 1024 >= kibibytes) return {Code::full, ENOMEM};
      break;
    }
    meminfo.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return {};
}

// Allocates all memory of the file. posix_fallocate() would write the file byte by byte if the
// kernel lacks fallocate(), so this function calls fallocate() itself.
Status allocate_memory(int fd, std::size_t bytes) {
  if (const Status memory = check_memory(bytes); !memory) return memory;
  if (const Status limit = check_file_size_limit(bytes); !limit) return limit;
  while (::fallocate(fd, 0, 0, static_cast<off_t>(bytes)) != 0) {
    if (errno != EINTR) return from_errno(errno);
  }
  return {};
}

Status check_shape(int fd, std::size_t bytes) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return from_errno(errno);
  const bool has_size = static_cast<std::uint64_t>(status.st_size) == bytes;
  if (!has_size || (::fcntl(fd, F_GET_SEALS) & kSeals) != kSeals) return {Code::mismatch, 0};
  return {};
}

// Returns the time left until `deadline` as a timeout for poll(), in milliseconds, rounded up.
int poll_timeout(SteadyClock::time_point deadline) {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - SteadyClock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, std::numeric_limits<int>::max()));
}

// Waits with poll() until one of `events` has come for `fd`. gone: the deadline has passed.
Status wait_for(int fd, short events, SteadyClock::time_point deadline) {
  for (;;) {
    pollfd one{fd, events, 0};
    const int ready = ::poll(&one, 1, poll_timeout(deadline));
    if (ready > 0) return {};
    if (ready == 0) return {Code::gone, ETIMEDOUT};
    if (errno != EINTR) return from_errno(errno);
  }
}

struct SocketAddress {
  sockaddr_un where{};
  socklen_t length = 0;
};

// Returns the address of the socket through which ranks get the segment (segment.hpp). It is an
// abstract address, a zero byte and the name, so there is no file.
SocketAddress address_of(const DoorName& name) {
  SocketAddress address;
  address.where.sun_family = AF_UNIX;
  const std::size_t length = ::strnlen(name.data(), name.size());
  std::memcpy(address.where.sun_path + 1, name.data(), length);
  address.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  return address;
}

Result<DoorName> random_name() {
  std::array<std::uint8_t, 16> bits{};
  if (::getrandom(bits.data(), bits.size(), 0) != static_cast<ssize_t>(bits.size())) {
    return from_errno(errno);
  }
  DoorName name{};
  constexpr const char* kPrefix = "manyhands-";
  char* out = std::copy_n(kPrefix, std::strlen(kPrefix), name.data());
  for (const std::uint8_t byte : bits) {
    *out++ = "0123456789abcdef"[byte >> 4U];
    *out++ = "0123456789abcdef"[byte & 15U];
  }
  return name;
}

Result<Fd> open_socket() {
  Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) return from_errno(errno);
  return socket;
}

bool is_of_same_user(int socket) {
  ucred peer{};
  socklen_t length = sizeof peer;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
         peer.uid == ::geteuid();
}

// Space for a control message of sendmsg() and recvmsg() with a single file descriptor.
union ControlSpace {
  cmsghdr align;
  char bytes[CMSG_SPACE(sizeof(int))];
};

// The payload of a message through the door is the rank whose file descriptor the message carries,
// or one of these values. kOfRoot: the descriptor is of the segment. kNoMore: no more descriptors
// follow.
constexpr std::uint32_t kOfRoot = UINT32_MAX - 1;
constexpr std::uint32_t kNoMore = UINT32_MAX;

msghdr message_for(iovec& payload) {
  msghdr message{};
  message.msg_iov = &payload;
  message.msg_iovlen = 1;
  return message;
}

// Sends a message through the door's socket: `rank` (a rank, kOfRoot or kNoMore), and with it the
// file descriptor `fd` unless `fd` is -1. Waits until the deadline while the socket's buffer is
// full.
Status send_fd(int socket, std::uint32_t rank, int fd, SteadyClock::time_point deadline) {
  iovec payload{&rank, sizeof rank};
  ControlSpace space{};
  msghdr message = message_for(payload);
  if (fd >= 0) {
    message.msg_control = space.bytes;
    message.msg_controllen = sizeof space.bytes;
    cmsghdr* control = CMSG_FIRSTHDR(&message);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(sizeof fd);
    std::memcpy(CMSG_DATA(control), &fd, sizeof fd);
  }
  while (::sendmsg(socket, &message, MSG_NOSIGNAL) < 0) {
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return from_errno(errno);
    if (const Status ready = wait_for(socket, POLLOUT, deadline); !ready) return ready;
  }
  return {};
}

struct ReceivedFd {
  std::uint32_t rank = kNoMore;
  Fd fd;  // may be invalid
};

// Receives a message through the door's socket: a rank or a code, and a file descriptor if the peer
// sends one. refused: the peer has closed the connection.
Result<ReceivedFd> receive_fd(int socket, SteadyClock::time_point deadline) {
  if (const Status ready = wait_for(socket, POLLIN, deadline); !ready) return ready;
  ReceivedFd received;
  iovec payload{&received.rank, sizeof received.rank};
  ControlSpace space{};
  msghdr message = message_for(payload);
  message.msg_control = space.bytes;
  message.msg_controllen = sizeof space.bytes;
  ssize_t bytes = 0;
  do {
    bytes = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (bytes < 0 && errno == EINTR);
  if (bytes < 0) return from_errno(errno);
  const cmsghdr* control = CMSG_FIRSTHDR(&message);
  if (control != nullptr && control->cmsg_type == SCM_RIGHTS &&
      control->cmsg_len == CMSG_LEN(sizeof(int))) {
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(control), sizeof fd);
    received.fd = Fd(fd);
  }
  if (bytes != sizeof received.rank) return Status{Code::refused, 0};
  return received;
}

// Connects the socket to the root's door at `address`. EAGAIN means that the root accepts more
// slowly than its peers connect, so this function tries again until the deadline.
Status connect_until(int socket, const SocketAddress& address, SteadyClock::time_point deadline) {
  constexpr timespec kPause{0, 1'000'000};
  for (;;) {
    if (::connect(socket, reinterpret_cast<const sockaddr*>(&address.where), address.length) == 0) {
      return {};
    }
    if (errno == ECONNREFUSED)
      return {Code::refused, ECONNREFUSED};  // the door is not in this network namespace
    if (errno != EAGAIN && errno != EINTR) return from_errno(errno);
    if (SteadyClock::now() >= deadline) return {Code::gone, ETIMEDOUT};
    ::nanosleep(&kPause, nullptr);
  }
}

}  // namespace

Segment::~Segment() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

Result<Segment> Segment::map(Fd fd, std::size_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) return from_errno(errno);
  return Segment(std::move(fd), {static_cast<std::byte*>(memory), bytes});
}

Result<Segment> Segment::create(std::size_t bytes) {
  Fd fd(::memfd_create("manyhands", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return from_errno(errno);
  if (const Status allocated = allocate_memory(fd.get(), bytes); !allocated) return allocated;
  if (::fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) return from_errno(errno);
  return map(std::move(fd), bytes);
}

Result<Segment> Segment::attach(Fd fd, std::size_t bytes) {
  if (const Status shape = check_shape(fd.get(), bytes); !shape) return shape;
  return map(std::move(fd), bytes);
}

void PublishedFd::open(int fd) {
  const int from = high_descriptor();
  struct stat status {};
  if (from < 0 || ::fstat(fd, &status) != 0) return;
  file_ = status.st_ino;
  fd_ = ::fcntl(fd, F_DUPFD_CLOEXEC, from);
}

void PublishedFd::withdraw() {
  const int fd = std::exchange(fd_, -1);
  struct stat status {};
  if (fd >= 0 && ::fstat(fd, &status) == 0 && status.st_ino == file_) ::close(fd);
}

Result<Door> Door::open() {
  const Result<DoorName> name = random_name();
  if (!name) return name.status();
  Result<Fd> socket = open_socket();
  if (!socket) return socket.status();
  const SocketAddress address = address_of(*name);
  if (::bind(socket->get(), reinterpret_cast<const sockaddr*>(&address.where), address.length) !=
          0 ||
      ::listen(socket->get(), SOMAXCONN) != 0) {
    return from_errno(errno);
  }
  return Door(std::move(*socket), *name);
}

// Accepts the next connection to the door by a process of this user; closes connections of others.
Result<Fd> Door::next_peer(SteadyClock::time_point deadline) {
  for (;;) {
    if (const Status ready = wait_for(listener_.get(), POLLIN, deadline); !ready) return ready;
    Fd peer(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (peer.valid() && is_of_same_user(peer.get())) return peer;
    if (!peer.valid() && errno != EINTR && errno != EAGAIN && errno != ECONNABORTED) {
      return from_errno(errno);
    }
  }
}

Result<Fd> Door::enter(const DoorName& name, SteadyClock::time_point deadline) {
  Result<Fd> socket = open_socket();
  if (!socket) return socket.status();
  const Status connected = connect_until(socket->get(), address_of(name), deadline);
  if (!connected) return connected;
  if (!is_of_same_user(socket->get())) return Status{Code::refused, EPERM};
  return socket;
}

Status Door::hand_over(int peers, int fd, Milliseconds timeout) {
  const auto deadline = SteadyClock::now() + timeout;
  for (int served = 0; served < peers;) {
    const Result<Fd> peer = next_peer(deadline);
    if (!peer) return peer.status();
    if (send_fd(peer->get(), kOfRoot, fd, deadline).ok()) ++served;
  }
  return {};
}

Result<Fd> Door::fetch(const DoorName& name, Milliseconds timeout) {
  const auto deadline = SteadyClock::now() + timeout;
  const Result<Fd> socket = enter(name, deadline);
  if (!socket) return socket.status();
  Result<ReceivedFd> received = receive_fd(socket->get(), deadline);
  if (!received) return received.status();
  if (!received->fd.valid()) return Status{Code::refused, 0};
  return std::move(received->fd);
}

// Called by the root, which first collects one descriptor of every rank, and then sends all of them
// to one rank after the other. Each rank closes its socket once it has all descriptors, so few
// descriptors lie unread in sockets at a time.
Status Door::exchange(std::uint32_t me, std::uint32_t ranks, int fd, const TakeFd& take,
                      Milliseconds timeout) {
  const auto deadline = SteadyClock::now() + timeout;
  std::vector<Fd> sockets(ranks);
  std::vector<Fd> given(ranks);
  for (std::uint32_t come = 1; come < ranks;) {
    Result<Fd> peer = next_peer(deadline);
    if (!peer) return peer.status();
    Result<ReceivedFd> first = receive_fd(peer->get(), deadline);
    if (!first || first->rank >= ranks || first->rank == me) continue;  // not a rank of this node
    if (sockets[first->rank].valid()) continue;
    given[first->rank] = std::move(first->fd);
    sockets[first->rank] = std::move(*peer);
    ++come;
  }
  const auto fd_of = [&](std::uint32_t rank) { return rank == me ? fd : given[rank].get(); };
  for (std::uint32_t to = 0; to < ranks; ++to) {
    if (to == me) continue;
    Status sent;
    for (std::uint32_t of = 0; of < ranks && sent.ok(); ++of) {
      if (of != to && fd_of(of) >= 0) sent = send_fd(sockets[to].get(), of, fd_of(of), deadline);
    }
    if (sent.ok()) sent = send_fd(sockets[to].get(), kNoMore, -1, deadline);
    if (sent.ok()) sent = wait_for(sockets[to].get(), POLLIN, deadline);
    if (sent.code == Code::gone && sent.sys_errno == ETIMEDOUT) return sent;
  }
  for (std::uint32_t of = 0; of < ranks; ++of) {
    if (given[of].valid()) take(of, std::move(given[of]));
  }
  return {};
}

Status Door::exchange_with(const DoorName& name, std::uint32_t me, int fd, const TakeFd& take,
                           Milliseconds timeout) {
  const auto deadline = SteadyClock::now() + timeout;
  const Result<Fd> socket = enter(name, deadline);
  if (!socket) return socket.status();
  if (const Status sent = send_fd(socket->get(), me, fd, deadline); !sent) return sent;
  for (;;) {
    Result<ReceivedFd> received = receive_fd(socket->get(), deadline);
    if (!received) return received.status();
    if (received->rank == kNoMore) return {};
    if (received->fd.valid()) take(received->rank, std::move(received->fd));
  }
}

}  // namespace mh::node
