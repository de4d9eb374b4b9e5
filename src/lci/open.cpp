// SPDX-License-Identifier: BSD-3-Clause
// The public Device: opened over a job, closed with all others.
#include <utility>

#include "lci/state.hpp"
#include "manyhands/lci/device.hpp"
#if MH_LCI_HAS_FABRIC
#include "lci/fabric.hpp"
#endif

namespace mh::lci {
namespace {

#if MH_LCI_HAS_FABRIC
using detail::open_fabric;
#else
Result<std::unique_ptr<detail::Transport> > open_fabric(Job& /*job*/,
                                                        const DeviceConfig& /*config*/) {
  return Status{Code::unsupported};
}
#endif

}  // namespace

Result<Device> Device::open(Job& job, const DeviceConfig& config) {
  auto transport = open_fabric(job, config);
  if (!transport) return transport.status();
  auto state = detail::DeviceState::make(std::move(*transport), config);
  if (!state) return state.status();
  Device device(job, std::move(*state));
  // Nobody sends before all have posted their packets.
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
std::size_t Device::packet_memory() const noexcept { return state_->packet_bytes(); }
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
