// SPDX-License-Identifier: BSD-3-Clause
// What TCP itself takes for rounds in which two hosts send each other BYTES: one connection, no
// library, nothing done with what has come. What a library adds to this is its own. Prints the time
// of all rounds.
//
//   tcp-stream listen|connect ADDRESS ROUNDS BYTES
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

constexpr std::uint16_t kPort = 7171;        // in namespaces of the bench's own
constexpr std::size_t kPiece = 32UL * 1024;  // of what is received: it stays in the first caches
constexpr int kTries = 500;                  // of 10 ms, until the other side listens
constexpr useconds_t kBetweenTriesUs = 10'000;

int new_socket() {
  const int made = ::socket(AF_INET, SOCK_STREAM, 0);
  const int on = 1;
  ::setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  ::setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return made;
}

// -1: nobody there.
int meet(bool listens, const sockaddr_in& address) {
  const auto* where = reinterpret_cast<const sockaddr*>(&address);
  int line = new_socket();
  if (listens) {
    if (::bind(line, where, sizeof address) != 0 || ::listen(line, 1) != 0) return -1;
    return ::accept(line, nullptr, nullptr);
  }
  for (int i = 0; i < kTries; ++i) {
    if (::connect(line, where, sizeof address) == 0) return line;
    ::close(line);
    ::usleep(kBetweenTriesUs);
    line = new_socket();
  }
  return -1;
}

bool exchange(int line, const std::vector<std::byte>& out, std::vector<std::byte>& piece) {
  for (std::size_t sent = 0, received = 0; sent < out.size() || received < out.size();) {
    if (sent < out.size()) {
      const auto n = ::send(line, out.data() + sent, out.size() - sent, MSG_NOSIGNAL);
      if (n < 0 && errno != EAGAIN) return false;
      sent += n > 0 ? static_cast<std::size_t>(n) : 0;
    }
    const std::size_t wanted = std::min(piece.size(), out.size() - received);
    if (wanted == 0) continue;
    const auto n = ::recv(line, piece.data(), wanted, 0);
    if (n == 0 || (n < 0 && errno != EAGAIN)) return false;
    received += n > 0 ? static_cast<std::size_t>(n) : 0;
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: tcp-stream listen|connect ADDRESS ROUNDS BYTES\n");
    return 2;
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(kPort);
  if (::inet_pton(AF_INET, argv[2], &address.sin_addr) != 1) {
    std::fprintf(stderr, "tcp-stream: '%s' is no IPv4 address\n", argv[2]);
    return 2;
  }
  const int line = meet(std::strcmp(argv[1], "listen") == 0, address);
  if (line < 0 || ::fcntl(line, F_SETFL, O_NONBLOCK) != 0) {
    std::perror("tcp-stream: no connection");
    return 1;
  }
  const int on = 1;
  ::setsockopt(line, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  const std::vector<std::byte> out(static_cast<std::size_t>(std::atol(argv[4])));
  std::vector<std::byte> piece(kPiece);
  const auto start = std::chrono::steady_clock::now();
  for (int round = std::atoi(argv[3]); round > 0; --round) {
    if (!exchange(line, out, piece)) return 1;
  }
  const std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - start;
  std::printf("%.3f ms\n", spent.count());
}
