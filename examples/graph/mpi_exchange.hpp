// SPDX-License-Identifier: BSD-3-Clause
// Rounds of an exchange (exchange.hpp) over MPI, in two ways: probes for messages of unknown size,
// and puts into windows with space for the largest messages. The dissertation on LCI compares graph
// frameworks that use these ways (section 3.2).
#pragma once

#include <mpi.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "exchange.hpp"

namespace graph {

class MpiExchange : public Exchange {
 public:
  MpiExchange() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }
  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  std::int64_t sum(std::int64_t mine) override {
    MPI_Allreduce(MPI_IN_PLACE, &mine, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    return mine;
  }
  std::int64_t most(std::int64_t mine) override {
    MPI_Allreduce(MPI_IN_PLACE, &mine, 1, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
    return mine;
  }
  std::vector<std::string> all(const std::string& mine) override {
    constexpr std::size_t kLongest = 256;
    std::vector<char> text(kLongest * static_cast<std::size_t>(size_), '\0');
    char* const own = text.data() + kLongest * static_cast<std::size_t>(rank_);
    mine.copy(own, kLongest - 1);
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, text.data(), kLongest, MPI_CHAR,
                  MPI_COMM_WORLD);
    std::vector<std::string> each;
    for (std::size_t at = 0; at < text.size(); at += kLongest) each.emplace_back(text.data() + at);
    return each;
  }
  [[nodiscard]] std::size_t memory() const override { return memory_; }

 protected:
  std::size_t memory_ = 0;

 private:
  int rank_ = 0;
  int size_ = 1;
};

class ProbeExchange final : public MpiExchange {
 public:
  void prepare(const std::vector<std::size_t>& /*most_to*/) override {}

 private:
  void exchange(const std::vector<Buffer>& out, const Scatter& scatter) override {
    const int tag = round_++ % 16384;
    std::vector<MPI_Request> requests;
    for (int step = 1; step < size(); ++step) {
      const int to = (rank() + step) % size();
      const Buffer& data = out[static_cast<std::size_t>(to)];
      MPI_Isend(data.data(), static_cast<int>(data.size()), MPI_BYTE, to, tag, MPI_COMM_WORLD,
                &requests.emplace_back());
    }
    for (int missing = size() - 1; missing > 0;) {
      int there = 0;
      MPI_Status status;
      MPI_Iprobe(MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &there, &status);
      if (there == 0) continue;
      int bytes = 0;
      MPI_Get_count(&status, MPI_BYTE, &bytes);
      Buffer data(static_cast<std::size_t>(bytes));
      memory_ = std::max(memory_, data.size());
      MPI_Recv(data.data(), bytes, MPI_BYTE, status.MPI_SOURCE, tag, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
      scatter(status.MPI_SOURCE, data);
      --missing;
    }
    MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
  }

  int round_ = 0;
};

// The back end `rma`: rounds of puts. A rank's window has a place for each sender, with the size of
// the sender's data and then the data.
class RmaExchange final : public MpiExchange {
 public:
  ~RmaExchange() override { free_window(); }

  void prepare(const std::vector<std::size_t>& most_to) override {
    free_window();
    std::vector<std::uint64_t> send(most_to.begin(), most_to.end());
    std::vector<std::uint64_t> most(send.size());
    MPI_Alltoall(send.data(), 1, MPI_UINT64_T, most.data(), 1, MPI_UINT64_T, MPI_COMM_WORLD);
    places_.assign(1, 0);
    for (const std::uint64_t bytes : most) {
      places_.push_back(places_.back() + sizeof(std::uint64_t) + (bytes + 7) / 8 * 8);
    }
    // Not MPI_Win_allocate(): with three ranks of MPICH 4.0.2, puts into its windows write to wrong
    // places.
    base_.resize(places_.back());
    memory_ = std::max(memory_, base_.size());
    MPI_Win_create(base_.data(), static_cast<MPI_Aint>(base_.size()), 1, MPI_INFO_NULL,
                   MPI_COMM_WORLD, &window_);
    there_.resize(most.size());
    MPI_Alltoall(places_.data(), 1, MPI_UINT64_T, there_.data(), 1, MPI_UINT64_T, MPI_COMM_WORLD);
    MPI_Group all = MPI_GROUP_NULL;
    const int self = rank();
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_excl(all, 1, &self, &others_);
    MPI_Group_free(&all);
  }

 private:
  void free_window() {
    if (window_ == MPI_WIN_NULL) return;
    MPI_Win_free(&window_);
    MPI_Group_free(&others_);
  }

  void exchange(const std::vector<Buffer>& out, const Scatter& scatter) override {
    MPI_Win_post(others_, 0, window_);
    MPI_Win_start(others_, 0, window_);
    staged_.resize(out.size());
    std::size_t staged = 0;
    for (int step = 1; step < size(); ++step) {
      const int to = (rank() + step) % size();
      const auto i = static_cast<std::size_t>(to);
      const std::uint64_t bytes = out[i].size();
      staged_[i].resize(sizeof bytes);
      std::memcpy(staged_[i].data(), &bytes, sizeof bytes);
      staged_[i].insert(staged_[i].end(), out[i].begin(), out[i].end());
      staged += staged_[i].size();
      const auto count = static_cast<int>(staged_[i].size());
      MPI_Put(staged_[i].data(), count, MPI_BYTE, to, static_cast<MPI_Aint>(there_[i]), count,
              MPI_BYTE, window_);
    }
    memory_ = std::max(memory_, base_.size() + staged);
    MPI_Win_complete(window_);
    MPI_Win_wait(window_);
    for (int from = 0; from < size(); ++from) {
      if (from == rank()) continue;
      const std::byte* place = base_.data() + places_[static_cast<std::size_t>(from)];
      std::uint64_t bytes = 0;
      std::memcpy(&bytes, place, sizeof bytes);
      scatter(from, {place + sizeof bytes, bytes});
    }
  }

  std::vector<std::uint64_t> places_;  // offset of each sender's data in this rank's window
  std::vector<std::uint64_t> there_;   // offset of this rank's data in each rank's window
  std::vector<Buffer> staged_;         // size and data, the origin buffers of the puts
  Buffer base_;                        // memory of the window
  MPI_Win window_ = MPI_WIN_NULL;
  MPI_Group others_ = MPI_GROUP_NULL;
};

}  // namespace graph
