// SPDX-License-Identifier: BSD-3-Clause
// The queue interface for irregular programs (dissertation, section 3.3, algorithms 3.1 to 3.3). A
// thread enqueues a message for a rank. Any thread of that rank dequeues messages in the order of
// arrival (first-packet policy), with size, rank and tag. There is no matching, no probing and no
// order between messages.
//
// Back-pressure: send_enqueue() answers *retry* while the receiver has not dequeued enough. A large
// message holds a packet of the receiver until the message is dequeued and destroyed. The memory of
// a rank is therefore bounded by `memory_limit`. A second bound is the size of the largest message,
// times the credits of all peers (the messages that they may send before this rank consumes one).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>

#include "manyhands/lci/device.hpp"

namespace mh::lci {

struct QueueConfig {
  // The most bytes of messages that have arrived or are under way to this rank. A single message
  // may be larger, if it is the only one.
  std::size_t memory_limit = SIZE_MAX;
  std::size_t grant_bytes = 0;  // as in EndpointConfig; not counted in the limit
  Allocator allocator{};        // of the messages; memory_limit bounds its memory as well
};

// A queue of messages between all ranks of a device. Movable. Any number of threads may enqueue and
// dequeue at a time.
class Queue {
 public:
  // Opens this rank's end of the queue. All ranks open their queues in the same order, like
  // endpoints, and one thread at a time. Fails as Device::open_endpoint(). The queue must not be
  // used after the end of its device.
  static Result<Queue> open(Device& device, const QueueConfig& config) {
    Queue queue;
    queue.core_ = std::make_shared<Core>(config);
    queue.granted_ = config.grant_bytes * static_cast<unsigned>(device.size() - 1);
    const Result<Endpoint> endpoint =
        device.open_endpoint({.buffers = Buffers::dynamic,
                              .completion = Completion::queue,
                              .queue = &queue.core_->arrived,
                              .allocator = {Core::allocate, Core::release, queue.core_.get()},
                              .grant_bytes = config.grant_bytes,
                              .counts_sends = true,
                              .keep = queue.core_});
    if (!endpoint) return endpoint.status();
    queue.endpoint_ = *endpoint;
    return queue;
  }
  static Result<Queue> open(Device& device, std::size_t memory_limit = SIZE_MAX,
                            std::size_t grant_bytes = 0) {
    return open(device, QueueConfig{.memory_limit = memory_limit, .grant_bytes = grant_bytes});
  }

  // Sends a message to `rank`. *done*: the data may be changed at return. *posted*: the data may be
  // changed once progress() has incremented `*sent`, which the caller reads with acquire. This rank
  // need not call receive_dequeue() for that. `sent` may be nullptr. Errors are those of
  // Endpoint::send().
  Answer send_enqueue(int rank, std::uint32_t tag, std::span<const std::byte> data,
                      std::atomic<std::uint32_t>* sent) noexcept {
    return endpoint_.send(rank, tag, data, sent);
  }

  // Returns the next message, or nothing. Makes no progress: some thread has to call
  // Device::progress(). Kind::gone: a rank has died. Kind::sent, always with a failed status: a
  // large message that this rank sent has not arrived; the call increments that message's `*sent`
  // as well.
  std::optional<Message> receive_dequeue() noexcept {
    auto message = core_->arrived.pop();
    if (message && message->kind() == Kind::sent) {
      auto* sent = static_cast<std::atomic<std::uint32_t>*>(message->context());
      if (sent != nullptr) sent->fetch_add(1, std::memory_order_release);
    }
    return message;
  }

  // memory(): bytes of the messages that have arrived or are under way to this rank. most_memory():
  // the greatest such number since open(). Both include the buffers granted to all peers
  // (grant_bytes).
  [[nodiscard]] std::size_t memory() const {
    return granted_ + core_->used.load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::size_t most_memory() const {
    return granted_ + core_->most.load(std::memory_order_relaxed);
  }

 private:
  Queue() = default;

  // The queue of arrived messages and the count of their bytes. The endpoint owns a Core, too,
  // because the device may deliver messages after the Queue has been destroyed. relaxed: the
  // atomics are counts, and malloc orders the memory.
  struct Core {
    explicit Core(const QueueConfig& config)
        : limit(config.memory_limit), users(config.allocator) {}

    // Bytes in front of each message's memory. They keep the size of the message, which release()
    // subtracts from `used`.
    static constexpr std::size_t kFront = alignof(std::max_align_t);

    static void* allocate(std::size_t size, void* self) noexcept {
      auto& core = *static_cast<Core*>(self);
      const std::size_t used = core.used.fetch_add(size, std::memory_order_relaxed) + size;
      void* memory = used <= core.limit || used == size ? core.obtain(kFront + size) : nullptr;
      if (memory == nullptr) {
        core.used.fetch_sub(size, std::memory_order_relaxed);
        return nullptr;
      }
      std::size_t most = core.most.load(std::memory_order_relaxed);
      while (most < used &&
             !core.most.compare_exchange_weak(most, used, std::memory_order_relaxed)) {
      }
      *static_cast<std::size_t*>(memory) = size;
      return static_cast<std::byte*>(memory) + kFront;
    }
    static void release(void* memory, void* self) noexcept {
      auto* front = static_cast<std::byte*>(memory) - kFront;
      const std::size_t size = *reinterpret_cast<std::size_t*>(front);
      auto& core = *static_cast<Core*>(self);
      core.used.fetch_sub(size, std::memory_order_relaxed);
      core.users.release != nullptr ? core.users.release(front, core.users.argument)
                                    : std::free(front);
    }
    void* obtain(std::size_t size) const noexcept {
      return users.allocate != nullptr ? users.allocate(size, users.argument) : std::malloc(size);
    }

    const std::size_t limit;
    const Allocator users;
    CompletionQueue arrived;
    std::atomic<std::size_t> used{0};
    std::atomic<std::size_t> most{0};
  };

  std::shared_ptr<Core> core_;
  Endpoint endpoint_;
  std::size_t granted_ = 0;
};

}  // namespace mh::lci
