// SPDX-License-Identifier: BSD-3-Clause
// The queue interface for irregular programs (section 3.3 of the dissertation that lci.hpp names,
// algorithms 3.1 to 3.3). A thread enqueues a message for a rank. Any thread of that rank dequeues
// messages in the order of arrival (first-packet policy), with size, rank and tag. There is no
// matching, no probing and no order between messages.
//
// Back-pressure: send_enqueue() answers *retry* while the receiver has not dequeued enough. A large
// message holds a packet of the receiver until the message is dequeued and destroyed. The memory of
// a rank is therefore bounded by `memory_limit`. A second bound is the size of the largest message,
// times the credits of all peers (the messages that they may send before this rank consumes one).
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <span>

#include "manyhands/lci/device.hpp"
#include "manyhands/ult/sync.hpp"

namespace mh::lci {
namespace detail {

// The header of a block of memory for one message of a queue. The bytes of the message follow the
// header; `size` is their number.
struct alignas(std::max_align_t) MessageBlock {
  std::size_t capacity;
  std::size_t size;
};

// Blocks of released messages, the newest last, for later messages of about the same size. malloc
// returns long blocks to the kernel, and the next message would then cost a page fault for each
// page.
class KeptBlocks {
 public:
  KeptBlocks() = default;
  KeptBlocks(const KeptBlocks&) = delete;
  KeptBlocks& operator=(const KeptBlocks&) = delete;
  ~KeptBlocks() {
    while (count_ != 0) std::free(remove(count_ - 1));
  }

  // Returns a block for `size` bytes, at most twice as long; nullptr: there is none. Then the
  // oldest block is freed, so blocks of a size that is no longer used disappear.
  MessageBlock* take(std::size_t size) noexcept {
    const std::lock_guard guard(lock_);
    for (std::size_t i = count_; i-- > 0;) {
      const std::size_t capacity = blocks_[i]->capacity;
      if (capacity >= size && capacity / 2 <= size) return remove(i);
    }
    if (count_ != 0) std::free(remove(0));
    return nullptr;
  }
  // Returns false if the block cannot be kept. The caller then frees the block.
  bool keep(MessageBlock* block) noexcept {
    const std::lock_guard guard(lock_);
    if (count_ == kMost || block->capacity > kMostBytes - bytes_) return false;
    blocks_[count_++] = block;
    bytes_ += block->capacity;
    return true;
  }

 private:
  static constexpr std::size_t kMost = 64;
  static constexpr std::size_t kMostBytes = std::size_t{4} << 20U;

  MessageBlock* remove(std::size_t i) {
    MessageBlock* const block = blocks_[i];
    std::copy(blocks_.begin() + i + 1, blocks_.begin() + count_, blocks_.begin() + i);
    --count_;
    bytes_ -= block->capacity;
    return block;
  }

  ult::SpinLock lock_;  // guards all below
  std::array<MessageBlock*, kMost> blocks_{};
  std::size_t count_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace detail

struct QueueConfig {
  // The most bytes of messages that have arrived or are under way to this rank. A single message
  // may be larger, if it is the only one.
  std::size_t memory_limit = SIZE_MAX;
  std::size_t grant_bytes = 0;  // as in EndpointConfig; not counted in the limit
  // Memory of the messages that are longer than a packet; memory_limit bounds it as well. If
  // neither an allocator nor a memory_limit is set, the queue keeps up to 4 MB of released memory
  // for later messages.
  Allocator allocator{};
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
  // Device::progress(). Message::take() returns nullptr for messages of a queue. Kind::gone: a rank
  // has died. Kind::sent, always with a failed status: a large message that this rank sent has not
  // arrived; the call increments that message's `*sent` as well.
  std::optional<Message> receive_dequeue() noexcept {
    auto message = core_->arrived.pop();
    if (!message) return message;
    message->event_.lent = true;
    if (message->kind() == Kind::sent) {
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

  // The queue of arrived messages and the count of their bytes. The Queue and its endpoint share a
  // Core, because the device may deliver messages after the Queue has been destroyed. relaxed:
  // `used` and `most` are counts only. malloc, the lock of KeptBlocks or the user's allocator
  // orders the uses of a block by several threads.
  struct Core {
    explicit Core(const QueueConfig& config)
        : limit(config.memory_limit), users(config.allocator) {}

    static void* allocate(std::size_t size, void* self) noexcept {
      auto& core = *static_cast<Core*>(self);
      const std::size_t used = core.used.fetch_add(size, std::memory_order_relaxed) + size;
      auto* block = used <= core.limit || used == size ? core.obtain(size) : nullptr;
      if (block == nullptr) {
        core.used.fetch_sub(size, std::memory_order_relaxed);
        return nullptr;
      }
      std::size_t most = core.most.load(std::memory_order_relaxed);
      while (most < used &&
             !core.most.compare_exchange_weak(most, used, std::memory_order_relaxed)) {
      }
      block->size = size;
      return block + 1;
    }
    static void release(void* memory, void* self) noexcept {
      auto* block = static_cast<detail::MessageBlock*>(memory) - 1;
      auto& core = *static_cast<Core*>(self);
      core.used.fetch_sub(block->size, std::memory_order_relaxed);
      if (core.users.release != nullptr) return core.users.release(block, core.users.argument);
      if (!core.keeps() || !core.kept.keep(block)) std::free(block);
    }
    detail::MessageBlock* obtain(std::size_t size) noexcept {
      if (detail::MessageBlock* block = keeps() ? kept.take(size) : nullptr) return block;
      const std::size_t bytes = sizeof(detail::MessageBlock) + size;
      void* memory =
          users.allocate != nullptr ? users.allocate(bytes, users.argument) : std::malloc(bytes);
      if (memory == nullptr) return nullptr;
      return new (memory) detail::MessageBlock{size, size};
    }
    // Kept blocks do not count as memory of messages, so a queue with a limit keeps none.
    [[nodiscard]] bool keeps() const { return limit == SIZE_MAX && users.allocate == nullptr; }

    const std::size_t limit;
    const Allocator users;
    detail::KeptBlocks kept;
    CompletionQueue arrived;
    std::atomic<std::size_t> used{0};
    std::atomic<std::size_t> most{0};
  };

  std::shared_ptr<Core> core_;
  Endpoint endpoint_;
  std::size_t granted_ = 0;
};

}  // namespace mh::lci
