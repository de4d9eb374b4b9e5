// SPDX-License-Identifier: BSD-3-Clause
// Completions: the notices that a send or a receive has ended, or that a peer has died. A
// completion goes to a completion queue, a synchronizer or a handler. An endpoint uses one of the
// three kinds, chosen when the endpoint is opened (device.hpp; section 5.2.6 of the dissertation
// that lci.hpp names).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "manyhands/result.hpp"
#include "manyhands/ult/sync.hpp"

#define MH_LCI_API __attribute__((visibility("default")))

namespace mh::lci {

class Queue;

enum class Kind : std::uint8_t {
  received,  // a message, or the failure of a posted receive
  sent,      // a large message whose buffer is free again, or its failure
  gone,      // the death of a peer, once for each endpoint with a queue or a handler
};

namespace detail {

struct EndpointState;
struct DeviceState;
struct Packet;

// An operation that has completed. `data` of a received message lies in the caller's buffer, in a
// packet of the device, in memory of the endpoint's allocator, or in a buffer that this rank has
// granted the sender (EndpointConfig::grant_bytes).
struct Event {
  EndpointState* endpoint = nullptr;
  std::byte* data = nullptr;
  std::size_t size = 0;
  void* context = nullptr;
  Packet* packet = nullptr;  // the packet that release() gives back; nullptr: none
  std::uint32_t tag = 0;
  std::int32_t rank = -1;
  Kind kind = Kind::received;
  Code code = Code::ok;
  bool allocated = false;  // `data` is memory of the allocator
  bool granted = false;    // `data` is the buffer granted to `rank`
  bool lent = false;       // take() must leave `data` to the queue, whose header lies before it
};
MH_LCI_API void release(const Event& event) noexcept;

}  // namespace detail

// A completion, with the received message if there is one. Movable; one thread uses a Message at a
// time. The destructor returns the packet to the device, frees the memory of the message, or grants
// the sender the buffer again. Packets are few: destroy a message as soon as its data are not
// needed, and before its device.
class Message {
 public:
  Message() = default;
  explicit Message(const detail::Event& event) : event_(event) {}
  Message(Message&& other) noexcept : event_(std::exchange(other.event_, {})) {}
  Message& operator=(Message&& other) noexcept {
    std::swap(event_, other.event_);
    return *this;
  }
  ~Message() { detail::release(event_); }

  [[nodiscard]] Kind kind() const { return event_.kind; }
  // `gone`: the peer died before the completion. `mismatch`: the received message is longer than
  // the buffer, which has the part that fits. `system`: the network has failed.
  [[nodiscard]] Status status() const { return {event_.code}; }
  [[nodiscard]] int rank() const { return event_.rank; }  // the peer
  [[nodiscard]] std::uint32_t tag() const { return event_.tag; }
  // Returns the size of the whole message in bytes, also after `mismatch`, when the buffer has only
  // the part that fits.
  [[nodiscard]] std::size_t size() const { return event_.size; }
  // The pointer that the caller gave the completed send or receive as `context`; nullptr for a
  // message without a posted receive.
  [[nodiscard]] void* context() const { return event_.context; }
  [[nodiscard]] std::byte* data() const { return event_.data; }
  // The data of a received message. Must not be called after `mismatch`: the span has the message's
  // size, and the buffer is shorter.
  [[nodiscard]] std::span<const std::byte> bytes() const { return {event_.data, event_.size}; }

  // For endpoints with Buffers::dynamic. Passes the memory of the message to the caller, who later
  // returns the memory by the allocator's release(). Returns nullptr if the message does not lie in
  // memory of the allocator, or is from a Queue, which counts its memory. A granted buffer, for
  // example, cannot be kept. A program that needs such data longer keeps the Message.
  std::byte* take() {
    if (!event_.allocated || event_.lent) return nullptr;
    event_.allocated = false;
    return event_.data;
  }

