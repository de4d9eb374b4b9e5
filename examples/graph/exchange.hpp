// SPDX-License-Identifier: BSD-3-Clause
// A round of communication of a graph program: gather, exchange, scatter. Before round(), the
// caller has gathered a buffer for every other rank. Each received buffer is passed to `scatter` in
// the order of arrival, whole or in pieces that are cut at multiples of kGrain bytes. Back ends:
// lci_exchange.hpp, mpi_exchange.hpp.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace graph {

using Buffer = std::vector<std::byte>;
inline constexpr std::size_t kGrain = 64;
using Scatter = std::function<void(int from, std::span<const std::byte> data)>;

class Exchange {
 public:
  Exchange() = default;
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;
  virtual ~Exchange() = default;

  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  // Collective; called before the first round. `most_to` has, for each destination rank, the most
  // bytes that this rank ever sends to it in a round.
  virtual void prepare(const std::vector<std::size_t>& most_to) = 0;
  [[nodiscard]] virtual std::int64_t sum(std::int64_t mine) = 0;
  [[nodiscard]] virtual std::int64_t most(std::int64_t mine) = 0;
  // Collective. Returns the argument `mine` of every rank, in the order of ranks. It may be slow,
  // and must not be called while a round is measured.
  [[nodiscard]] virtual std::vector<std::string> all(const std::string& mine) = 0;
  // Returns the peak of the bytes that the back end has used for messages. The caller's buffers do
  // not count.
  [[nodiscard]] virtual std::size_t memory() const = 0;

  // Makes the ranks synchronize before each later round. The time of a round then excludes waiting
  // for ranks that still compute; it never includes the synchronization itself.
  void begin_together() { together_ = true; }

  void round(const std::vector<Buffer>& out, const Scatter& scatter) {
    if (together_) (void)sum(0);
    const auto start = std::chrono::steady_clock::now();
    exchange(out, scatter);
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    seconds_.push_back(spent.count());
    for (const Buffer& data : out) bytes_ += data.size();
  }
  // Returns the seconds of each round that has ended since forget_rounds(). They include scattering
  // and waiting for peers.
  [[nodiscard]] const std::vector<double>& seconds() const { return seconds_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }  // sent by this rank in these rounds
  // Leaves the rounds up to now out of seconds() and bytes().
  void forget_rounds() {
    seconds_.clear();
    bytes_ = 0;
  }

 protected:
  virtual void exchange(const std::vector<Buffer>& out, const Scatter& scatter) = 0;

 private:
  bool together_ = false;
  std::vector<double> seconds_;
  std::size_t bytes_ = 0;
};

}  // namespace graph
