// SPDX-License-Identifier: BSD-3-Clause
// A job whose ranks are threads, on nodes of equal size. Each rank has its own Network, and each
// message is late by a random time.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "manyhands/tasks/network.hpp"

namespace mh::tasks {

class ThreadJob {
 public:
  using Clock = std::chrono::steady_clock;

  ThreadJob(std::uint32_t ranks, std::uint32_t per_node, std::chrono::microseconds latest)
      : ranks_(ranks), per_node_(per_node), latest_(latest), mail_(ranks) {
    for (std::uint32_t first = 0; first < ranks; first += per_node) nodes_.push_back(first);
  }

  // Makes every later call of the networks fail.
  void fail() { failed_ = true; }
  std::unique_ptr<Network> network(std::uint32_t rank);
  // Calls `body(rank)` on a thread for each rank.
  void run(const std::function<void(std::uint32_t)>& body) const {
    std::vector<std::thread> threads;
    for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
      threads.emplace_back([&body, rank] { body(rank); });
    }
    for (std::thread& thread : threads) thread.join();
  }
  // The number of messages that no rank has received.
  std::size_t unread() {
    std::size_t count = 0;
    for (Mailbox& box : mail_) count += box.letters.size();
    return count;
  }

 private:
  friend class ThreadNetwork;
  struct Letter {
    std::uint32_t from;
    Tag tag;
    std::vector<std::byte> bytes;
    Clock::time_point arrives;
    std::shared_ptr<std::atomic<bool>> read;
  };
  struct Mailbox {
    std::mutex mutex;
    std::deque<Letter> letters;
    std::mt19937 random{1};
    std::map<std::uint32_t, Clock::time_point> last;  // by sender, whose letters keep their order
  };
  struct Free {
    void operator()(std::byte* memory) const { ::operator delete (memory, std::align_val_t{64}); }
  };
  struct Reduction {
    std::vector<double> values;
    std::uint32_t came = 0;
  };

  std::byte* shared(std::uint32_t node, int index, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    auto& memory = memory_[{node, index}];
    if (memory == nullptr) {
      memory.reset(static_cast<std::byte*>(::operator new (bytes, std::align_val_t{64})));
      std::memset(memory.get(), 0xA5, bytes);
    }
    return memory.get();
  }
  void post(std::uint32_t to, Letter letter) {
    Mailbox& box = mail_[to];
    const std::lock_guard lock(box.mutex);
    auto& last = box.last[letter.from];
    const auto late = static_cast<std::uint32_t>(latest_.count()) + 1;
    last = std::max(last, Clock::now() + std::chrono::microseconds(box.random() % late));
    letter.arrives = last;
    box.letters.push_back(std::move(letter));
  }

  std::uint32_t ranks_;
  std::uint32_t per_node_;
  std::chrono::microseconds latest_;
  std::vector<std::uint32_t> nodes_;
  std::deque<Mailbox> mail_;
  std::atomic<std::uint64_t> at_barriers_{0};
  std::atomic<bool> failed_{false};
  std::mutex mutex_;  // guards the two members below
  std::map<std::pair<std::uint32_t, int>, std::unique_ptr<std::byte, Free>> memory_;
  std::map<int, Reduction> reductions_;
};

class ThreadNetwork final : public Network {
 public:
  ThreadNetwork(ThreadJob& job, std::uint32_t rank) : job_(job), rank_(rank) {}

