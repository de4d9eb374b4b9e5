// SPDX-License-Identifier: BSD-3-Clause
// Devices and endpoints (dissertation, section 5.2.6).
//
// A *device* is one context of the network with its own packets, matching table and progress. An
// *endpoint* is a channel of a device between all ranks. Its protocol is fixed when the endpoint is
// opened: the destination of the bytes (Buffers) and the kind of completion (Completion). All ranks
// open the same devices, and the same endpoints of each device, in the same order.
//
// Endpoints with explicit buffers or synchronizers need a *posted* receive for each message. Other
// endpoints deliver messages in the order of arrival (first-packet policy). Posted receives match
// by rank and tag, without wildcards. Receives of the same rank and tag match in the order of
// posting, with messages in the order of arrival. Transports may overtake.
//
// Messages up to Device::eager_limit() go in one packet. Larger messages go by rendezvous: a put
// from the sender's buffer into the receiver's. The credits of a rank limit its messages that a
// peer has not consumed. Programs may rely on half of the credits, as on the buffers of an
// MPI_Send: two ranks that both send more than that before they receive may wait for ever.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "manyhands/lci/answer.hpp"
#include "manyhands/lci/completion.hpp"
#include "manyhands/lci/job.hpp"

namespace mh::lci {

enum class Buffers : std::uint8_t {
  explicit_address,  // into the buffer of the posted receive
  piggy_back,        // in the packet, until the Message is destroyed; one packet at most
  dynamic,           // into memory of the endpoint's allocator
};

enum class Completion : std::uint8_t { synchronizer, queue, handler };

struct EndpointConfig {
  Buffers buffers = Buffers::explicit_address;
  Completion completion = Completion::synchronizer;
  CompletionQueue* queue = nullptr;  // of Completion::queue
  Handler handler = nullptr;         // of Completion::handler
  void* argument = nullptr;          // of the handler
  Allocator allocator{};             // of Buffers::dynamic
  // Buffers::dynamic without synchronizers: the size of a buffer that this rank grants each peer. A
  // message that is longer than a packet and fits goes there by one put, without rendezvous. The
  // next such message answers *retry* (no credit) until the release of the message in the buffer.
  // The grants of all ranks together are less than 1 MB.
  std::size_t grant_bytes = 0;
  // With a queue: the context of a send is a std::atomic<std::uint32_t>*, or null. A completed send
  // increments the counter (release) in place of a completion. Failed sends still have completions.
  bool counts_sends = false;
  // An object that the device owns; the pointers above may point into the object.
  std::shared_ptr<void> keep{};
};

struct DeviceConfig {
  // "tcp", "shm", or any libfabric provider with FI_MSG and FI_RMA. Empty: MH_LCI_PROVIDER, else
  // shm where all ranks are on one machine, else tcp.
  std::string provider;
  std::size_t packet_bytes = 8000;      // payload of a packet, a multiple of 64
  std::size_t receive_packets = 4096;   // divided among all peers; at most 2048 for each peer
  std::size_t send_packets = 1024;      // free, or in a send under way
  std::size_t large_messages = 256;     // under way at a time, in each direction
  std::size_t expected_keys = 1 << 16;  // posted receives and early messages; more are slower
  // Ranks of one host communicate through shared memory, without the provider. MH_LCI_NODE=off
  // overrides this member.
  bool node = true;
};

class Endpoint;

class Device {
 public:
  // Collective. `unsupported`: no libfabric, or no such provider; `mismatch`: the ranks do not
  // agree on `config`; `full`: no memory.
  MH_LCI_API static Result<Device> open(Job& job, const DeviceConfig& config = {});
  MH_LCI_API Device(Device&&) noexcept;
  Device& operator=(Device&&) = delete;
  // Collective: makes progress until all other ranks close the device, too, or are dead. No other
  // thread may use the device meanwhile.
  MH_LCI_API ~Device();

  // `full`: the device has 256 endpoints, or no memory; `misuse`: an invalid config.
  MH_LCI_API Result<Endpoint> open_endpoint(const EndpointConfig& config = {});

  // Makes one step of progress and delivers completions; any thread. Returns the number of network
  // events; 0 also while another thread makes progress.
  MH_LCI_API std::size_t progress() noexcept;

  [[nodiscard]] MH_LCI_API int rank() const noexcept;
  [[nodiscard]] MH_LCI_API int size() const noexcept;
  [[nodiscard]] MH_LCI_API bool alive(int rank) const noexcept;
  [[nodiscard]] MH_LCI_API std::size_t eager_limit() const noexcept;    // bytes
  [[nodiscard]] MH_LCI_API std::size_t credits() const noexcept;        // messages, for each peer
  [[nodiscard]] MH_LCI_API std::size_t packet_memory() const noexcept;  // bytes, all packets
  [[nodiscard]] MH_LCI_API Counters counters() const noexcept;
  [[nodiscard]] detail::DeviceState& state() const noexcept { return *state_; }

 private:
  Device(Job& job, std::unique_ptr<detail::DeviceState> state);
  Job* job_;
  std::unique_ptr<detail::DeviceState> state_;
};

// A reference to an endpoint, valid as long as its device. Copyable. All calls from any thread,
// handler or task; none blocks.
//
// Errors of all calls: `misuse` (rank, size, or a call that does not fit the endpoint), `gone` (the
// peer is dead), `system`.
class Endpoint {
 public:
  Endpoint() = default;
  explicit Endpoint(detail::EndpointState* state) : state_(state) {}

  // done: the buffer is free again. posted: the buffer is free at the completion, in the queue or
  // the handler with `context`, or at the synchronizer `done`.
  MH_LCI_API Answer send(int rank, std::uint32_t tag, std::span<const std::byte> data,
                         void* context = nullptr) noexcept;
  MH_LCI_API Answer send(int rank, std::uint32_t tag, std::span<const std::byte> data,
                         Synchronizer& done) noexcept;

  // Posted receives. With a synchronizer the answer may be done; `done` then has the result. With a
  // queue or a handler the answer is never done.
  MH_LCI_API Answer receive(int rank, std::uint32_t tag, std::span<std::byte> buffer,
                            void* context) noexcept;
  MH_LCI_API Answer receive(int rank, std::uint32_t tag, std::span<std::byte> buffer,
                            Synchronizer& done) noexcept;
  // For piggy-back and dynamic buffers with a synchronizer.
  MH_LCI_API Answer receive(int rank, std::uint32_t tag, Synchronizer& done) noexcept;

 private:
  detail::EndpointState* state_ = nullptr;
};

}  // namespace mh::lci
