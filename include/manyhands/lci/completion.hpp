// SPDX-License-Identifier: BSD-3-Clause
// How a program learns that a message has come or gone: completion queues, synchronizers, handlers.
// Which of the three an endpoint uses is settled when it is opened (device.hpp; dissertation,
// section 5.2.6).
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

enum class Kind : std::uint8_t {
  received,  // a message, or the failure of a posted receive
  sent,      // a large message has left its buffer, or has failed
  gone,      // a peer has died: delivered once to each endpoint with a queue or a handler
};

namespace detail {

struct EndpointState;
struct DeviceState;
struct Packet;

// An operation that has completed. `data` of a received message lies in the caller's buffer, in a
// packet, in memory of the endpoint's allocator, or in a granted buffer.
struct Event {
  EndpointState* endpoint = nullptr;
  std::byte* data = nullptr;
  std::size_t size = 0;
  void* context = nullptr;
  Packet* packet = nullptr;  // to be given back
  std::uint32_t tag = 0;
  std::int32_t rank = -1;
  Kind kind = Kind::received;
  Code code = Code::ok;
  bool allocated = false;  // `data` is of the allocator
  bool granted = false;    // `data` is the buffer that `rank` has been granted
};
MH_LCI_API void release(const Event& event) noexcept;

}  // namespace detail

// A completion. Movable. The destructor returns the packet or frees the memory that it owns.
// Packets are few, so destroy it as soon as the data are not needed, and before its device.
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
  // gone: the peer died first. mismatch: longer than the receiver's buffer; what fits is there.
  [[nodiscard]] Status status() const { return {event_.code}; }
  [[nodiscard]] int rank() const { return event_.rank; }  // the other side
  [[nodiscard]] std::uint32_t tag() const { return event_.tag; }
  // Bytes of the message, also where only a part of it fitted.
  [[nodiscard]] std::size_t size() const { return event_.size; }
  // The context of the completed send or receive; nullptr for a message without a posted receive.
  [[nodiscard]] void* context() const { return event_.context; }
  [[nodiscard]] std::byte* data() const { return event_.data; }
  [[nodiscard]] std::span<const std::byte> bytes() const { return {event_.data, event_.size}; }

  // Dynamic allocation only: the memory is the caller's, to be given to the allocator's release().
  // nullptr: the message lies in a granted buffer, and cannot be taken out.
  std::byte* take() {
    if (!event_.allocated) return nullptr;
    event_.allocated = false;
    return event_.data;
  }

 private:
  detail::Event event_;
};

// A queue of completions of any number of endpoints and devices. Any thread pops. The queue must
// outlive the devices whose endpoints use it, or be owned by them (EndpointConfig::keep).
class CompletionQueue {
 public:
  // A full queue holds up the messages behind it; nothing is lost.
  MH_LCI_API explicit CompletionQueue(std::size_t capacity = 4096);
  MH_LCI_API ~CompletionQueue();
  CompletionQueue(const CompletionQueue&) = delete;
  CompletionQueue& operator=(const CompletionQueue&) = delete;

  // Nothing: it is empty. Does not make progress by itself.
  MH_LCI_API std::optional<Message> pop() noexcept;

 private:
  friend struct detail::EndpointState;
  struct Places;
  bool push(const detail::Event& event) noexcept;
  std::unique_ptr<Places> places_;
};

// The completion of one operation, to be waited for by one task or thread. Must stay where it is
// from the call that names it until it is done. Used again by the next such call.
class Synchronizer {
 public:
  Synchronizer() = default;
  Synchronizer(const Synchronizer&) = delete;
  Synchronizer& operator=(const Synchronizer&) = delete;
  ~Synchronizer() { detail::release(event_); }

  // acquire: partner is the release in complete().
  [[nodiscard]] bool test() const noexcept {
    return state_.load(std::memory_order_acquire) == kDone;
  }
  // A light task is parked and costs nothing until one signal wakes it; an ordinary thread sleeps.
  // Somebody else has to make progress: a server, or another task (Device::serve()).
  MH_LCI_API void wait() noexcept;
  // Makes it done by hand: for a send that was done at once, and shall be waited for nevertheless.
  void finish() noexcept {
    result();
    state_.store(kDone, std::memory_order_release);
  }
  // Once, after it is done.
  Message result() noexcept { return Message(std::exchange(event_, {})); }

 private:
  friend struct detail::EndpointState;
  static constexpr std::uintptr_t kPending = 0;
  static constexpr std::uintptr_t kDone = 1;  // else: the address of who waits

  void complete(const detail::Event& event) noexcept;
  void start() noexcept {
    result();
    state_.store(kPending, std::memory_order_relaxed);
  }

  std::atomic<std::uintptr_t> state_{kPending};
  detail::Event event_{};  // written before kDone
  // A posted receive lies here while it is in the matching table: nothing is allocated for it.
  alignas(8) std::byte receive_[40];
};

// Called by whoever makes progress, so it must not block, wait or make progress itself; it may
// send. The message ends with the call.
using Handler = void (*)(Message& message, void* argument);

// Memory for messages whose size the receiver does not know. nullptr: not now; it is asked again,
// and the sender is held up meanwhile. Called by whoever makes progress or receives, several at a
// time.
struct Allocator {
  void* (*allocate)(std::size_t size, void* argument) = nullptr;  // nullptr: malloc
  void (*release)(void* memory, void* argument) = nullptr;        // nullptr: free
  void* argument = nullptr;
};

}  // namespace mh::lci
