// SPDX-License-Identifier: BSD-3-Clause
// Ranks within one process over the loopback transport, for tests of LCI.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "lci/loopback.hpp"
#include "lci/state.hpp"
#include "manyhands/lci.hpp"

namespace mh::test {

using lci::DeviceConfig;
using lci::Endpoint;
using lci::EndpointConfig;

inline DeviceConfig small_config() {
  DeviceConfig config;
  config.packet_bytes = 512;
  config.receive_packets = 16;
  config.send_packets = 8;
  config.large_messages = 4;
  config.expected_keys = 64;
  return config;
}

class Ranks {
 public:
  explicit Ranks(int size, const DeviceConfig& config = small_config(),
                 std::size_t post_limit = std::size_t{1} << 16U)
      : network(size) {
    network.post_limit = post_limit;
    for (int rank = 0; rank < size; ++rank) {
      auto made = lci::detail::DeviceState::make(network.join(rank), config);
      EXPECT_TRUE(made.ok());
      devices.push_back(std::move(*made));
    }
  }
  // Opens an endpoint with the same configuration at all ranks.
  std::vector<Endpoint> open(const EndpointConfig& config) {
    std::vector<Endpoint> endpoints;
    for (auto& device : devices) endpoints.push_back(open_at(*device, config));
    return endpoints;
  }
  static Endpoint open_at(lci::detail::DeviceState& device, const EndpointConfig& config) {
    const auto endpoint = device.open_endpoint(config);
    EXPECT_TRUE(endpoint.ok());
    return Endpoint(*endpoint);
  }
  // Calls progress() for the devices of all ranks until three passes in a row do nothing.
  void settle() {
    for (int quiet = 0; quiet < 3;) {
      std::size_t happened = 0;
      for (auto& device : devices) happened += device->progress();
      quiet = happened == 0 ? quiet + 1 : 0;
    }
  }
  // Checks for leaks: all packets, records of large messages and receives must be free again.
  void expect_at_rest() {
    settle();
    for (auto& device : devices) {
      for (const auto& unposted : device->unposted) EXPECT_EQ(unposted.load(), 0U);
      EXPECT_EQ(device->packets.count(), device->config.send_packets);
      EXPECT_EQ(device->free_sends.count() + device->free_arrivals.count(), device->records.size());
      EXPECT_EQ(device->free_receives.count(), device->receives.size());
    }
  }

  lci::detail::LoopbackNetwork network;
  std::vector<std::unique_ptr<lci::detail::DeviceState>> devices;
};

inline std::vector<std::byte> pattern(std::size_t size, unsigned seed) {
  std::vector<std::byte> data(size);
  for (std::size_t i = 0; i < size; ++i) data[i] = static_cast<std::byte>(i * 31 + seed);
  return data;
}

inline bool same(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin());
}

}  // namespace mh::test
