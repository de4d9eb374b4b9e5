// SPDX-License-Identifier: BSD-3-Clause
// Rounds of an exchange (exchange.hpp) over the queue interface of LCI: a rank enqueues to all
// peers and dequeues from all peers in the order of arrival. Buffers travel in pieces. A piece is
// scattered while the next pieces are in flight. A receiver holds a few pieces at a time, so its
// memory does not grow with the graph.
//
// Odd and even rounds have their own queues. A round ends after a message from every rank, so no
// rank is more than one round ahead. A message of the next round waits in the queue of the next
// round, counts against that queue's memory limit, and does not block the current round.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "exchange.hpp"
#include "manyhands/lci.hpp"

namespace graph {

// Returns the value of `result`. If `result` is an error, prints it with `what` and ends the
// process.
template <class T>
T must(mh::Result<T> result, const char* what) {
  if (result) return std::move(*result);
  std::fprintf(stderr, "%s: %s\n", what, mh::describe(result.status().code));
  std::exit(1);
}

class LciExchange final : public Exchange {
 public:
  LciExchange()
      : job_(must(mh::lci::Job::join(), "job")),
        device_(must(mh::lci::Device::open(job_, config(job_.size())), "device")),
        all_(must(mh::lci::Communicator::open(device_), "communicator")),
        piece_(kMemory / static_cast<unsigned>(std::max(job_.size() - 1, 1)) / kGrain * kGrain),
        queues_{must(mh::lci::Queue::open(device_, kMemory, piece_), "queue"),
                must(mh::lci::Queue::open(device_, kMemory, piece_), "queue")},
        come_(static_cast<std::size_t>(job_.size())) {}

  [[nodiscard]] int rank() const override { return device_.rank(); }
  [[nodiscard]] int size() const override { return device_.size(); }
  void prepare(const std::vector<std::size_t>& /*most_to*/) override {}
  std::int64_t sum(std::int64_t mine) override {
    check(all_.all_reduce(std::span(&mine, 1), std::plus<std::int64_t>{}).ok());
    return mine;
  }
  std::int64_t most(std::int64_t mine) override {
    const auto larger = [](std::int64_t a, std::int64_t b) { return std::max(a, b); };
    check(all_.all_reduce(std::span(&mine, 1), larger).ok());
    return mine;
  }
  std::vector<std::string> all(const std::string& mine) override {
    return must(job_.allgather(mine, [this] { device_.progress(); }), "a rank has died");
  }
  // Returns the most bytes that the queues of odd and even rounds have held at a time, plus the
  // bytes of the device's packets.
  [[nodiscard]] std::size_t memory() const override {
    return device_.packet_memory() + queues_[0].most_memory() + queues_[1].most_memory();
  }

 private:
  // The bytes in which a queue holds arrived pieces, all peers together. Each peer has one buffer
  // of this memory, and sends its next piece after that buffer has been scattered. With two buffers
  // of half the size pieces would be shorter, and over TCP a piece costs some 30 us in addition to
  // its bytes (docs/decisions/lci).
  static constexpr std::size_t kMemory = std::size_t{256} * 1024;

  // Returns the configuration of the device. A few packets are enough, since only short pieces use
  // packets; at most four long pieces are under way.
  static mh::lci::DeviceConfig config(int ranks) {
    return {.provider = {},
            .packet_bytes = 4096,
            .receive_packets = std::size_t{8} * static_cast<unsigned>(ranks),
            .send_packets = 8,
            .large_messages = 4,
            .expected_keys = 256};
  }

  static void check(bool condition) {
    if (condition) return;
    std::fprintf(stderr, "a rank has died\n");
    std::exit(1);
  }

  [[nodiscard]] std::size_t pieces_of(const Buffer& data) const {
    return std::max<std::size_t>((data.size() + piece_ - 1) / piece_, 1);
  }

  void exchange(const std::vector<Buffer>& out, const Scatter& scatter) override {
    mh::lci::Queue& queue = queues_[round_++ % 2];
    std::fill(come_.begin(), come_.end(), 0);
    missing_ = size() - 1;
    posted_ = 0;
    sent_.store(0, std::memory_order_relaxed);
    std::size_t most = 0;
    for (const Buffer& data : out) most = std::max(most, pieces_of(data));
    for (std::size_t piece = 0; piece < most; ++piece) {
      for (int step = 1; step < size(); ++step) {
        const int to = (rank() + step) % size();
        const Buffer& data = out[static_cast<std::size_t>(to)];
        if (piece < pieces_of(data)) send(queue, to, data, piece, scatter);
      }
    }
    // Waits until all messages have come and all sends have completed; the caller may then reuse
    // the buffers. acquire: pairs with the increment of `sent_` by a completed send.
    while (missing_ != 0 || sent_.load(std::memory_order_acquire) != posted_) {
      move_on(queue, scatter);
    }
  }

  void send(mh::lci::Queue& queue, int to, const Buffer& data, std::size_t piece,
            const Scatter& scatter) {
    const std::size_t at = piece * piece_;
    const std::span part(data.data() + at, std::min(piece_, data.size() - at));
    const auto pieces = static_cast<std::uint32_t>(pieces_of(data));
    for (;;) {
      const auto answer = queue.send_enqueue(to, pieces, part, &sent_);
      check(!answer.is_error());
      if (answer.is_posted()) ++posted_;
      if (!answer.is_retry()) return;
      move_on(queue, scatter);
    }
  }

  void move_on(mh::lci::Queue& queue, const Scatter& scatter) {
    if (device_.progress() == 0) mh::ult::yield();
    while (const auto message = queue.receive_dequeue()) {
      check(message->status().ok());
      scatter(message->rank(), message->bytes());
      // Each piece has as its tag the number of pieces of its buffer. When as many have come from
      // the sender, the sender's buffer is complete, and one sender fewer is missing.
      if (++come_[static_cast<std::size_t>(message->rank())] == message->tag()) --missing_;
    }
  }

  mh::lci::Job job_;
  mh::lci::Device device_;
  mh::lci::Communicator all_;
  const std::size_t piece_;
  std::array<mh::lci::Queue, 2> queues_;
  std::vector<std::uint32_t> come_;  // pieces that have arrived from each rank in this round
  std::uint32_t round_ = 0;
  std::uint32_t posted_ = 0;
  int missing_ = 0;
  std::atomic<std::uint32_t> sent_{0};
};

}  // namespace graph
