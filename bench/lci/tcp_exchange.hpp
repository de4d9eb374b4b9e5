// SPDX-License-Identifier: BSD-3-Clause
// The back end `tcp` of the graph programs: rounds of exchanges between two hosts over one plain
// TCP connection. MPI exchanges the addresses and does everything beside the rounds. The thread
// that sends also receives and scatters, from a buffer that stays in the first-level cache. A back
// end that sends and scatters at the same time can be faster.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "mpi_exchange.hpp"

namespace graph {

class TcpExchange final : public MpiExchange {
 public:
  TcpExchange() {
    if (size() != 2) throw std::runtime_error("the back end tcp has two ranks");
    socket_ = rank() == 0 ? accept_one() : connect_to_first();
    const int on = 1;
    ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (::fcntl(socket_, F_SETFL, O_NONBLOCK) != 0) fail("no connection");
  }
  ~TcpExchange() override { ::close(socket_); }

  void prepare(const std::vector<std::size_t>& /*most_to*/) override { memory_ = kPiece; }

 private:
  static constexpr std::size_t kPiece = 32UL * 1024;
  static_assert(kPiece % kGrain == 0);

  [[noreturn]] static void fail(const std::string& what) {
    throw std::runtime_error(what + ": " + std::strerror(errno));
  }

  // Returns the IPv4 address of this host's first network interface that is not the loopback.
  static in_addr own_address() {
    ifaddrs* list = nullptr;
    if (::getifaddrs(&list) != 0) fail("no networks");
    in_addr found{};
    for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
      if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != AF_INET) continue;
      if ((each->ifa_flags & IFF_LOOPBACK) != 0) continue;
      sockaddr_in address{};
      std::memcpy(&address, each->ifa_addr, sizeof address);
      found = address.sin_addr;
      break;
    }
    ::freeifaddrs(list);
    return found;
  }

  int accept_one() {
    const int door = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr = own_address();
    socklen_t length = sizeof address;
    auto* const name = reinterpret_cast<sockaddr*>(&address);
    if (::bind(door, name, length) != 0 || ::listen(door, 1) != 0) fail("no door");
    ::getsockname(door, name, &length);
    MPI_Bcast(&address, sizeof address, MPI_BYTE, 0, MPI_COMM_WORLD);
    const int made = ::accept(door, nullptr, nullptr);
    ::close(door);
    return made;
  }

  static int connect_to_first() {
    sockaddr_in address{};
    MPI_Bcast(&address, sizeof address, MPI_BYTE, 0, MPI_COMM_WORLD);
    const int made = ::socket(AF_INET, SOCK_STREAM, 0);
    if (::connect(made, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
      fail("no connection");
    return made;
  }

  // Sends the length and the bytes of `out` to the other host, piece by piece. In between, receives
  // the other host's length and bytes, and passes the bytes to `scatter`.
  void exchange(const std::vector<Buffer>& out, const Scatter& scatter) override {
    const Buffer& data = out[static_cast<std::size_t>(1 - rank())];
    Outgoing outgoing{.length = data.size(), .data = data.data()};
    std::size_t coming = 0;
    receive_all(outgoing, &coming, sizeof coming);
    std::size_t kept = 0;  // bytes at the front of piece_ that are not scattered yet
    while (coming != 0) {
      const std::size_t got = receive(piece_.data() + kept, std::min(coming, kPiece - kept));
      kept += got;
      coming -= got;
      const std::size_t whole = coming == 0 ? kept : kept / kGrain * kGrain;
      if (whole != 0) {
        scatter(1 - rank(), std::span(piece_.data(), whole));
        kept -= whole;
        std::memmove(piece_.data(), piece_.data() + whole, kept);
      }
      push(outgoing);
    }
    while (!outgoing.is_over()) push(outgoing);
  }

  struct Outgoing {
    std::uint64_t length;
    const std::byte* data;
    std::size_t sent = 0;  // bytes sent of the length and the data together
    [[nodiscard]] bool is_over() const { return sent == sizeof length + length; }
  };

  void push(Outgoing& outgoing) const {
    if (outgoing.is_over()) return;
    const bool in_data = outgoing.sent >= sizeof outgoing.length;
    const auto* const from =
        in_data ? outgoing.data + (outgoing.sent - sizeof outgoing.length)
                : reinterpret_cast<const std::byte*>(&outgoing.length) + outgoing.sent;
    const std::size_t left = in_data ? sizeof outgoing.length + outgoing.length - outgoing.sent
                                     : sizeof outgoing.length - outgoing.sent;
    const auto sent = ::send(socket_, from, left, MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN) fail("the connection");
    if (sent > 0) outgoing.sent += static_cast<std::size_t>(sent);
  }

  std::size_t receive(void* to, std::size_t most) const {
    const auto got = ::recv(socket_, to, most, 0);
    if (got == 0 || (got < 0 && errno != EAGAIN)) fail("the connection");
    return got > 0 ? static_cast<std::size_t>(got) : 0;
  }

  void receive_all(Outgoing& outgoing, void* to, std::size_t bytes) const {
    for (std::size_t got = 0; got < bytes;) {
      push(outgoing);
      got += receive(static_cast<std::byte*>(to) + got, bytes - got);
    }
  }

  int socket_ = -1;
  std::array<std::byte, kPiece> piece_{};
};

}  // namespace graph
