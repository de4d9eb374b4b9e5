// SPDX-License-Identifier: BSD-3-Clause
// An MPI-like layer for the light tasks of manyhands/ult.hpp: send and receive by rank and tag,
// without wildcards, and collectives. Calls block the calling task, not its worker.
//
// Messages move only while some thread or task makes progress (calls Device::progress()). With a
// Server, or a task in serve(), a waiting task is parked until one signal wakes the task. Without a
// server, each waiting task makes progress itself and yields to other tasks, so each message costs
// more. serve() must not end while tasks wait. An ordinary thread that waits always makes progress
// itself.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <ranges>
#include <span>
#include <thread>
#include <type_traits>

#include "manyhands/lci/device.hpp"
#include "manyhands/ult/task.hpp"

namespace mh::lci {

// Calls device.progress() in a loop until another thread or task sets `stop`. The calling light
// task or thread yields between the calls. Several tasks and threads may serve one device.
MH_LCI_API void serve(Device& device, const std::atomic<bool>& stop) noexcept;

// A thread that calls serve() until the destructor, which waits for the thread. Tasks that wait for
// messages need not poll meanwhile. The device must outlive the Server and must not be moved while
// the Server exists. The constructor throws std::system_error if no thread can be started.
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

// Repeats `call()`, which returns an Answer, until the answer is not *retry* (a resource was
// exhausted). Makes progress on `device` and yields to other tasks between the calls.
template <class Call>
Answer insist(Device& device, Call call) {
  for (;;) {
    const Answer answer = call();
    if (!answer.is_retry()) return answer;
    device.progress();
    ult::yield();
  }
}

// Messages and collectives among all ranks of a device. Errors of all calls: `gone` (the peer is
// dead), `misuse` (an invalid argument), `system` (the network has failed), and `mismatch` for a
// message that is longer than its receiver's buffer. A failed call may have written a part of its
// output.
class Communicator {
 public:
  // Collective, in the same order at all ranks. The call opens two endpoints, so no other thread
  // may open an endpoint of the device at the same time. Fails as Device::open_endpoint(). The
  // device must outlive the communicator and must not be moved while the communicator exists.
  MH_LCI_API static Result<Communicator> open(Device& device);

  [[nodiscard]] int rank() const { return device_->rank(); }
  [[nodiscard]] int size() const { return device_->size(); }
  [[nodiscard]] Device& device() const { return *device_; }

  // --- calls that any number of tasks and threads may make at a time ---
  // Returns when the caller may change the data. The receiver need not have received the message
  // then.
  MH_LCI_API Status send(int rank, std::uint32_t tag, std::span<const std::byte> data) noexcept;
  // Waits for a message from `rank` with `tag`, and writes it to `buffer`. Returns the size of the
  // message in bytes. `mismatch`: the message is longer, and the buffer has the part that fits.
  MH_LCI_API Result<std::size_t> receive(int rank, std::uint32_t tag,
                                         std::span<std::byte> buffer) noexcept;
  // start_send() and start_receive() start an operation, which wait() completes. Both return at
  // once unless a resource is exhausted; then they wait for the resource. The data, the buffer and
  // `done` must stay valid until wait() returns. After an error the operation does not exist, and
  // wait() must not be called.
  MH_LCI_API Status start_send(int rank, std::uint32_t tag, std::span<const std::byte> data,
                               Synchronizer& done) noexcept;
  MH_LCI_API Status start_receive(int rank, std::uint32_t tag, std::span<std::byte> buffer,
                                  Synchronizer& done) noexcept;
  // Waits for the operation that was started with `done`, once for each operation. Another
  // operation may then use `done`. Returns the size in bytes of a received message; after a send
  // the number has no meaning.
  MH_LCI_API Result<std::size_t> wait(Synchronizer& done) noexcept;

  // --- collective calls, one at a time, in the same order at all ranks; `full`: no memory ---
  MH_LCI_API Status barrier() noexcept;
  MH_LCI_API Status broadcast(int root, std::span<std::byte> data) noexcept;
  // Sends `block` bytes from each rank to each rank. Block i of `send` goes to rank i, and block i
  // of `receive` comes from rank i. Both spans have size() blocks, else `misuse`.
  MH_LCI_API Status all_to_all(std::span<const std::byte> send, std::span<std::byte> receive,
                               std::size_t block) noexcept;
  // Combines the `data` of all ranks, element by element, in a fixed order of ranks. The result
  // replaces the data on all ranks. `data`: a span, which may be a temporary object, or a variable
  // that is an array or a vector. `operation(a, b)` returns the combined element and must be
  // associative. The calling task or thread runs the operation.
  template <std::ranges::contiguous_range Data, class Operation>
  Status all_reduce(Data&& data, Operation operation) {
    using T = std::remove_reference_t<std::ranges::range_reference_t<Data>>;
    static_assert(std::ranges::borrowed_range<Data>, "a temporary object would lose the result");
    static_assert(std::is_trivially_copyable_v<T> && std::is_empty_v<Operation>);
    (void)operation;
    return all_reduce_bytes(
        std::as_writable_bytes(std::span<T>(data)),
        [](std::byte* into, const std::byte* from, std::size_t bytes, void* /*argument*/) {
          auto* a = reinterpret_cast<T*>(into);
          const auto* b = reinterpret_cast<const T*>(from);
          for (std::size_t i = 0; i < bytes / sizeof(T); ++i) a[i] = Operation{}(a[i], b[i]);
        });
  }
  // Is all_reduce() for data of any kind: `combine` combines the `bytes` bytes at `from` into those
  // at `into`. Each call of `combine` gets `argument`.
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
