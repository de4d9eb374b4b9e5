// SPDX-License-Identifier: BSD-3-Clause
// The cost of operations that happen at every message or loop, measured without messages: jobs,
// failed looks for work, loops offered to helpers, lent cores, and OpenMP regions. For comparison,
// a check for work costs 0.15 us and a contended steal 6.5 us in CAB-MPI (V-E).
//
// Most runs have one thread. In the threaded runs several threads claim chunks of one job, which is
// the worst case: in a program a copy follows every claim. Pin the process (taskset) and read the
// medians of --benchmark_repetitions. Precision: a few per cent.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "lend/lender.hpp"
#include "lend/pool.hpp"
#include "memory/reach.hpp"
#include "node/node.hpp"
#include "node/rank.hpp"
#include "openmp/region.hpp"
#include "openmp/sites.hpp"
#include "steal/job.hpp"
#include "steal/slots.hpp"

namespace {

using namespace mh;

constexpr std::uint32_t kChunk = 64U << 10U;

steal::CopySpec work_of(std::uint64_t bytes, std::uint32_t chunk) {
  return {.to = {}, .from = {}, .bytes = bytes, .chunk_bytes = chunk, .order = {}};
}

// The owner opens a job of N chunks and claims and finishes all of them. No thief claims.
void JobLife(benchmark::State& state) {
  steal::Job job;
  const auto work = work_of(static_cast<std::uint64_t>(state.range(0)) * kChunk, kChunk);
  steal::Chunk chunk{};
  for ([[maybe_unused]] auto turn : state) {
    job.open(work);
    while (job.claim(chunk)) job.finish(true);
    benchmark::DoNotOptimize(job.finished());
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(JobLife)->Arg(1)->Arg(2)->Arg(32)->Arg(128);

// A node segment of two ranks, in the private memory of this process. Each rank's area has the
// Lendings, the words by which helper threads are lent and returned.
class Pair {
 public:
  Pair() : memory_(node::Node::bytes_needed(2, sizeof(lend::Lendings))) {
    const std::span<std::byte> bytes(memory_.data(), memory_.size());
    static_cast<void>(node::Node::initialise(bytes, 2, sizeof(lend::Lendings), node::Topology{}));
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      nodes_.push_back(*node::Node::join(bytes, rank, 2, rank));
      new (nodes_[rank].area(rank)) lend::Lendings{};
    }
    for (node::Node& node : nodes_) node.settle();
  }
  [[nodiscard]] const node::Node& node(std::uint32_t rank) const { return nodes_[rank]; }
  [[nodiscard]] lend::Lendings& owners() const {
    return *reinterpret_cast<lend::Lendings*>(nodes_[0].area(0));
  }

 private:
  struct alignas(4096) Page {
    std::byte bytes[4096];
  };
  // Memory that is aligned to a page, as a node segment must be.
  struct Pages {
    explicit Pages(std::size_t bytes) : pages(bytes / sizeof(Page) + 1) {}
    std::byte* data() { return pages[0].bytes; }
    [[nodiscard]] std::size_t size() const { return pages.size() * sizeof(Page); }
    std::vector<Page> pages;
  };
  Pages memory_;
  std::vector<node::Node> nodes_;
};

class NoWork final : public lend::LendableWork {
 public:
  bool unit(std::uint32_t /*helper*/, std::uint64_t /*deadline*/) noexcept override { return true; }
};

// The owner offers a loop to helpers (expose), gets none, and withdraws the offer.
void ExposeAlone(benchmark::State& state) {
  const Pair pair;
  lend::Pool pool(pair.node(0), pair.owners(), 1);
  NoWork work;
  for ([[maybe_unused]] auto turn : state) {
    static_cast<void>(pool.expose(lend::WorkKind::loops, work, ~0ULL));
    pool.nothing_left(lend::WorkKind::loops);
    pool.withdraw(lend::WorkKind::loops);
  }
}
BENCHMARK(ExposeAlone);

// The owner executes a shared OpenMP region of two chunks that no helper joins. The region is open
// to helpers from its first chunk on, because the site (the region's place in the code) remembers
// iterations that take 8 us.
void RegionAlone(benchmark::State& state) {
  const Pair pair;
  lend::Pool pool(pair.node(0), pair.owners(), 1);
  openmp::SharedRegion region(pool);
  openmp::Site site;
  site.state = openmp::SiteState::shared;
  const auto body = [](void* data) {
    auto& its = *static_cast<openmp::SharedRegion*>(data);
    openmp::Participant& me = *openmp::current;
    its.open({.start = 0, .step = 1, .bound = 2, .count = 2},
             {.schedule = openmp::Schedule::dynamic, .chunk = 1}, false);
    while (!its.next(me).empty()) {
    }
  };
  for ([[maybe_unused]] auto turn : state) {
    site.ticks_per_iteration = static_cast<float>(8e3 * ticks_per_ns());
    region.enter(site, body, &region, 1);
    openmp::Participant me = region.member(0);
    openmp::current = &me;
    region.run_body();
    openmp::current = nullptr;
    region.account(me);
    region.leave();
  }
}
BENCHMARK(RegionAlone);

// A waiting rank lends its core to a helper, whose unit of work is empty, and gets the core back:
// two hand-overs between threads on one core.
void LendAndReturn(benchmark::State& state) {
  const Pair pair;
  lend::Pool pool(pair.node(0), pair.owners(), 1);
  lend::Lender lender(pair.node(1), 0, lend::VictimPolicy::most_work,
                      [](std::uint32_t, lend::WorkKind) { return true; });
  NoWork work;
  static_cast<void>(pool.expose(lend::WorkKind::loops, work, ~0ULL));
  while (lender.lend() != lend::LendResult::lent) {
  }
  for ([[maybe_unused]] auto turn : state) benchmark::DoNotOptimize(lender.lend());
  lender.take_back();
  pool.withdraw(lend::WorkKind::loops);
}
BENCHMARK(LendAndReturn)->UseRealTime();

// The overhead of an OpenMP region that is not shared. The library looks up the site (the region's
// place in the code) and times the region.
void RegionNotShared(benchmark::State& state) {
  static openmp::Sites sites;
  for ([[maybe_unused]] auto turn : state) {
    openmp::Site* site = sites.find(&sites);
    const openmp::Stopwatch stopwatch(site);
    benchmark::DoNotOptimize(site);
  }
}
BENCHMARK(RegionNotShared);

// A thief reads the count of a job that has no chunks left.
void EmptyLook(benchmark::State& state) {
  const steal::Job job;
  for ([[maybe_unused]] auto turn : state) benchmark::DoNotOptimize(job.has_work());
}
BENCHMARK(EmptyLook);

void EmptyClaim(benchmark::State& state) {
  steal::Job job;
  steal::Chunk chunk{};
  for ([[maybe_unused]] auto turn : state) benchmark::DoNotOptimize(job.claim(chunk));
}
BENCHMARK(EmptyClaim);

// Each thread claims a chunk and finishes it, while the other threads do the same with the same
// job. The job has more chunks than a run can claim.
void ContendedClaim(benchmark::State& state) {
  static std::unique_ptr<steal::Job> job;
  if (state.thread_index() == 0) {
    job = std::make_unique<steal::Job>();
    job->open(work_of((1ULL << 31U) - 1, 1));
  }
  steal::Chunk chunk{};
  for ([[maybe_unused]] auto turn : state) {
    if (!job->claim(chunk)) {
      state.SkipWithError("the job ran out of chunks");
      break;
    }
    job->finish(true);
  }
}
BENCHMARK(ContendedClaim)->ThreadRange(1, 4)->UseRealTime();

// The owner does what a receive does. It opens a job in one of its rank's job slots and announces
// it on the work board (a bit for each rank that has jobs). Then it claims the only chunk and
// closes the job.
void SlotLife(benchmark::State& state) {
  const auto slots = std::make_unique<steal::JobSlots>();
  const auto board = std::make_unique<node::WorkBoard>();
  steal::SlotKeeper keeper(*slots, {board.get(), 1}, 0);
  const auto work = work_of(kChunk, kChunk);
  steal::Chunk chunk{};
  for ([[maybe_unused]] auto turn : state) {
    steal::Job* job = keeper.open(work);
    while (job->claim(chunk)) job->finish(true);
    keeper.close(*job);
  }
}
BENCHMARK(SlotLife);

// An idle rank looks for work on a work board (a bit for each rank that has jobs) without work.
void BoardLook(benchmark::State& state) {
  node::WorkBoard board{};
  for ([[maybe_unused]] auto turn : state) {
    benchmark::DoNotOptimize(board.bits[0].load(std::memory_order_relaxed));
  }
}
BENCHMARK(BoardLook);

void ClockRead(benchmark::State& state) {
  for ([[maybe_unused]] auto turn : state) benchmark::DoNotOptimize(ticks());
}
BENCHMARK(ClockRead);

// A chunk is copied within the process. This is the least that a chunk can cost.
void OwnChunk(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const auto from = std::make_unique<std::byte[]>(bytes);
  const auto to = std::make_unique<std::byte[]>(bytes);
  const pid_t self = ::getpid();
  const memory::Reach reach;
  const memory::View source{reinterpret_cast<std::uint64_t>(from.get()), self, 0};
  const memory::View target{reinterpret_cast<std::uint64_t>(to.get()), self, 0};
  for ([[maybe_unused]] auto turn : state) {
    benchmark::DoNotOptimize(reach.copy(target, source, bytes, {}).ok());
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(OwnChunk)->Arg(16 << 10)->Arg(64 << 10)->Arg(256 << 10);

}  // namespace

BENCHMARK_MAIN();
