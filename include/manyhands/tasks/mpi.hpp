// SPDX-License-Identifier: BSD-3-Clause
// Task collections over an MPI communicator. The whole implementation over MPI is in this header,
// because an application's MPI is known only when the application is compiled.
//
// MPI_COMM_TYPE_SHARED finds the ranks of a node, which share a window. All messages travel in a
// communicator of the collection's own. MPI-3 is enough.
//
// Threads: the thread that is in a call of the collection calls MPI. With Config::server one more
// thread calls MPI, and MPI must have been started with MPI_THREAD_MULTIPLE.
#pragma once

#include <mpi.h>

#include <climits>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "manyhands/tasks/collection.hpp"

namespace mh::tasks {

// A Network over a communicator (network.hpp). The communicators of the network return errors
// (MPI_ERRORS_RETURN), and each error becomes `system`.
class MpiNetwork final : public Network {
 public:
  // Makes the network of the ranks of `comm`, of which the network keeps a copy of its own.
  // Collective over `comm`. `misuse`: MPI is not running; `system`: an MPI call has failed.
  static Result<std::unique_ptr<Network>> over(MPI_Comm comm) {
    int begun = 0;
    int ended = 0;
    if (MPI_Initialized(&begun) != MPI_SUCCESS || begun == 0) return Status{Code::misuse};
    if (MPI_Finalized(&ended) != MPI_SUCCESS || ended != 0) return Status{Code::misuse};
    auto network = std::make_unique<MpiNetwork>();
    if (const Status status = network->open(comm); !status) return status;
    return std::unique_ptr<Network>(std::move(network));
  }

  MpiNetwork() = default;
  // Frees the windows and communicators. Collective, unless MPI has ended or abandon() was called:
  // then the destructor frees nothing.
  ~MpiNetwork() override {
    int ended = 0;
    if (MPI_Finalized(&ended) != MPI_SUCCESS || ended != 0 || abandoned_) return;
    for (MPI_Win& window : windows_) MPI_Win_free(&window);
    if (node_ != MPI_COMM_NULL) MPI_Comm_free(&node_);
    if (comm_ != MPI_COMM_NULL) MPI_Comm_free(&comm_);
  }

  void abandon() override { abandoned_ = true; }

  [[nodiscard]] std::uint32_t rank() const override { return rank_; }
  [[nodiscard]] std::uint32_t ranks() const override { return ranks_; }
  [[nodiscard]] std::span<const std::uint32_t> nodes() const override { return nodes_; }
  [[nodiscard]] bool threads() const override {
    int level = MPI_THREAD_SINGLE;
    return MPI_Query_thread(&level) == MPI_SUCCESS && level == MPI_THREAD_MULTIPLE;
  }

  Result<std::byte*> share(std::size_t bytes) override {
    int local_rank = 0;
    if (const Status status = check(MPI_Comm_rank(node_, &local_rank)); !status) return status;
    // Memory that begins at a cache line is needed. MPI libraries begin a window anywhere in a
    // page, at the same offset on all ranks. The first rank therefore allocates a cache line more,
    // and all ranks begin at the same line.
    const MPI_Aint own = local_rank == 0 ? static_cast<MPI_Aint>(bytes + kLine) : 0;
    void* memory = nullptr;
    MPI_Win window = MPI_WIN_NULL;
    const Status made =
        check(MPI_Win_allocate_shared(own, 1, MPI_INFO_NULL, node_, &memory, &window));
    if (!made) return made;
    windows_.push_back(window);
    MPI_Aint size = 0;
    int unit = 0;
    const Status found = check(MPI_Win_shared_query(window, 0, &size, &unit, &memory));
    if (!found) return found;
    auto* const first = static_cast<std::byte*>(memory);
    return first + (kLine - reinterpret_cast<std::uintptr_t>(first) % kLine) % kLine;
  }

  Result<Ticket> send(std::uint32_t to, Tag tag, std::span<const std::byte> data,
                      bool matched) override {
    if (data.size() > INT_MAX) return Status{Code::unsupported};
    const auto begin = matched ? MPI_Issend : MPI_Isend;
    return ticket([&](MPI_Request* request) {
      return begin(data.data(), static_cast<int>(data.size()), MPI_BYTE, static_cast<int>(to),
                   static_cast<int>(tag), comm_, request);
    });
  }
  Result<Ticket> barrier() override {
    return ticket([&](MPI_Request* request) { return MPI_Ibarrier(comm_, request); });
  }

  Result<bool> done(Ticket ticket) override {
    int flag = 0;
    const Status tested = check(MPI_Test(&request(ticket), &flag, MPI_STATUS_IGNORE));
    if (!tested) return tested;
    if (flag == 0) return false;
    const std::lock_guard lock(mutex_);
    free_.push_back(ticket);
    return true;
  }

