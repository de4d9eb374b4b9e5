// SPDX-License-Identifier: BSD-3-Clause
// Programs of many tasks that send and receive by blocking calls, in one of three ways: light tasks
// over LCI, light tasks over MPI, threads over MPI. A build with MH_BLOCKING_MPI has all three, any
// other build has LCI alone. Light tasks over MPI need Manyhands (mh run), under which a task that
// waits in MPI gives its worker away.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "manyhands/lci.hpp"
#include "manyhands/ult.hpp"
#if MH_BLOCKING_MPI
#include <mpi.h>
#endif

namespace blocking {

[[noreturn]] inline void fail(const char* what) {
  std::fprintf(stderr, "%s\n", what);
  std::exit(1);
}

template <class T>
T must(mh::Result<T> result, const char* what) {
  if (!result) fail(what);
  return std::move(*result);
}

using Jobs = std::vector<std::function<void()>>;

// A way to run a rank's jobs and to exchange messages. Any job may send and receive.
class Way {
 public:
  Way() = default;
  Way(const Way&) = delete;
  Way& operator=(const Way&) = delete;
  virtual ~Way() = default;

  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  // Runs each job in a task or thread of its own. Returns when all jobs have ended.
  virtual void run(const Jobs& jobs) = 0;
  // Lets other jobs of the same worker run.
  virtual void yield() = 0;
  virtual void send(int to, std::uint32_t tag, std::span<const std::byte> data) = 0;
  // Returns the size of the message in bytes.
  virtual std::size_t receive(int from, std::uint32_t tag, std::span<std::byte> buffer) = 0;
  // sum(), total() and most() are collective: of each rank either one job or the main thread calls.
  virtual std::int64_t sum(std::int64_t mine) = 0;
  virtual double total(double mine) = 0;
  virtual std::int64_t most(std::int64_t mine) = 0;
};

inline void run_tasks(mh::ult::Scheduler& scheduler, const Jobs& jobs) {
  bool well = true;
  const mh::Status ran = scheduler.run([&] {
    mh::ult::Group group;
    for (const auto& job : jobs) group.spawn(job);
    well = group.wait().ok();
  });
  if (!ran || !well) fail("no memory for tasks");
}

class LciWay final : public Way {
 public:
  explicit LciWay(unsigned workers)
      : job_(must(mh::lci::Job::join(), "no job")),
        device_(must(mh::lci::Device::open(job_), "no network")),
        all_(must(mh::lci::Communicator::open(device_), "no communicator")),
        scheduler_(must(mh::ult::Scheduler::start({.workers = workers}), "no scheduler")) {}

  [[nodiscard]] int rank() const override { return all_.rank(); }
  [[nodiscard]] int size() const override { return all_.size(); }
  void yield() override { mh::ult::yield(); }
  void run(const Jobs& jobs) override {
    std::atomic<bool> stop{false};  // partner: serve(), which ends; publishes nothing else
    auto server = scheduler_.spawn([&] { mh::lci::serve(device_, stop); });
    run_tasks(scheduler_, jobs);
    stop = true;
    if (!server || !server->join()) fail("no memory for the server");
  }
  void send(int to, std::uint32_t tag, std::span<const std::byte> data) override {
    if (!all_.send(to, tag, data)) fail("a rank has died");
  }
  std::size_t receive(int from, std::uint32_t tag, std::span<std::byte> buffer) override {
    return must(all_.receive(from, tag, buffer), "a rank has died");
  }
  std::int64_t sum(std::int64_t mine) override {
    if (!all_.all_reduce(std::span(&mine, 1), std::plus<std::int64_t>{})) fail("a rank has died");
    return mine;
  }
  double total(double mine) override {
    if (!all_.all_reduce(std::span(&mine, 1), std::plus<double>{})) fail("a rank has died");
    return mine;
  }
  std::int64_t most(std::int64_t mine) override {
    const auto larger = [](std::int64_t a, std::int64_t b) { return std::max(a, b); };
    if (!all_.all_reduce(std::span(&mine, 1), larger)) fail("a rank has died");
    return mine;
  }

 private:
  mh::lci::Job job_;
  mh::lci::Device device_;
  mh::lci::Communicator all_;
  mh::ult::Scheduler scheduler_;
};

#if MH_BLOCKING_MPI
// Light tasks on `workers` workers, or a thread for each job (no workers).
class MpiWay final : public Way {
 public:
  explicit MpiWay(unsigned workers) {
    int provided = MPI_THREAD_SINGLE;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
    if (provided != MPI_THREAD_MULTIPLE) fail("no MPI_THREAD_MULTIPLE");
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    if (workers != 0) {
      scheduler_.emplace(must(mh::ult::Scheduler::start({.workers = workers}), "no scheduler"));
    }
  }
  ~MpiWay() override {
    scheduler_.reset();
    MPI_Finalize();
  }

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  void yield() override {
    if (scheduler_) mh::ult::yield();
  }
  void run(const Jobs& jobs) override {
    if (scheduler_) return run_tasks(*scheduler_, jobs);
    std::vector<std::thread> threads;
    for (const auto& job : jobs) threads.emplace_back(job);
    for (std::thread& thread : threads) thread.join();
  }
  void send(int to, std::uint32_t tag, std::span<const std::byte> data) override {
    MPI_Send(data.data(), static_cast<int>(data.size()), MPI_BYTE, to, static_cast<int>(tag),
             MPI_COMM_WORLD);
  }
  std::size_t receive(int from, std::uint32_t tag, std::span<std::byte> buffer) override {
    MPI_Status status;
    MPI_Recv(buffer.data(), static_cast<int>(buffer.size()), MPI_BYTE, from, static_cast<int>(tag),
             MPI_COMM_WORLD, &status);
    int bytes = 0;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    return static_cast<std::size_t>(bytes);
  }
  std::int64_t sum(std::int64_t mine) override {
    MPI_Allreduce(MPI_IN_PLACE, &mine, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    return mine;
  }
  double total(double mine) override {
    MPI_Allreduce(MPI_IN_PLACE, &mine, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return mine;
  }
  std::int64_t most(std::int64_t mine) override {
    MPI_Allreduce(MPI_IN_PLACE, &mine, 1, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
    return mine;
  }

 private:
  std::optional<mh::ult::Scheduler> scheduler_;
  int rank_ = 0;
  int size_ = 1;
};
#endif

// Returns the way with this name: lci, mpi-tasks or mpi-threads. nullptr: this build lacks it.
inline std::unique_ptr<Way> open_way(const std::string& name, unsigned workers) {
  if (name == "lci") return std::make_unique<LciWay>(workers);
#if MH_BLOCKING_MPI
  if (name == "mpi-tasks") return std::make_unique<MpiWay>(workers);
  if (name == "mpi-threads") return std::make_unique<MpiWay>(0);
#endif
  return nullptr;
}

}  // namespace blocking