 private:
  friend class Queue;
  detail::Event event_;
};

// A queue of completions (Messages) of any number of endpoints and devices. Any number of threads
// may call pop() at a time. The queue must outlive the devices whose endpoints use the queue, or be
// owned by them (EndpointConfig::keep).
class CompletionQueue {
 public:
  // `capacity`: in completions, rounded up to a power of two. While the queue is full, the device
  // keeps further completions and delivers them later; none is lost. Throws std::bad_alloc.
  MH_LCI_API explicit CompletionQueue(std::size_t capacity = 4096);
  MH_LCI_API ~CompletionQueue();
  CompletionQueue(const CompletionQueue&) = delete;
  CompletionQueue& operator=(const CompletionQueue&) = delete;

  // Returns the next completion, or nothing if the queue is empty. Makes no progress: some thread
  // has to call Device::progress(), which fills the queue.
  MH_LCI_API std::optional<Message> pop() noexcept;

 private:
  friend struct detail::EndpointState;
  struct Places;
  bool push(const detail::Event& event) noexcept;
  std::unique_ptr<Places> places_;
};

// The completion of one operation, for one task or thread that waits. A synchronizer must stay
// alive from the send or receive that gets it until the completion. After the completion, another
// call may use the same synchronizer.
class Synchronizer {
 public:
  Synchronizer() = default;
  Synchronizer(const Synchronizer&) = delete;
  Synchronizer& operator=(const Synchronizer&) = delete;
  ~Synchronizer() { detail::release(event_); }

  // True: the operation has completed. acquire: partner is the release in complete(), so the caller
  // sees the result and the received data.
  [[nodiscard]] bool test() const noexcept {
    return state_.load(std::memory_order_acquire) == kDone;
  }
  // Returns after the completion. A calling light task is parked until one signal wakes it; an
  // ordinary thread sleeps. Neither makes progress, so a Server, or another task in serve(), has to
  // (communicator.hpp).
  MH_LCI_API void wait() noexcept;
  // Marks the synchronizer as completed, for the caller of a send that answered *done*: such a send
  // delivers no completion, and a later wait() would not return.
  void finish() noexcept {
    result();
    state_.store(kDone, std::memory_order_release);
  }
  // Returns the completion of the operation. Call once, after test() has returned true or wait()
  // has returned.
  Message result() noexcept { return Message(std::exchange(event_, {})); }

 private:
  friend struct detail::EndpointState;
  static constexpr std::uintptr_t kPending = 0;
  static constexpr std::uintptr_t kDone = 1;  // other values: the address of the waiter

  void complete(const detail::Event& event) noexcept;
  void start() noexcept {
    result();
    state_.store(kPending, std::memory_order_relaxed);
  }

  std::atomic<std::uintptr_t> state_{kPending};
  detail::Event event_{};  // written before kDone, which publishes it
  // Memory in which Endpoint::receive() makes the posted receive (detail::UserReceive). The
  // device's matching table refers to this memory until a message has matched the receive.
  alignas(8) std::byte receive_[40];
};

// A function of the program that gets each completion of its endpoint. A thread in progress() calls
// the handler, and so may a thread that sends or posts a receive. Several threads may call the
// handler at a time. A handler must not block, wait or make progress; a handler may send. The
// message is destroyed after the call, unless the handler has moved it.
using Handler = void (*)(Message& message, void* argument);

// Memory for messages whose size the receiver does not know (Buffers::dynamic). If allocate()
// returns nullptr, the device calls allocate() again later and delays the sender meanwhile. Several
// threads may call allocate() and release() at a time: threads that make progress, post receives or
// destroy messages. A program gives both functions or neither.
struct Allocator {
  void* (*allocate)(std::size_t size, void* argument) = nullptr;  // nullptr: malloc
  void (*release)(void* memory, void* argument) = nullptr;        // nullptr: free
  void* argument = nullptr;
};

}  // namespace mh::lci
