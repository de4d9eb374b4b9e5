// SPDX-License-Identifier: BSD-3-Clause
// Rounds over the queue interface of LCI: enqueue to everybody, dequeue from everybody, whatever
// comes first.
#pragma once

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "exchange.hpp"
#include "manyhands/lci.hpp"

namespace graph {

// An example's way with errors: say it and end.
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
        device_(must(mh::lci::Device::open(job_), "device")),
        all_(must(mh::lci::Communicator::open(device_), "communicator")),
        queue_(must(mh::lci::Queue::open(device_), "queue")) {}

  [[nodiscard]] int rank() const override { return device_.rank(); }
  [[nodiscard]] int size() const override { return device_.size(); }
  void prepare(const std::vector<std::size_t>& /*most_to*/) override {}
  std::int64_t sum(std::int64_t mine) override {
    check(all_.all_reduce(std::span(&mine, 1), std::plus<std::int64_t>{}).ok());
    return mine;
  }
  [[nodiscard]] std::size_t receive_memory() const override { return queue_.most_memory(); }

 private:
  static void check(bool condition) {
    if (condition) return;
    std::fprintf(stderr, "a rank has died\n");
    std::exit(1);
  }

  void exchange(const std::vector<Buffer>& out, const Scatter& scatter) override {
    std::uint32_t posted = 0;
    sent_.store(0, std::memory_order_relaxed);
    missing_ = size() - 1;
    // Of the ranks that were in this round before us.
    std::vector<mh::lci::Message> early = std::move(early_);
    early_.clear();
    for (const auto& message : early) use(message, scatter);
    for (int step = 1; step < size(); ++step) {
      const int to = (rank() + step) % size();
      const Buffer& data = out[static_cast<std::size_t>(to)];
      for (;;) {
        const auto answer = queue_.send_enqueue(to, round_, data, &sent_);
        check(!answer.is_error());
        if (answer.is_posted()) ++posted;
        if (!answer.is_retry()) break;
        move_on(scatter);
      }
    }
    while (missing_ != 0 || sent_.load(std::memory_order_acquire) != posted) move_on(scatter);
    ++round_;
  }

  void move_on(const Scatter& scatter) {
    if (device_.progress() == 0) mh::ult::yield();
    while (auto message = queue_.receive_dequeue()) {
      check(message->status().ok());
      if (message->tag() == round_) {
        use(*message, scatter);
      } else {
        early_.push_back(std::move(*message));  // of the next round: one a rank
      }
    }
  }

  void use(const mh::lci::Message& message, const Scatter& scatter) {
    scatter(message.rank(), message.bytes());
    --missing_;
  }

  mh::lci::Job job_;
  mh::lci::Device device_;
  mh::lci::Communicator all_;
  mh::lci::Queue queue_;
  std::uint32_t round_ = 0;
  int missing_ = 0;
  std::atomic<std::uint32_t> sent_{0};
  std::vector<mh::lci::Message> early_;
};

}  // namespace graph
