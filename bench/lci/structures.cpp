// SPDX-License-Identifier: BSD-3-Clause
// The data structures of LCI beside those of other libraries, in turns within one run: a round of
// each, round after round. A line of the output has the medians of one structure: nanoseconds for
// an operation, with one thread and with two.
//
//   table   insert the keys of a batch, then delete them, as receives and their messages do.
//           A batch has 1024 keys. Peers: TBB's concurrent_hash_map, libcuckoo's cuckoohash_map
//           (where installed).
//   crowded the same with 4 keys for each bucket of LCI's table, although a bucket holds 3 entries;
//           the table is at its limit and does not grow. Two threads have half of the keys each.
//           The peers have room for all keys.
//   pool    take 32 packets, give them back. Peers: Boost.Lockfree's stack, malloc and free.
//   queue   push 32, pop 32, by each thread. Peers: Boost.Lockfree's queue, TBB's bounded queue,
//           and the least that a ring with fetch-and-add can cost (TicketRing).
//   hand-over  the first thread pushes and the second pops, as the thread that makes progress and
//           the consumer of its completions do; two threads only.
//
// The program only prints times, and compares none with a bound. `mh-lci-structures [ROUNDS]`
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <boost/lockfree/queue.hpp>
#include <boost/lockfree/stack.hpp>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "lci/matching_table.hpp"
#include "lci/packet_pool.hpp"
#include "lci/ring.hpp"
#if MH_BENCH_TBB
#include <tbb/concurrent_hash_map.h>
#include <tbb/concurrent_queue.h>
#endif
#if MH_BENCH_CUCKOO
#include <libcuckoo/cuckoohash_map.hh>
#endif

