// SPDX-License-Identifier: BSD-3-Clause
// The transport of loopback.hpp between ranks of one process: a mutex and three queues for each
// rank. Simple, not fast.
#include "lci/loopback.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace mh::lci::detail {

class Loopback final : public Transport {
 public:
  Loopback(LoopbackNetwork& network, int rank) : network_(network), rank_(rank) {}

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return static_cast<int>(network_.ports_.size()); }
  [[nodiscard]] std::size_t inject_limit(int /*rank*/) const override { return 256; }
  [[nodiscard]] std::size_t post_limit() const override { return network_.post_limit; }
  Status attach(std::span<std::byte> /*packets*/) override { return {}; }

  Code inject(int rank, Header header, std::span<const std::byte> data) override {
    return fly(rank, header, data, nullptr);
  }
  Code send(int rank, Header header, std::span<const std::byte> payload,
            NetContext& context) override {
    context.use = NetContext::Use::send;
    return fly(rank, header, payload, &context);
  }
  Code post(std::span<std::byte> payload, NetContext& context, bool /*near*/) override {
    LoopbackNetwork::Port& port = network_.port(rank_);
    const std::lock_guard guard(port.mutex);
    if (port.posted.size() >= network_.post_limit) return Code::full;
    context.use = NetContext::Use::receive;
    port.posted.push_back({payload, &context});
    return Code::ok;
  }

  Result<Region> add(int /*rank*/, std::span<std::byte> memory, bool /*writable*/) override {
    const auto address = reinterpret_cast<std::uint64_t>(memory.data());
    return Region{memory.data(), address, memory.size(), nullptr};
  }
  void remove(Region& region) override { region.handle = nullptr; }

  Code put(int rank, Put& put, NetContext& context) override {
    context.use = NetContext::Use::put;
    if (const Code code = may_send(rank); code != Code::ok) return code;
    LoopbackNetwork::Port& port = network_.port(rank);
    {
      const std::lock_guard guard(port.mutex);
      if (put.size > put.key) return Code::system;  // the key is the size of the region
      if (put.size != 0) std::memcpy(reinterpret_cast<void*>(put.address), put.data, put.size);
      port.events.push_back(
          {NetEvent::Kind::put_arrived, Code::ok, put.immediate, put.size, nullptr});
    }
    tell(NetEvent::Kind::put_done, context);
    return Code::ok;
  }

  std::size_t poll(std::span<NetEvent> events) override {
    LoopbackNetwork::Port& port = network_.port(rank_);
    const std::lock_guard guard(port.mutex);
    port.most_unposted = std::max(port.most_unposted, port.inbox.size());
    while (!port.inbox.empty() && !port.posted.empty() && port.events.size() < events.size()) {
      land(port);
    }
    std::size_t count = 0;
    while (count < events.size() && !port.events.empty()) {
      events[count++] = port.events.front();
      port.events.pop_front();
    }
    return count;
  }

 private:
  Code may_send(int rank) {
    LoopbackNetwork::Port& own = network_.port(rank_);
    if (own.dead.load() || network_.port(rank).dead.load()) return Code::gone;
    if (own.refuse.load() > 0 && own.refuse.fetch_sub(1) > 0) return Code::full;
    return Code::ok;
  }

  Code fly(int rank, Header header, std::span<const std::byte> data, NetContext* context) {
    if (const Code code = may_send(rank); code != Code::ok) return code;
    LoopbackNetwork::Port& port = network_.port(rank);
    {
      const std::lock_guard guard(port.mutex);
      port.inbox.push_back({header, {data.begin(), data.end()}});
    }
    if (context != nullptr) tell(NetEvent::Kind::sent, *context);
    return Code::ok;
  }

  void tell(NetEvent::Kind kind, NetContext& context) {
    LoopbackNetwork::Port& own = network_.port(rank_);
    const std::lock_guard guard(own.mutex);
    own.events.push_back({kind, Code::ok, {}, 0, &context});
  }

  static void land(LoopbackNetwork::Port& port) {
    const LoopbackNetwork::Flight flight = std::move(port.inbox.front());
    const LoopbackNetwork::LoopbackPacket posted = port.posted.front();
    port.inbox.pop_front();
    port.posted.pop_front();
    const std::size_t size = std::min(flight.data.size(), posted.payload.size());
    if (size != 0) std::memcpy(posted.payload.data(), flight.data.data(), size);
    port.events.push_back({NetEvent::Kind::arrived, Code::ok, flight.header, size, posted.context});
  }

  LoopbackNetwork& network_;
  const int rank_;
};

std::unique_ptr<Transport> LoopbackNetwork::join(int rank) {
  return std::make_unique<Loopback>(*this, rank);
}

void LoopbackNetwork::kill(int rank) {
  port(rank).dead.store(true);
  const Header header{PacketKind::eager, 0, rank, 0};
  for (Port& other : ports_) {
    const std::lock_guard guard(other.mutex);
    other.events.push_back({NetEvent::Kind::gone, Code::gone, header, 0, nullptr});
  }
}

std::size_t LoopbackNetwork::most_unposted(int rank) {
  const std::lock_guard guard(port(rank).mutex);
  return port(rank).most_unposted;
}

}  // namespace mh::lci::detail