  [[nodiscard]] std::uint32_t rank() const override { return rank_; }
  [[nodiscard]] std::uint32_t ranks() const override { return job_.ranks_; }
  [[nodiscard]] std::span<const std::uint32_t> nodes() const override { return job_.nodes_; }
  [[nodiscard]] bool threads() const override { return true; }
  Result<std::byte*> share(std::size_t bytes) override {
    return job_.shared(rank_ / job_.per_node_, shares_++, bytes);
  }
  Result<Ticket> send(std::uint32_t to, Tag tag, std::span<const std::byte> data,
                      bool matched) override {
    if (job_.failed_) return failure();
    auto read = std::make_shared<std::atomic<bool>>(!matched);
    job_.post(to, {rank_, tag, {data.begin(), data.end()}, {}, read});
    return open([read] { return read->load(); });
  }
  Result<Ticket> barrier() override {
    if (job_.failed_) return failure();
    const std::uint64_t all = ++barriers_ * job_.ranks_;
    ++job_.at_barriers_;
    return open([this, all] { return job_.at_barriers_ >= all; });
  }
  Result<bool> done(Ticket ticket) override {
    if (job_.failed_) return failure();
    Poll poll;
    {
      const std::lock_guard lock(mutex_);
      poll = polls_.at(ticket);
    }
    if (!poll()) return false;
    const std::lock_guard lock(mutex_);
    polls_.erase(ticket);
    return true;
  }
  Result<std::optional<Envelope>> probe(std::uint32_t from, Tag tag) override {
    if (job_.failed_) return failure();
    ThreadJob::Mailbox& box = job_.mail_[rank_];
    const std::lock_guard lock(box.mutex);
    const auto found = find(box, from, tag);
    if (found == box.letters.end()) return std::optional<Envelope>();
    return std::optional<Envelope>({found->from, tag, found->bytes.size()});
  }
  Status take(const Envelope& envelope, std::span<std::byte> data) override {
    ThreadJob::Mailbox& box = job_.mail_[rank_];
    const std::lock_guard lock(box.mutex);
    const auto found = find(box, envelope.from, envelope.tag);
    if (found == box.letters.end() || found->bytes.size() > data.size()) return {Code::mismatch};
    std::ranges::copy(found->bytes, data.begin());
    *found->read = true;
    box.letters.erase(found);
    return {};
  }
  Status sum(std::span<double> values) override {
    return reduce(values, [](double a, double b) { return a + b; });
  }
  Status maximum(std::span<double> values) override {
    return reduce(values, [](double a, double b) { return std::max(a, b); });
  }

 private:
  using Poll = std::function<bool()>;
  using Letters = std::deque<ThreadJob::Letter>;

  static Status failure() { return {Code::system}; }
  static Letters::iterator find(ThreadJob::Mailbox& box, std::uint32_t from, Tag tag) {
    return std::ranges::find_if(box.letters, [&](const ThreadJob::Letter& letter) {
      const bool wanted = letter.tag == tag && (from == kAnyone || letter.from == from);
      return wanted && letter.arrives <= ThreadJob::Clock::now();
    });
  }
  Ticket open(Poll poll) {
    const std::lock_guard lock(mutex_);
    polls_.emplace(++tickets_, std::move(poll));
    return tickets_;
  }
  template <class Operation>
  Status reduce(std::span<double> values, Operation operation) {
    const int index = reductions_++;
    {
      const std::lock_guard lock(job_.mutex_);
      auto& reduction = job_.reductions_[index];
      if (reduction.came++ == 0) {
        reduction.values.assign(values.begin(), values.end());
      } else {
        std::ranges::transform(reduction.values, values, reduction.values.begin(), operation);
      }
    }
    for (;;) {
      if (job_.failed_) return failure();
      std::this_thread::yield();
      const std::lock_guard lock(job_.mutex_);
      const auto& reduction = job_.reductions_[index];
      if (reduction.came < job_.ranks_) continue;
      std::ranges::copy(reduction.values, values.begin());
      return {};
    }
  }

  ThreadJob& job_;
  std::uint32_t rank_;
  std::mutex mutex_;  // guards the two members below
  std::map<Ticket, Poll> polls_;
  Ticket tickets_ = 0;
  int shares_ = 0;
  int reductions_ = 0;
  std::uint64_t barriers_ = 0;
};

inline std::unique_ptr<Network> ThreadJob::network(std::uint32_t rank) {
  return std::make_unique<ThreadNetwork>(*this, rank);
}

}  // namespace mh::tasks
