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

namespace mh::node {
namespace {

using Clock = std::chrono::steady_clock;

// Nobody who holds the descriptor can change the size: a mapped byte stays a byte.
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// fallocate() past RLIMIT_FSIZE does not only fail, it raises SIGXFSZ, which would end the program.
Status check_file_size_limit(std::size_t bytes) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
      bytes > limit.rlim_cur) {
    return {Code::full, EFBIG};
  }
  return {};
}

// A memfd knows no quota: asked for more than there is, the kernel does not fail but lets the OOM
// killer loose on the machine. So the question is asked beforehand; an unknown answer is no
// objection.
Status check_memory(std::size_t bytes) {
  std::ifstream facts("/proc/meminfo");
  std::string name;
  for (std::uint64_t kibibytes = 0; facts >> name >> kibibytes;) {
    if (name == "MemAvailable:") {
      if (bytes / 1024 >= kibibytes) return {Code::full, ENOMEM};
      break;
    }
    facts.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return {};
}

// Not posix_fallocate(): where the kernel cannot, that writes the file byte by byte.
Status allocate(int fd, std::size_t bytes) {
  if (const Status memory = check_memory(bytes); !memory) return memory;
  if (const Status limit = check_file_size_limit(bytes); !limit) return limit;
  while (::fallocate(fd, 0, 0, static_cast<off_t>(bytes)) != 0) {
    if (errno != EINTR) return from_errno(errno);
  }
  return {};
}

Status check_shape(int fd, std::size_t bytes) {
  struct stat facts {};
  if (::fstat(fd, &facts) != 0) return from_errno(errno);
  const bool right_size = static_cast<std::uint64_t>(facts.st_size) == bytes;
  if (!right_size || (::fcntl(fd, F_GET_SEALS) & kSeals) != kSeals) return {Code::mismatch, 0};
  return {};
}

// The time left until `deadline` as poll() wants it, rounded up.
int poll_timeout(Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, std::numeric_limits<int>::max()));
}

// Waits for an event on `fd`. gone: the time is over.
Status wait_for(int fd, short events, Clock::time_point deadline) {
  for (;;) {
    pollfd one{fd, events, 0};
    const int ready = ::poll(&one, 1, poll_timeout(deadline));
    if (ready > 0) return {};
    if (ready == 0) return {Code::gone, ETIMEDOUT};
    if (errno != EINTR) return from_errno(errno);
  }
}

struct Address {
  sockaddr_un where{};
  socklen_t length = 0;
};

// An abstract address: a zero byte, then the name.
Address address_of(const DoorName& name) {
  Address address;
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

bool of_same_user(int socket) {
  ucred peer{};
  socklen_t length = sizeof peer;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
         peer.uid == ::geteuid();
}

// The space of one control message that carries one descriptor.
union ControlSpace {
  cmsghdr align;
  char bytes[CMSG_SPACE(sizeof(int))];
};

// One byte of payload with the descriptor; it always fits into a fresh socket's buffer.
Status send_fd(int socket, int fd) {
  char byte = 'm';
  iovec payload{&byte, 1};
  ControlSpace space{};
  msghdr message{};
  message.msg_iov = &payload;
  message.msg_iovlen = 1;
  message.msg_control = space.bytes;
  message.msg_controllen = sizeof space.bytes;
  cmsghdr* control = CMSG_FIRSTHDR(&message);
  control->cmsg_level = SOL_SOCKET;
  control->cmsg_type = SCM_RIGHTS;
  control->cmsg_len = CMSG_LEN(sizeof fd);
  std::memcpy(CMSG_DATA(control), &fd, sizeof fd);
  while (::sendmsg(socket, &message, MSG_NOSIGNAL) != 1) {
    if (errno != EINTR) return from_errno(errno);
  }
  return {};
}

Result<Fd> receive_fd(int socket) {
  char byte = 0;
  iovec payload{&byte, 1};
  ControlSpace space{};
  msghdr message{};
  message.msg_iov = &payload;
  message.msg_iovlen = 1;
  message.msg_control = space.bytes;
  message.msg_controllen = sizeof space.bytes;
  ssize_t received = 0;
  do {
    received = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (received < 0 && errno == EINTR);
  if (received < 0) return from_errno(errno);
  const cmsghdr* control = CMSG_FIRSTHDR(&message);
  if (received == 0 || control == nullptr || control->cmsg_type != SCM_RIGHTS ||
      control->cmsg_len != CMSG_LEN(sizeof(int))) {
    return Status{Code::refused, 0};  // turned away
  }
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(control), sizeof fd);
  return Fd(fd);
}

// A full backlog shows as EAGAIN: the root is slower than its peers, so try again for a while.
Status connect_until(int socket, const Address& address, Clock::time_point deadline) {
  constexpr timespec kPause{0, 1'000'000};
  for (;;) {
    if (::connect(socket, reinterpret_cast<const sockaddr*>(&address.where), address.length) == 0) {
      return {};
    }
    if (errno == ECONNREFUSED) return {Code::refused, ECONNREFUSED};  // no such door from here
    if (errno != EAGAIN && errno != EINTR) return from_errno(errno);
    if (Clock::now() >= deadline) return {Code::gone, ETIMEDOUT};
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
  if (const Status allocated = allocate(fd.get(), bytes); !allocated) return allocated;
  if (::fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) return from_errno(errno);
  return map(std::move(fd), bytes);
}

Result<Segment> Segment::attach(Fd fd, std::size_t bytes) {
  if (const Status shape = check_shape(fd.get(), bytes); !shape) return shape;
  return map(std::move(fd), bytes);
}

Result<Door> Door::open() {
  const Result<DoorName> name = random_name();
  if (!name) return name.status();
  Result<Fd> socket = open_socket();
  if (!socket) return socket.status();
  const Address address = address_of(*name);
  if (::bind(socket->get(), reinterpret_cast<const sockaddr*>(&address.where), address.length) !=
          0 ||
      ::listen(socket->get(), SOMAXCONN) != 0) {
    return from_errno(errno);
  }
  return Door(std::move(*socket), *name);
}

Status Door::hand_over(int peers, int fd, Milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  for (int served = 0; served < peers;) {
    if (const Status ready = wait_for(listener_.get(), POLLIN, deadline); !ready) return ready;
    const Fd peer(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!peer.valid()) {
      if (errno == EINTR || errno == EAGAIN || errno == ECONNABORTED) continue;
      return from_errno(errno);
    }
    if (of_same_user(peer.get()) && send_fd(peer.get(), fd).ok()) ++served;
  }
  return {};
}

Result<Fd> Door::fetch(const DoorName& name, Milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  const Result<Fd> socket = open_socket();
  if (!socket) return socket.status();
  const Status connected = connect_until(socket->get(), address_of(name), deadline);
  if (!connected) return connected;
  if (!of_same_user(socket->get())) return Status{Code::refused, EPERM};
  if (const Status ready = wait_for(socket->get(), POLLIN, deadline); !ready) return ready;
  return receive_fd(socket->get());
}

}  // namespace mh::node