namespace {

using mh::lci::MatchingTable;
using mh::lci::MatchNode;
using mh::lci::PacketPool;
using mh::lci::Ring;
using mh::lci::Side;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kTableKeys = std::size_t{1} << 16U;
constexpr std::size_t kBatch = 32;
constexpr std::size_t kPackets = 1024;
constexpr std::size_t kPacketBytes = 4096;

struct Times {
  double first = 0;   // ns: an insert; or a take and a give, or a push and a pop, together
  double second = 0;  // ns: a delete; else 0
};

// A measurement: runs what thread number `thread` of `threads` does in a round. Returns the mean
// time of an operation in ns.
using Work = std::function<Times(unsigned thread, unsigned threads)>;
struct Case {
  std::string name;
  Work work;
  std::vector<Times> one, two;
  bool needs_two = false;
};

double ns_since(Clock::time_point start, std::size_t operations) {
  const std::chrono::duration<double, std::nano> spent = Clock::now() - start;
  return spent.count() / static_cast<double>(operations);
}

// Returns the i-th key of a thread. Keys are like those of messages: a rank in the upper half, tags
// at equal distances in the lower half.
std::uint64_t key_of(unsigned thread, std::size_t i) {
  return std::uint64_t{thread + 1} << 32U | (i * 7 + thread);
}

// The number of keys in a batch: for each thread, or if `crowded` for all threads together. A
// crowded table thus has the same number of keys in each bucket with any number of threads.
struct Batch {
  std::size_t keys;
  bool crowded;
  [[nodiscard]] std::size_t of_thread(unsigned threads) const {
    return crowded ? keys / threads : keys;
  }
};

template <class Insert, class Erase>
Work table_work(Batch batch, Insert insert, Erase erase) {
  return [=](unsigned thread, unsigned threads) {
    const std::size_t keys = batch.of_thread(threads);
    const std::size_t repeats = std::max<std::size_t>(1, (std::size_t{1} << 15U) / keys);
    Times times;
    for (std::size_t repeat = 0; repeat < repeats; ++repeat) {
      const auto start = Clock::now();
      for (std::size_t i = 0; i < keys; ++i) insert(thread, i);
      const auto middle = Clock::now();
      times.first += ns_since(start, keys * repeats) - ns_since(middle, keys * repeats);
      for (std::size_t i = 0; i < keys; ++i) erase(thread, i);
      times.second += ns_since(middle, keys * repeats);
    }
    return times;
  };
}

void add_tables(std::vector<Case>& cases, const std::string& kind, Batch batch,
                const std::shared_ptr<MatchingTable>& ours) {
  const std::size_t keys = batch.keys;
  const auto nodes = std::make_shared<std::vector<MatchNode>>(2 * keys);
  cases.push_back({kind + " manyhands",
                   table_work(
                       batch,
                       [=](unsigned thread, std::size_t i) {
                         MatchNode* const receive = &(*nodes)[thread * keys + i];
                         // Tries again while `full`: the table has spare lines, but the other
                         // thread has locked the lane (the part of their pool) that holds them.
                         while (ours->access(key_of(thread, i), receive, Side::receive).full) {
                         }
                       },
                       [=](unsigned thread, std::size_t i) {
                         MatchNode message;
                         if (ours->access(key_of(thread, i), &message, Side::message).partner ==
                             nullptr) {
                           std::abort();
                         }
                       }),
                   {},
                   {}});
#if MH_BENCH_TBB
  using Tbb = tbb::concurrent_hash_map<std::uint64_t, MatchNode*>;
  const auto tbb_map = std::make_shared<Tbb>(kTableKeys);
  cases.push_back({kind + " tbb::concurrent_hash_map",
                   table_work(
                       batch,
                       [=](unsigned thread, std::size_t i) {
                         tbb_map->insert({key_of(thread, i), &(*nodes)[thread * keys + i]});
                       },
                       [=](unsigned thread, std::size_t i) {
                         if (!tbb_map->erase(key_of(thread, i))) std::abort();
                       }),
                   {},
                   {}});
#endif
#if MH_BENCH_CUCKOO
  using Cuckoo = libcuckoo::cuckoohash_map<std::uint64_t, MatchNode*>;
  const auto cuckoo = std::make_shared<Cuckoo>(kTableKeys);
  cases.push_back({kind + " libcuckoo",
                   table_work(
                       batch,
                       [=](unsigned thread, std::size_t i) {
                         cuckoo->insert(key_of(thread, i), &(*nodes)[thread * keys + i]);
                       },
                       [=](unsigned thread, std::size_t i) {
                         if (!cuckoo->erase(key_of(thread, i))) std::abort();
                       }),
                   {},
                   {}});
#endif
}  // NOLINT(clang-analyzer-cplusplus.NewDeleteLeaks): std::function frees what it owns

template <class Take, class Give>
Work pool_work(Take take, Give give) {
  return [=](unsigned /*thread*/, unsigned /*threads*/) {
    constexpr std::size_t kRepeats = 1024;
    Times times;
    void* held[kBatch];
    const auto start = Clock::now();
    for (std::size_t repeat = 0; repeat < kRepeats; ++repeat) {
      for (void*& packet : held) packet = take();
      for (void* packet : held) give(packet);
    }
    times.first = ns_since(start, kRepeats * kBatch);  // take and give together
    return times;
  };
}

void add_pools(std::vector<Case>& cases) {
  const auto memory = std::make_shared<std::vector<std::byte>>(kPackets * kPacketBytes);
  const auto ours = std::make_shared<PacketPool<std::byte>>(kPackets, 4);
  const auto stack =
      std::make_shared<boost::lockfree::stack<void*, boost::lockfree::capacity<kPackets>>>();
  for (std::size_t i = 0; i < kPackets; ++i) {
    ours->give(memory->data() + i * kPacketBytes);
    stack->push(memory->data() + i * kPacketBytes);
  }
  cases.push_back({"pool manyhands",
                   pool_work([=] { return static_cast<void*>(ours->take()); },
                             [=](void* packet) {
                               (void)memory;
                               ours->give(static_cast<std::byte*>(packet));
                             }),
                   {},
                   {}});
  cases.push_back({"pool boost::lockfree::stack",
                   pool_work(
                       [=] {
                         void* packet = nullptr;
                         stack->pop(packet);
                         return packet;
                       },
                       [=](void* packet) { stack->push(packet); }),
                   {},
                   {}});
  cases.push_back(
      {"pool malloc",
       pool_work([] { return std::malloc(kPacketBytes); }, [](void* packet) { std::free(packet); }),
       {},
       {}});
}

// A ring whose callers take a position by fetch-and-add and then wait for the cell at the position.
// The ring cannot answer that it is full or empty; a completion queue must be able to, and costs at
// least as much.
class TicketRing {
 public:
  bool push(void* value) {
    TicketCell& cell = cells_[tail_.fetch_add(1, std::memory_order_relaxed) % kPackets];
    while (cell.load(std::memory_order_acquire) != nullptr) {
    }
    cell.store(value, std::memory_order_release);
    return true;
  }
  bool pop(void*& value) {
    TicketCell& cell = cells_[head_.fetch_add(1, std::memory_order_relaxed) % kPackets];
    while ((value = cell.load(std::memory_order_acquire)) == nullptr) {
    }
    cell.store(nullptr, std::memory_order_release);
    return true;
  }

 private:
  struct alignas(mh::kCacheLine) TicketCell : std::atomic<void*> {};
  std::vector<TicketCell> cells_{kPackets};
  alignas(mh::kCacheLine) std::atomic<std::size_t> tail_{0};
  alignas(mh::kCacheLine) std::atomic<std::size_t> head_{0};
};

struct OurRing : Ring<void*> {
  OurRing() : Ring(kPackets) {}
};

using BoostQueue = boost::lockfree::queue<void*, boost::lockfree::capacity<kPackets>>;

#if MH_BENCH_TBB
class TbbQueue {
 public:
  TbbQueue() { queue_.set_capacity(kPackets); }
  bool push(void* value) { return queue_.try_push(value); }
  bool pop(void*& value) { return queue_.try_pop(value); }

