// SPDX-License-Identifier: BSD-3-Clause
// The queue interface for irregular programs (dissertation, section 3.3, algorithms 3.1 to 3.3). A
// thread enqueues a message for a rank. Any thread of that rank dequeues messages in the order of
// arrival (first-packet policy), with size, rank and tag. There is no matching, no probing and no
// order between messages.
//
// Back-pressure: send_enqueue() answers *retry* while the receiver has not dequeued enough. A large
// message that is not dequeued holds its packet. Therefore two values bound the memory of a rank:
// for each peer the credits times the largest message, and `memory_limit`.
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
  // Bytes of messages that have arrived or are under way to this rank; a single message may be
  // larger.
  std::size_t memory_limit = SIZE_MAX;
  std::size_t grant_bytes = 0;  // as in EndpointConfig; not counted in the limit
  Allocator allocator{};        // of the messages; the limit holds for it as well
};

class Queue {
 public:
  // Collective, as Device::open_endpoint().
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

  // done: the buffer is free at return. posted: the buffer is free later, once progress has
  // incremented `*sent`; read it with acquire. No receive_dequeue() is needed for that.
  Answer send_enqueue(int rank, std::uint32_t tag, std::span<const std::byte> data,
                      std::atomic<std::uint32_t>* sent) noexcept {
    return endpoint_.send(rank, tag, data, sent);
  }

  // The next message, or nothing. Kind::gone: a rank has died. Kind::sent, always with a failed
  // status: a large message has not arrived, and `*sent` counts it as well.
  std::optional<Message> receive_dequeue() noexcept {
    auto message = core_->arrived.pop();
    if (message && message->kind() == Kind::sent) {
      auto* sent = static_cast<std::atomic<std::uint32_t>*>(message->context());
      if (sent != nullptr) sent->fetch_add(1, std::memory_order_release);
    }
    return message;
  }

  // Bytes of messages that have arrived or are under way to this rank, now and at most so far; both
  // with all granted buffers.
  [[nodiscard]] std::size_t memory() const {
    return granted_ + core_->used.load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::size_t most_memory() const {
    return granted_ + core_->most.load(std::memory_order_relaxed);
  }

 private:
  Queue() = default;

  // Owned by the endpoint. relaxed: counts; malloc orders the memory.
  struct Core {
    explicit Core(const QueueConfig& config)
        : limit(config.memory_limit), users(config.allocator) {}

    static constexpr std::size_t kFront = alignof(std::max_align_t);  // bytes that keep the size

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
