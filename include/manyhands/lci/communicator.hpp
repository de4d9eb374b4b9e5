// SPDX-License-Identifier: BSD-3-Clause
// An MPI-like layer for light tasks: send and receive by rank and tag, without wildcards, and
// collectives. Calls block the calling task, not its worker.
//
// With a Server, or a task in serve(), a waiting task is parked until one signal wakes the task.
// Without, each waiting task makes progress itself between other tasks, and costs more. serve()
// must not end while tasks wait. An ordinary thread that waits always makes progress itself.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <thread>
#include <type_traits>

#include "manyhands/lci/device.hpp"
#include "manyhands/ult/task.hpp"

namespace mh::lci {

// Makes progress until `stop` is set, and yields between the steps; for a light task or a thread.
MH_LCI_API void serve(Device& device, const std::atomic<bool>& stop) noexcept;

// A thread that calls serve() until the destructor; must be destroyed before its device.
class Server {
 public:
  explicit Server(Device& device) : thread_([this, &device] { serve(device, stop_); }) {}
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server() {
    stop_.store(true, std::memory_order_relaxed);  // partner: serve(); publishes nothing else
    thread_.join();
  }

 private:
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

// Repeats a call until its answer is not *retry*. Makes progress and yields between the calls.
template <class Call>
Answer insist(Device& device, Call call) {
  for (;;) {
    const Answer answer = call();
    if (!answer.is_retry()) return answer;
    device.progress();
    ult::yield();
  }
}

// Messages and collectives among all ranks of a device. Errors of all calls: `gone`, `misuse`, and
// `mismatch` for a message that is longer than its receiver's buffer. Outputs are complete on
// success only.
class Communicator {
 public:
  // Collective, in the same order at all ranks. The device must outlive the result.
  MH_LCI_API static Result<Communicator> open(Device& device);

  [[nodiscard]] int rank() const { return device_->rank(); }
  [[nodiscard]] int size() const { return device_->size(); }
  [[nodiscard]] Device& device() const { return *device_; }

  // --- any number of tasks and threads at a time ---
  // Returns when the caller may change the data.
  MH_LCI_API Status send(int rank, std::uint32_t tag, std::span<const std::byte> data) noexcept;
  // Returns the bytes of the message.
  MH_LCI_API Result<std::size_t> receive(int rank, std::uint32_t tag,
                                         std::span<std::byte> buffer) noexcept;
  // Start an operation; wait() completes it. Both return at once unless a resource is exhausted.
  MH_LCI_API Status start_send(int rank, std::uint32_t tag, std::span<const std::byte> data,
                               Synchronizer& done) noexcept;
  MH_LCI_API Status start_receive(int rank, std::uint32_t tag, std::span<std::byte> buffer,
                                  Synchronizer& done) noexcept;
  MH_LCI_API Result<std::size_t> wait(Synchronizer& done) noexcept;

  // --- collective, one at a time, in the same order at all ranks ---
  MH_LCI_API Status barrier() noexcept;
  MH_LCI_API Status broadcast(int root, std::span<std::byte> data) noexcept;
  // Sends `block` bytes from each rank to each rank; both spans have size() blocks.
  MH_LCI_API Status all_to_all(std::span<const std::byte> send, std::span<std::byte> receive,
                               std::size_t block) noexcept;
  // Combines the `data` of all ranks, element by element, in a fixed order of ranks. All ranks get
  // the result. `operation(a, b)` returns the combined element and must be associative.
  template <class T, class Operation>
  Status all_reduce(std::span<T> data, Operation operation) {
    static_assert(std::is_trivially_copyable_v<T> && std::is_empty_v<Operation>);
    (void)operation;
    return all_reduce_bytes(
        std::as_writable_bytes(data),
        [](std::byte* into, const std::byte* from, std::size_t bytes, void* /*argument*/) {
          auto* a = reinterpret_cast<T*>(into);
          const auto* b = reinterpret_cast<const T*>(from);
          for (std::size_t i = 0; i < bytes / sizeof(T); ++i) a[i] = Operation{}(a[i], b[i]);
        });
  }
  // The same for data of any kind: combines all `bytes` of `from` into `into`.
  using Combine = void (*)(std::byte* into, const std::byte* from, std::size_t bytes,
                           void* argument);
  MH_LCI_API Status all_reduce_bytes(std::span<std::byte> data, Combine combine,
                                     void* argument = nullptr) noexcept;

 private:
  Communicator(Device& device, Endpoint messages, Endpoint collectives)
      : device_(&device), messages_(messages), collectives_(collectives) {}
  Answer send_patiently(Endpoint endpoint, int rank, std::uint32_t tag,
                        std::span<const std::byte> data, Synchronizer& done) noexcept;
  Status send_on(Endpoint endpoint, int rank, std::uint32_t tag,
                 std::span<const std::byte> data) noexcept;
  Result<std::size_t> receive_on(Endpoint endpoint, int rank, std::uint32_t tag,
                                 std::span<std::byte> buffer) noexcept;

  Device* device_;
  Endpoint messages_;
  Endpoint collectives_;
  std::uint32_t turn_ = 0;  // the tag of the next collective
};

}  // namespace mh::lci
