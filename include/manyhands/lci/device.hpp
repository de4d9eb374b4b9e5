// SPDX-License-Identifier: BSD-3-Clause
// Devices and endpoints (dissertation, section 5.2.6).
//
// A *device* is one context of the network with its own packets, matching table and progress. An
// *endpoint* is a channel of a device between all ranks. Its protocol is fixed when it is opened:
// the destination of the bytes (Buffers) and the kind of completion (Completion). All ranks open
// the same devices, and the same endpoints of each device, in the same order.
//
// A receive has to be *posted* where it brings something: a buffer (explicit) or a synchronizer.
// Elsewhere messages come as they arrive (first-packet policy). Posted receives match by rank and
// tag, without wildcards; those of the same rank and tag are matched in the order in which they
// were posted, with messages in the order in which they arrived. Transports may overtake.
//
// Messages up to Device::eager_limit() go in one packet. Larger ones go by rendezvous: the data are
// put straight from the sender's buffer into the receiver's. Each rank may have a number of
// messages at a peer that it has not consumed (credits). Programs may rely on half of them, as on
// the buffers of an MPI_Send: two ranks that both send more than that before they receive can hold
// each other up.
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
  explicit_address,  // the receiver says where
  piggy_back,  // the message stays in its packet until its consumer is done; one packet at most
  dynamic,     // the endpoint's allocator says where
};

enum class Completion : std::uint8_t { synchronizer, queue, handler };

struct EndpointConfig {
  Buffers buffers = Buffers::explicit_address;
  Completion completion = Completion::synchronizer;
  CompletionQueue* queue = nullptr;  // of Completion::queue
  Handler handler = nullptr;         // of Completion::handler
  void* argument = nullptr;          // of the handler
  Allocator allocator{};             // of Buffers::dynamic
  // Buffers::dynamic without synchronizers: each peer has a buffer of that size here, in which a
  // message of more than a packet arrives without being announced. One at a time: the sender is
  // told to retry (no credit) until the one before has been released. Longer messages are
  // announced. With all ranks less than 1 MB.
  std::size_t grant_bytes = 0;
  // The device owns this object; the pointers above may point into it.
  std::shared_ptr<void> keep{};
};

struct DeviceConfig {
  // "tcp", "shm", or any libfabric provider with FI_MSG and FI_RMA. Empty: MH_LCI_PROVIDER, else
  // shm where all ranks are on one machine, else tcp.
  std::string provider;
  std::size_t packet_bytes = 8000;      // payload of a packet, a multiple of 64
  std::size_t receive_packets = 4096;   // shared among all peers; 2048 for each at most
  std::size_t send_packets = 1024;      // and those that wait to be used again
  std::size_t large_messages = 256;     // under way at a time, in each direction
  std::size_t expected_keys = 1 << 16;  // posted receives and early messages; more are slower
  // Ranks of one host have memory in common, and a provider is for the others only. Not if
  // MH_LCI_NODE=off.
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
  // Collective: makes progress until all are at the same point, or dead. Nobody may use it
  // meanwhile.
  MH_LCI_API ~Device();

  // `full`: there are 256.
  MH_LCI_API Result<Endpoint> open_endpoint(const EndpointConfig& config = {});

  // Moves everything on by a step; any thread. Returns how many things happened; 0 also if another
  // thread is at it. Delivers completions.
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

// A reference to an endpoint, which lives as long as its device. Copies freely. All calls from any
// thread, handler or task; none blocks.
//
// Errors of all: `misuse` (rank, size, or a call that does not fit the endpoint), `gone` (the peer
// is dead), `system`.
class Endpoint {
 public:
  Endpoint() = default;
  explicit Endpoint(detail::EndpointState* state) : state_(state) {}

  // done: the buffer is free again. posted: it is free at the completion, which comes as those of
  // this endpoint do, with `context` or at `done`.
  MH_LCI_API Answer send(int rank, std::uint32_t tag, std::span<const std::byte> data,
                         void* context = nullptr) noexcept;
  MH_LCI_API Answer send(int rank, std::uint32_t tag, std::span<const std::byte> data,
                         Synchronizer& done) noexcept;

  // Posted receives. With a synchronizer it may be done at once; then the result is there as well.
  // With a queue or a handler the completion always comes that way.
  MH_LCI_API Answer receive(int rank, std::uint32_t tag, std::span<std::byte> buffer,
                            void* context) noexcept;
  MH_LCI_API Answer receive(int rank, std::uint32_t tag, std::span<std::byte> buffer,
                            Synchronizer& done) noexcept;
  // Piggy-back and dynamic, with a synchronizer.
  MH_LCI_API Answer receive(int rank, std::uint32_t tag, Synchronizer& done) noexcept;

 private:
  detail::EndpointState* state_ = nullptr;
};

}  // namespace mh::lci
