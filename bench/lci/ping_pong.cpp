// SPDX-License-Identifier: BSD-3-Clause
// Blocking ping-pong over LCI between two processes, each with TASKS light tasks on WORKERS
// workers. Every task plays with the task of the same number in the other process. Prints the round
// trips a second and the time of a round trip.
//
//   mh-lci-ping-pong PROVIDER TASKS ROUNDS [WORKERS [BYTES [DEVICES [WINDOW [CYCLES]]]]]
//
// PROVIDER: tcp or shm of libfabric, or node for shared memory. The tasks are divided among the
// devices (LCI's resources for communication); a further task for each device makes the device's
// progress. With a WINDOW above 1 a round has WINDOW nonblocking messages of rank 0 and one answer,
// and the program prints the messages a second. Each task computes for CYCLES clock cycles before a
// round. The program starts both processes. At the end rank 0 prints the counters of its first
// device, with the retries by reason.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "manyhands/lci.hpp"
#include "manyhands/ult.hpp"
#include "players.hpp"
#include "two_processes.hpp"

namespace {

namespace lci = mh::lci;
namespace ult = mh::ult;

struct Game {
  std::string provider;
  std::uint32_t tasks;
  int rounds;
  unsigned workers;
  std::size_t bytes;
  unsigned devices;
  std::size_t window;
  std::uint64_t cycles;
};

void report(const lci::Device& device) {
  const lci::Counters c = device.counters();
  std::printf("  sent %llu, received %llu, early %llu, deferred %llu; retries:",
              static_cast<unsigned long long>(c.eager_sent),
              static_cast<unsigned long long>(c.eager_received),
              static_cast<unsigned long long>(c.unexpected),
              static_cast<unsigned long long>(c.deferred));
  for (int i = 1; i < lci::kRetryReasons; ++i) {
    std::printf(" %s %llu%s", lci::describe(static_cast<lci::Retry>(i)),
                static_cast<unsigned long long>(c.retries[i]),
                i + 1 < lci::kRetryReasons ? "," : "\n");
  }
}

using Buffer = std::vector<std::byte>;

bool has_sent(lci::Communicator& all, std::uint32_t tag, const Buffer& ball) {
  return all.send(1 - all.rank(), tag, ball).ok();
}

bool has_received(lci::Communicator& all, std::uint32_t tag, Buffer& ball) {
  return all.receive(1 - all.rank(), tag, ball).ok();
}

// Moves the messages of a round: rank 0 starts a send for each synchronizer of `window`, rank 1 a
// receive. Then waits for all of them. Returns false if one failed.
bool window_moved(lci::Communicator& all, std::uint32_t tag, Buffer& balls,
                  std::vector<lci::Synchronizer>& window) {
  const std::size_t bytes = balls.size() / window.size();
  for (std::size_t i = 0; i < window.size(); ++i) {
    const auto ball = std::span(balls).subspan(i * bytes, bytes);
    const bool sends = all.rank() == 0;
    const mh::Status started = sends ? all.start_send(1, tag, ball, window[i])
                                     : all.start_receive(0, tag, ball, window[i]);
    if (!started.ok()) return false;
  }
  return std::all_of(window.begin(), window.end(),
                     [&](lci::Synchronizer& done) { return all.wait(done).ok(); });
}

void play(lci::Communicator& all, const Game& game, std::uint32_t tag) {
  Buffer ball(game.bytes);
  Buffer balls(game.window > 1 ? game.window * game.bytes : 0);
  std::vector<lci::Synchronizer> window(game.window > 1 ? game.window : 0);
  const bool first = all.rank() == 0;
  for (int round = 0; round < game.rounds; ++round) {
    compute(game.cycles);
    bool ok = true;
    if (game.window > 1) {
      ok = window_moved(all, tag, balls, window);
      ok = ok && (first ? has_received(all, tag, ball) : has_sent(all, tag, ball));
    } else {
      ok = first ? has_sent(all, tag, ball) && has_received(all, tag, ball)
                 : has_received(all, tag, ball) && has_sent(all, tag, ball);
    }
    if (!ok) std::abort();
  }
}

// Returns the configuration of the light tasks. With several workers, idle workers steal tasks.
// Otherwise a message for a task of a sleeping worker would have to wake that worker's thread. A
// worker that steals may hold tasks of other workers, so it has memory for twice as many tasks.
ult::Config workers_of(const Game& game) {
  const std::uint32_t share = game.tasks / game.workers + game.devices + 16;
  return {.workers = game.workers,
          .tasks_per_worker = std::max(game.workers > 1 ? 2 * share : share, 512U),
          .stack_bytes = std::size_t{32} * 1024,
          .guard_pages = game.tasks<10'000, .steal = game.workers> 1};
}

// Plays with all tasks of this process, divided among the workers. Returns when all tasks have
// ended. Must be called in a light task, since it joins the others.
void play_with_all(std::vector<lci::Communicator>& devices, const Game& game) {
  std::vector<ult::Task> shares;
  for (unsigned worker = 0; worker < game.workers; ++worker) {
    shares.push_back(std::move(*ult::spawn_on(worker, [&, worker] {
      ult::Group group;
      for (std::uint32_t tag = worker; tag < game.tasks; tag += game.workers) {
        group.spawn([&, tag] { play(devices[tag / game.workers % game.devices], game, tag); });
      }
      (void)group.wait();
    })));
  }
  for (ult::Task& task : shares) (void)task.join();
}

int run(std::vector<lci::Communicator>& devices, const Game& game) {
  auto scheduler = ult::Scheduler::start(workers_of(game));
  if (!scheduler.ok()) return 1;
  for (lci::Communicator& all : devices) {
    if (!all.barrier().ok()) return 1;
  }
  std::atomic<bool> stop{false};
  std::vector<ult::Task> servers;
  // A task that makes a device's progress is always ready, so its worker never sleeps. If each
  // worker of both processes has a core, such tasks are spread over the workers; otherwise all are
  // on worker 0.
  const bool has_cores = std::thread::hardware_concurrency() >= 2 * game.workers;
  for (unsigned i = 0; i < game.devices; ++i) {
    lci::Device& device = devices[i].device();
    servers.push_back(std::move(*scheduler->spawn_on(
        has_cores ? i % game.workers : 0, [&device, &stop] { lci::serve(device, stop); })));
  }
  const auto start = std::chrono::steady_clock::now();
  const auto ran = scheduler->run([&] { play_with_all(devices, game); });
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  stop = true;
  for (ult::Task& server : servers) (void)server.join();
  if (!ran.ok()) return 1;
  if (devices[0].rank() == 0) {
    std::printf("%s %7u tasks, %u workers, %u devices, %zu bytes: ", game.provider.c_str(),
                game.tasks, game.workers, game.devices, game.bytes);
    print_rate(static_cast<double>(game.tasks) * game.rounds / spent.count(), game.window);
    std::printf(", %8.3f us a round\n", 1e6 * spent.count() / game.rounds);
    report(devices[0].device());
  }
  return 0;
}

int live(int rank, const std::string& root, const Game& game) {
  auto job = lci::Job::join({.rank = rank, .size = 2, .root = root, .timeout_s = 20});
  if (!job.ok()) return 2;
  lci::DeviceConfig config;
  config.node = game.provider == "node";
  if (!config.node) config.provider = game.provider;
  config.expected_keys = std::max<std::size_t>(config.expected_keys, game.tasks);
  std::vector<lci::Device> devices;
  std::vector<lci::Communicator> communicators;
  devices.reserve(game.devices);  // communicators keep references to the devices
  for (unsigned i = 0; i < game.devices; ++i) {
    auto device = lci::Device::open(*job, config);
    if (!device.ok()) {
      std::fprintf(stderr, "no device: %s\n", mh::describe(device.status().code));
      return 3;
    }
    devices.push_back(std::move(*device));
    auto all = lci::Communicator::open(devices.back());
    if (!all.ok()) return 1;
    communicators.push_back(*all);
  }
  return run(communicators, game);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr,
                 "usage: mh-lci-ping-pong PROVIDER TASKS ROUNDS [WORKERS [BYTES [DEVICES [WINDOW "
                 "[CYCLES]]]]]\n");
    return 2;
  }
  const auto number = [&](int at, int otherwise) {
    return argc > at ? std::atoi(argv[at]) : otherwise;
  };
  const Game game{argv[1],
                  static_cast<std::uint32_t>(number(2, 1)),
                  number(3, 1),
                  static_cast<unsigned>(number(4, 1)),
                  static_cast<std::size_t>(number(5, 64)),
                  static_cast<unsigned>(number(6, 1)),
                  static_cast<std::size_t>(number(7, 1)),
                  static_cast<std::uint64_t>(number(8, 0))};
  return in_two_processes("mh-lci-ping-pong", [&](int rank, const std::string& root) {
    return live(rank, root, game);
  });
}
