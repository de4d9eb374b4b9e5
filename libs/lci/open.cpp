// SPDX-License-Identifier: BSD-3-Clause
// The public class Device: a device is opened for the processes of a Job, and closed by all of them
// together.
#include <sched.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "lci/job_state.hpp"
#include "lci/node.hpp"
#include "lci/state.hpp"
#include "manyhands/lci/device.hpp"
#if MH_LCI_HAS_FABRIC
#include "lci/fabric.hpp"
#endif

namespace mh::lci {
namespace {

#if MH_LCI_HAS_FABRIC
using detail::check_fabric;
using detail::open_fabric;
#else
Status check_fabric(Job& /*job*/, const DeviceConfig& config) {
  return {config.provider.empty() ? Code::ok : Code::unsupported};
}
Result<std::unique_ptr<detail::Transport>> open_fabric(Job& /*job*/,
                                                       const DeviceConfig& /*config*/) {
  return Status{Code::unsupported};
}
#endif

// Opens the transport of a device: shared memory to the ranks of this node, a network to all other
// ranks.
Result<std::unique_ptr<detail::Transport>> open_transport(Job& job, const DeviceConfig& config) {
  auto near = detail::find_neighbours(job, config);
  if (!near) return near.status();
  if (near->everybody) {
    if (const Status fabric = check_fabric(job, config); !fabric) return fabric;
    return detail::join_node(job, std::move(*near), nullptr);
  }
  auto far = open_fabric(job, config);
  if (!far || near->all.empty()) return far;
  return detail::join_node(job, std::move(*near), std::move(*far));
}

// The most ranks of a job whose connections are made at the start: half of the usual limit of open
// files. In a larger job each connection is made at the first message.
constexpr int kMostConnections = 512;

// Sends a hello (a packet without a message) to `rank`. The hello is too long for inject(), so the
// provider also prepares for the sending of packets, not of injected messages only.
Code greet(detail::DeviceState& state, int rank) {
  detail::Packet* packet = state.packets.take();
  if (packet == nullptr) return Code::full;
  packet->header.rank = rank;
  const detail::Header hello{detail::PacketKind::hello, 0, state.transport->rank(), 0};
  const std::size_t size = std::min(state.peer(rank).inject_limit + 1, state.config.packet_bytes);
  std::memset(packet->payload(), 0, size);
  const Code code = state.transport->send(rank, hello, {packet->payload(), size}, *packet);
  if (code != Code::ok) state.packets.give(packet);
  return code;
}

// Connects to all far peers (ranks of other nodes) at once, so no first message waits for a
// connection. A provider makes a connection and its buffers at the first use: libfabric's rxm polls
// new connections every 10 ms, and writes 17 MB of buffers in 9 ms.
Status meet_all(const Job& job, Device& device) {
  detail::DeviceState& state = device.state();
  if (job.size() > kMostConnections) return {};
  std::vector<int> unmet;
  for (int rank = 0; rank < job.size(); ++rank) {
    if (!state.peer(rank).is_near) unmet.push_back(rank);
  }
  const std::size_t peers = unmet.size();
  while (!unmet.empty() || state.greetings < peers) {
    std::erase_if(unmet, [&](int rank) { return greet(state, rank) != Code::full; });
    if (device.progress() == 0) ::sched_yield();
    if (job.state().deaths() != 0) return {Code::gone};
  }
  return {};
}

}  // namespace

Result<Device> Device::open(Job& job, const DeviceConfig& config) {
  auto transport = open_transport(job, config);
  if (!transport) return transport.status();
  auto state = detail::DeviceState::make(std::move(*transport), config);
  if (!state) return state.status();
  Device device(job, std::move(*state));
  // A message must find a posted packet. No rank therefore sends before all ranks have posted their
  // packets.
  if (const auto all = job.allgather({}, [&] { device.progress(); }); !all) return all.status();
  if (const Status met = meet_all(job, device); !met) return met;
  if (const auto all = job.allgather({}, [&] { device.progress(); }); !all) return all.status();
  return device;
}

Device::Device(Job& job, std::unique_ptr<detail::DeviceState> state)
    : job_(&job), state_(std::move(state)) {}
Device::Device(Device&&) noexcept = default;
Device::~Device() {
  if (state_ != nullptr) (void)job_->allgather({}, [this] { progress(); });
}

Result<Endpoint> Device::open_endpoint(const EndpointConfig& config) {
  const auto state = state_->open_endpoint(config);
  if (!state) return state.status();
  return Endpoint(*state);
}

std::size_t Device::progress() noexcept { return state_->progress(); }
int Device::rank() const noexcept { return state_->transport->rank(); }
int Device::size() const noexcept { return state_->transport->size(); }
bool Device::alive(int rank) const noexcept { return state_->has(rank) && !state_->is_gone(rank); }
std::size_t Device::eager_limit() const noexcept { return state_->config.packet_bytes; }
std::size_t Device::credits() const noexcept { return state_->shares.credits; }
std::size_t Device::packet_memory() const noexcept {
  return state_->packet_bytes() + state_->transport->memory();
}
Counters Device::counters() const noexcept { return state_->counters(); }

const char* describe(Retry reason) {
  switch (reason) {
    case Retry::none:
      return "no retry";
    case Retry::credit:
      return "no free packets at the peer";
    case Retry::packet:
      return "no packet";
    case Retry::record:
      return "too many operations under way";
    case Retry::table:
      return "matching table full";
    case Retry::network:
      return "network full";
  }
  return "unknown reason";
}

}  // namespace mh::lci