 private:
  tbb::concurrent_bounded_queue<void*> queue_;
};
#endif

// Pushes to a queue, and tries again while the queue is full. The queue fills up when the kernel
// takes the core from the consuming thread in the middle of a pop.
template <class Queue>
void* push_to(Queue& queue) {
  static int something;
  while (!queue.push(&something)) {
  }
  return &something;
}

template <class Queue>
void pop_from(Queue& queue) {
  void* packet = nullptr;
  while (!queue.pop(packet)) {
  }
}

template <class Queue>
Work hand_over(const std::shared_ptr<Queue>& queue) {
  return [=](unsigned thread, unsigned /*threads*/) {
    constexpr std::size_t kItems = 32768;
    const auto start = Clock::now();
    for (std::size_t i = 0; i < kItems; ++i) {
      thread == 0 ? (void)push_to(*queue) : pop_from(*queue);
    }
    return Times{.first = ns_since(start, kItems)};
  };
}

// Adds two measurements of a queue to `cases`. In the first, each thread pushes kBatch times and
// then pops as often, so no pop waits for the other thread's push. In the second, one thread pushes
// and the other pops. The queue is empty before and after each.
template <class Queue>
void add_queue(std::vector<Case>& cases, const std::string& name) {
  const auto queue = std::make_shared<Queue>();
  const auto push = [=] { return push_to(*queue); };
  const auto pop = [=](void* /*packet*/) { pop_from(*queue); };
  cases.push_back({"queue " + name, pool_work(push, pop), {}, {}});
  cases.push_back({"hand-over " + name, hand_over(queue), {}, {}, true});
}  // NOLINT(clang-analyzer-cplusplus.NewDeleteLeaks): as above

void add_queues(std::vector<Case>& cases) {
  add_queue<OurRing>(cases, "manyhands");
  add_queue<TicketRing>(cases, "fetch-and-add alone");
  add_queue<BoostQueue>(cases, "boost::lockfree::queue");
#if MH_BENCH_TBB
  add_queue<TbbQueue>(cases, "tbb::concurrent_bounded_queue");
#endif
}

// Runs `work` in two threads that start together, each on its own core. Returns the times of the
// slower thread.
Times run_two(const Work& work) {
  std::atomic<int> ready{0};
  Times times[2];
  std::vector<std::thread> threads;
  for (unsigned thread = 0; thread < 2; ++thread) {
    threads.emplace_back([&, thread] {
      cpu_set_t core;
      CPU_ZERO(&core);
      CPU_SET(thread, &core);
      ::sched_setaffinity(0, sizeof core, &core);
      ++ready;
      while (ready.load() < 2) {
      }
      times[thread] = work(thread, 2);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return {std::max(times[0].first, times[1].first), std::max(times[0].second, times[1].second)};
}

// Returns the median of one member of `times`, or 0 if `times` is empty.
double median(const std::vector<Times>& times, double Times::*which) {
  if (times.empty()) return 0;
  std::vector<double> values;
  for (const Times& t : times) values.push_back(t.*which);
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 15;
  if (rounds < 1) {
    std::fprintf(stderr, "usage: mh-lci-structures [ROUNDS]\n");
    return 2;
  }
  std::vector<Case> cases;
  // Makes tables of 65,536 buckets, and of 1,024. The second may chain 1,023 spare lines. A table
  // grows by doubling, to at most twice as many buckets as spare lines: 2,046, less than 2 * 1,024.
  add_tables(cases, "table", {1024, false},
             std::make_shared<MatchingTable>(kTableKeys, std::size_t{1} << 20U));
  const auto full = std::make_shared<MatchingTable>(2047, 1023);
  add_tables(cases, "crowded", {4096, true}, full);
  add_pools(cases);
  add_queues(cases);
  for (int round = 0; round < rounds; ++round) {
    // An uncounted run: the first milliseconds after the threads of run_two() have ended are slow.
    (void)cases.front().work(0, 1);
    for (Case& c : cases) {
      if (!c.needs_two) c.one.push_back(c.work(0, 1));
    }
    for (Case& c : cases) c.two.push_back(run_two(c.work));
  }
  if (full->buckets() * 4 != 4096) {
    std::fprintf(stderr, "mh-lci-structures: the crowded table has %zu buckets\n", full->buckets());
    return 1;
  }
  std::printf("%-34s %15s %15s\n", "ns", "1 thread", "2 threads");
  for (const Case& c : cases) {
    std::printf("%-34s %6.1f + %6.1f %6.1f + %6.1f\n", c.name.c_str(), median(c.one, &Times::first),
                median(c.one, &Times::second), median(c.two, &Times::first),
                median(c.two, &Times::second));
  }
}
