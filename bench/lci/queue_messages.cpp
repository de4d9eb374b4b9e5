// SPDX-License-Identifier: BSD-3-Clause
// Messages whose sizes the receiver does not know, by the queue of LCI (figure 3.2 of the
// dissertation on LCI). mpi_messages.cpp does the same over MPI, and unknown_sizes.py compares the
// two.
//
//   mh-lci-queue-messages PROVIDER ROUNDS BYTES [WINDOW]
//
// A round has WINDOW messages from rank 0 and an answer of the same length. PROVIDER: tcp or shm of
// libfabric, or node for shared memory. The program starts both processes. Rank 0 prints the rate.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "manyhands/lci.hpp"
#include "players.hpp"
#include "two_processes.hpp"

namespace {

namespace lci = mh::lci;

struct Exchange {
  std::string provider;
  int rounds;
  std::size_t bytes;
  int window;
};

class Peer {
 public:
  Peer(lci::Device& device, lci::Queue& queue, std::size_t bytes)
      : device_(device), queue_(queue), data_(bytes) {}

  void send(int count) {
    int posted = 0;
    // acquire: pairs with the release in the device's progress(), which adds 1 to `sent_` for each
    // sent message whose buffer may be reused.
    const std::uint32_t before = sent_.load(std::memory_order_acquire);
    for (int i = 0; i < count;) {
      const lci::Answer answer = queue_.send_enqueue(1 - device_.rank(), 0, data_, &sent_);
      if (answer.is_error()) std::abort();
      if (answer.is_retry()) {
        device_.progress();
        continue;
      }
      posted += answer.is_posted() ? 1 : 0;
      ++i;
    }
    while (sent_.load(std::memory_order_acquire) - before != static_cast<std::uint32_t>(posted)) {
      device_.progress();
    }
  }

  void receive(int count) {
    for (int i = 0; i < count;) {
      const auto message = queue_.receive_dequeue();
      if (!message) {
        device_.progress();
        continue;
      }
      if (message->kind() != lci::Kind::received || message->size() != data_.size()) std::abort();
      ++i;
    }
  }

 private:
  lci::Device& device_;
  lci::Queue& queue_;
  std::vector<std::byte> data_;
  std::atomic<std::uint32_t> sent_{0};
};

int live(int rank, const std::string& root, const Exchange& exchange) {
  auto job = lci::Job::join({.rank = rank, .size = 2, .root = root, .timeout_s = 20});
  if (!job.ok()) return 2;
  lci::DeviceConfig config;
  config.node = exchange.provider == "node";
  if (!config.node) config.provider = exchange.provider;
  auto device = lci::Device::open(*job, config);
  if (!device.ok()) {
    std::fprintf(stderr, "no device: %s\n", mh::describe(device.status().code));
    return 3;
  }
  auto queue = lci::Queue::open(*device);
  if (!queue.ok()) return 4;
  Peer peer(*device, *queue, exchange.bytes);
  const auto start = std::chrono::steady_clock::now();
  for (int round = 0; round < exchange.rounds; ++round) {
    rank == 0 ? peer.send(exchange.window) : peer.receive(exchange.window);
    rank == 0 ? peer.receive(1) : peer.send(1);
  }
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  if (rank == 0) {
    print_rate(exchange.rounds / spent.count(), static_cast<std::size_t>(exchange.window));
    std::printf("\n");
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4 || argc > 5) {
    std::fprintf(stderr, "usage: mh-lci-queue-messages PROVIDER ROUNDS BYTES [WINDOW]\n");
    return 2;
  }
  const Exchange exchange{argv[1], std::atoi(argv[2]), static_cast<std::size_t>(std::atol(argv[3])),
                          argc > 4 ? std::atoi(argv[4]) : 1};
  return in_two_processes("mh-lci-queue-messages", [&](int rank, const std::string& root) {
    return live(rank, root, exchange);
  });
}
