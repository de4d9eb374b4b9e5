// SPDX-License-Identifier: BSD-3-Clause
// Devices and endpoints (section 5.2.6 of the dissertation that lci.hpp names).
//
// A *device* is one context of the network with its own packets (fixed buffers for one message
// each), matching table and progress. An *endpoint* is a channel of a device between all ranks. Its
// protocol is fixed when the endpoint is opened: the destination of the bytes (Buffers) and the
// kind of completion (Completion). All ranks open the same devices, and the same endpoints of each
// device, in the same order.
//
// Endpoints with explicit buffers or synchronizers need a *posted* receive for each message. Other
// endpoints deliver messages in the order of arrival (first-packet policy). Posted receives match
// by rank and tag, without wildcards. Receives of the same rank and tag match in the order of
// posting, with messages in the order of arrival. Messages may arrive in another order than they
// were sent.
//
// Messages up to Device::eager_limit() go in one packet. Larger messages go by rendezvous: a put (a
// remote write) from the sender's buffer into the receiver's. A credit is the right to send one
// message to a peer; the peer returns the credit after it has consumed the message. Programs may
// rely on half of the credits, as on the buffers of an MPI_Send. Two ranks that both send more
// messages than half of the credits before they receive may wait for ever.
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
  CompletionQueue* queue = nullptr;  // for Completion::queue; stays the caller's, unless in `keep`
  Handler handler = nullptr;         // for Completion::handler
  void* argument = nullptr;          // of the handler
  Allocator allocator{};             // for Buffers::dynamic
  // For Buffers::dynamic with a queue or a handler: the size in bytes of a buffer that this rank
  // grants each peer. A message that is longer than a packet and fits goes into that buffer by one
  // put (remote write), without rendezvous. The next such message answers *retry* (no credit) until
  // the receiver has released the message in the buffer. grant_bytes times Device::size() is less
  // than 1 MB, else `misuse`.
  std::size_t grant_bytes = 0;
  // For Completion::queue. If true, the `context` of Endpoint::send() is a
  // std::atomic<std::uint32_t>*, or nullptr. A completed send increments that counter (release) in
  // place of a completion in the queue. Failed sends still have completions.
  bool counts_sends = false;
  // An object that the device owns until the device is destroyed. `queue`, `argument` and the
  // allocator's argument may point into the object.
  std::shared_ptr<void> keep{};
};

struct DeviceConfig {
  // The network of the device: "tcp", "shm", or any libfabric provider with FI_MSG and FI_RMA.
  // Empty: the value of the environment variable MH_LCI_PROVIDER, else shm where all ranks are on
  // one machine, else tcp.
  std::string provider;
  std::size_t packet_bytes = 8000;     // payload of a packet; a multiple of 64, at least 128
  std::size_t receive_packets = 4096;  // divided among all peers; 8 to 2048 for each peer
  std::size_t send_packets = 1024;     // for sends, which hold a packet while under way
  std::size_t large_messages = 256;    // under way at a time, in each direction
  // The expected number, at a time, of posted receives and of messages that arrived before their
  // receive. With more, the matching table is slower. Endpoints with a queue or a handler post at
  // most so many receives; a further receive answers *retry*.
  std::size_t expected_keys = 1 << 16;
  // True: ranks of one host communicate through shared memory, without the network `provider`. The
  // environment variable MH_LCI_NODE=off overrides this member.
  bool node = true;
};

class Endpoint;

// A device of this rank (see the top of the file). Any thread may call the functions at any time,
// unless a comment says otherwise.
class Device {
 public:
  // Opens a device on all ranks of the job. Collective. The job must outlive the device and must
  // not be moved while the device exists. `misuse`: a value of `config` is out of range.
  // `unsupported`: no libfabric, or no such provider. `mismatch`: the ranks do not agree on
  // `config`. `full`: no memory. `gone`: a rank has died. `system`: the network has failed.
  MH_LCI_API static Result<Device> open(Job& job, const DeviceConfig& config = {});
  MH_LCI_API Device(Device&&) noexcept;
  Device& operator=(Device&&) = delete;
  // Closes the device. Collective: makes progress until all other ranks close the device, too, or
  // are dead. No other thread may use the device from this call on.
  MH_LCI_API ~Device();

  // Opens the next endpoint of the device. Called by one thread at a time. All ranks open the same
  // endpoints in the same order, but the call does not wait for other ranks. `full`: the device has
  // 256 endpoints, or no memory; `misuse`: an invalid config.
  MH_LCI_API Result<Endpoint> open_endpoint(const EndpointConfig& config = {});

  // Moves messages once: polls the network, repeats steps that had to wait, delivers completions
  // and calls handlers. Returns the number of network events; 0 also while another thread is in
  // progress().
  MH_LCI_API std::size_t progress() noexcept;

  [[nodiscard]] MH_LCI_API int rank() const noexcept;
  [[nodiscard]] MH_LCI_API int size() const noexcept;
  // False: the device knows that the rank has died, or `rank` is out of range.
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

// A reference to an endpoint, valid as long as its device. Copyable. Any thread, handler or task
// may make the calls; none blocks.
//
// Errors of all calls: `misuse` (an invalid rank or size, or a call that does not fit the
// endpoint's protocol), `gone` (the peer is dead), `system` (the network has failed).
class Endpoint {
 public:
  Endpoint() = default;
  explicit Endpoint(detail::EndpointState* state) : state_(state) {}

  // Sends `data`. *done*: the buffer is free again, and no completion follows. *posted*: the buffer
  // is free at the completion, which comes to the queue or the handler with `context`, or to the
  // synchronizer `done`. Endpoints with synchronizers use the overload with `done`, all others the
  // overload with `context`.
  MH_LCI_API Answer send(int rank, std::uint32_t tag, std::span<const std::byte> data,
                         void* context = nullptr) noexcept;
  MH_LCI_API Answer send(int rank, std::uint32_t tag, std::span<const std::byte> data,
                         Synchronizer& done) noexcept;

  // Posts a receive. `buffer` must stay valid until the completion. With a synchronizer the answer
  // may be *done*, if the message has already arrived; the synchronizer then has the result. With a
  // queue or a handler the answer is never *done*.
  MH_LCI_API Answer receive(int rank, std::uint32_t tag, std::span<std::byte> buffer,
                            void* context) noexcept;
  MH_LCI_API Answer receive(int rank, std::uint32_t tag, std::span<std::byte> buffer,
                            Synchronizer& done) noexcept;
  // Posts a receive without a buffer, for endpoints with synchronizers whose messages stay in their
  // packet (Buffers::piggy_back) or go to allocated memory (Buffers::dynamic).
  MH_LCI_API Answer receive(int rank, std::uint32_t tag, Synchronizer& done) noexcept;

 private:
  detail::EndpointState* state_ = nullptr;
};

}  // namespace mh::lci