  Result<std::optional<Envelope>> probe(std::uint32_t from, Tag tag) override {
    const int source = from == kAnyone ? MPI_ANY_SOURCE : static_cast<int>(from);
    int flag = 0;
    int count = 0;
    MPI_Status status;
    const Status probed = check(MPI_Iprobe(source, static_cast<int>(tag), comm_, &flag, &status));
    if (!probed) return probed;
    if (flag == 0) return std::optional<Envelope>();
    if (const Status got = check(MPI_Get_count(&status, MPI_BYTE, &count)); !got) return got;
    return std::optional<Envelope>(
        {static_cast<std::uint32_t>(status.MPI_SOURCE), tag, static_cast<std::size_t>(count)});
  }
  Status take(const Envelope& envelope, std::span<std::byte> data) override {
    return check(MPI_Recv(data.data(), static_cast<int>(envelope.bytes), MPI_BYTE,
                          static_cast<int>(envelope.from), static_cast<int>(envelope.tag), comm_,
                          MPI_STATUS_IGNORE));
  }

  Status sum(std::span<double> values) override { return reduce(values, MPI_SUM); }
  Status maximum(std::span<double> values) override { return reduce(values, MPI_MAX); }

 private:
  static constexpr std::size_t kLine = 64;  // bytes of a cache line

  static Status check(int code) { return code == MPI_SUCCESS ? Status{} : Status{Code::system}; }
  static Status return_errors(MPI_Comm comm) {
    return check(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
  }

  // Makes the network's two communicators, comm_ of all ranks and node_ of the ranks of this node.
  // In comm_ the ranks of a node have consecutive numbers, and the nodes have the order of their
  // first ranks in `comm`.
  Status open(MPI_Comm comm) {
    MPI_Comm base = MPI_COMM_NULL;
    if (const Status status = check(MPI_Comm_dup(comm, &base)); !status) return status;
    Status status = return_errors(base);
    if (status.ok()) status = find_nodes(base);
    MPI_Comm_free(&base);
    if (status.ok()) status = return_errors(comm_);
    if (status.ok()) status = return_errors(node_);
    return status;
  }
  Status find_nodes(MPI_Comm base) {
    int rank = 0;
    int ranks = 0;
    Status status = check(MPI_Comm_rank(base, &rank));
    if (status.ok()) status = check(MPI_Comm_size(base, &ranks));
    const int type = MPI_COMM_TYPE_SHARED;
    if (status.ok()) status = check(MPI_Comm_split_type(base, type, 0, MPI_INFO_NULL, &node_));
    int first = rank;
    if (status.ok()) status = check(MPI_Bcast(&first, 1, MPI_INT, 0, node_));
    std::vector<int> firsts(static_cast<std::size_t>(ranks));
    if (status.ok()) {
      status = check(MPI_Allgather(&first, 1, MPI_INT, firsts.data(), 1, MPI_INT, base));
    }
    if (!status) return status;
    rank_ = place(firsts, rank);
    ranks_ = static_cast<std::uint32_t>(ranks);
    return check(MPI_Comm_split(base, 0, static_cast<int>(rank_), &comm_));
  }
  // Returns the number of this rank in comm_, and fills nodes_ with the number in comm_ of the
  // first rank of each node. `firsts`: for each rank of the program's communicator, the first rank
  // of its node.
  std::uint32_t place(const std::vector<int>& firsts, int rank) {
    const int own = firsts[static_cast<std::size_t>(rank)];
    std::vector<std::uint32_t> counts(firsts.size());
    std::uint32_t before = 0;
    for (std::size_t other = 0; other < firsts.size(); ++other) {
      ++counts[static_cast<std::size_t>(firsts[other])];
      const bool same = firsts[other] == own;
      if (firsts[other] < own || (same && static_cast<int>(other) < rank)) ++before;
    }
    std::uint32_t next = 0;
    for (const std::uint32_t count : counts) {
      if (count != 0) nodes_.push_back(next);
      next += count;
    }
    return before;
  }

  Status reduce(std::span<double> values, MPI_Op operation) {
    return check(MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()),
                               MPI_DOUBLE, operation, comm_));
  }

  template <class Begin>
  Result<Ticket> ticket(Begin begin) {
    const Ticket ticket = free_ticket();
    const Status begun = check(begin(&request(ticket)));
    return begun ? Result<Ticket>(ticket) : Result<Ticket>(begun);
  }
  Ticket free_ticket() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) {
      requests_.push_back(MPI_REQUEST_NULL);
      return static_cast<Ticket>(requests_.size() - 1);
    }
    const Ticket ticket = free_.back();
    free_.pop_back();
    return ticket;
  }
  MPI_Request& request(Ticket ticket) {
    const std::lock_guard lock(mutex_);
    return requests_[static_cast<std::size_t>(ticket)];
  }

  MPI_Comm comm_ = MPI_COMM_NULL;  // all ranks, numbered node by node
  MPI_Comm node_ = MPI_COMM_NULL;  // the ranks of this node
  std::uint32_t rank_ = 0;
  std::uint32_t ranks_ = 1;
  std::vector<std::uint32_t> nodes_;
  std::vector<MPI_Win> windows_;
  bool abandoned_ = false;
  std::mutex mutex_;                  // guards requests_ and free_, but not the requests in them
  std::deque<MPI_Request> requests_;  // by ticket; elements keep their addresses
  std::vector<Ticket> free_;
};

// Makes a collection over MPI. Collective over `comm`, which stays the caller's. Failures are those
// of MpiNetwork::over() and Collection::create().
inline Result<Collection> create(MPI_Comm comm, const Config& config) {
  auto network = MpiNetwork::over(comm);
  if (!network) return network.status();
  return Collection::create(std::move(*network), config);
}

}  // namespace mh::tasks
