// SPDX-License-Identifier: BSD-3-Clause
// Runs task collections over a real MPI. Rank 0 prints the completed tasks, or the error.
//
//   collections every BALANCER [server]   tasks that add tasks, three iterations; with `server`,
//                                         each rank has a server thread (Config::server)
//   collections two                       tasks of one collection add to another
//   collections large                     tasks of 4,000 bytes, all on one rank
//   collections long                      long tasks, for a test that kills a rank
//   collections odd                       on a communicator with the ranks in reverse order
#include <mpi.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string_view>
#include <thread>

#include "manyhands/tasks.hpp"

namespace {

namespace tasks = mh::tasks;

struct Sums {
  std::uint64_t run = 0;
  std::uint64_t ids = 0;
  std::uint64_t wrong = 0;
};
struct Parent {
  std::uint32_t id;
  std::uint32_t generations;
};
struct Large {
  std::uint64_t id;
  std::array<std::uint64_t, 499> copies;
};
struct Local {
  Sums sums;
  tasks::Collection* collection = nullptr;
  tasks::Function<Parent> function;
};

int rank_of(MPI_Comm comm) {
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  return rank;
}
int ranks_of(MPI_Comm comm) {
  int ranks = 0;
  MPI_Comm_size(comm, &ranks);
  return ranks;
}

void spin(std::chrono::microseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
  }
}

void grow(tasks::Context& context, const Parent& parent) noexcept {
  auto& local = context.local<Local>();
  ++local.sums.run;
  local.sums.ids += parent.id;
  spin(std::chrono::microseconds(20));
  if (parent.generations == 0) return;
  for (std::uint32_t i = 0; i < 2; ++i) {
    const Parent child{2 * parent.id + i, parent.generations - 1};
    if (!local.collection->add(local.function, child)) ++local.sums.wrong;
  }
}

struct Totals {
  std::uint64_t run, ids, wrong, steals, far;
};
Totals totals(const Sums& sums, const tasks::Statistics& statistics) {
  std::array<std::uint64_t, 5> own{sums.run, sums.ids, sums.wrong, statistics.steals,
                                   statistics.far_steals};
  std::array<std::uint64_t, 5> all{};
  MPI_Allreduce(own.data(), all.data(), 5, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
  return {all[0], all[1], all[2], all[3], all[4]};
}

constexpr std::uint32_t kSeeds = 24;
constexpr std::uint32_t kGenerations = 5;

int every(MPI_Comm comm, std::string_view balancer, bool server) {
  Local local;
  tasks::Config config{.task_bytes = sizeof(Parent), .local = &local, .server = server};
  config.balancer = *tasks::balancer_of(balancer);
  auto made = tasks::create(comm, config);
  if (!made) return std::printf("no collection: %s\n", mh::describe(made.status().code));
  local.collection = &*made;
  local.function = *made->define<Parent>(grow);
  for (std::uint32_t id = 1; rank_of(comm) == 0 && id <= kSeeds; ++id) {
    if (!made->add(local.function, {id, kGenerations})) ++local.sums.wrong;
  }
  std::uint64_t steals = 0;
  std::uint64_t far = 0;
  for (int iteration = 0; iteration < 3; ++iteration) {
    if (!made->process()) ++local.sums.wrong;
    const Totals now = totals(local.sums, made->statistics());
    steals += now.steals;
    far += now.far;
    if (!made->restore()) ++local.sums.wrong;
  }
  const Totals all = totals(local.sums, {});
  if (rank_of(MPI_COMM_WORLD) != 0) return 0;
  return std::printf("run %lu ids %lu wrong %lu\nstolen %s\nbetween nodes %s\n", all.run, all.ids,
                     all.wrong, steals != 0 ? "yes" : "no", far != 0 ? "yes" : "no");
}

struct Both {
  Local first;
  Local second;
};
void pass_on(tasks::Context& context, const Parent& parent) noexcept {
  auto& both = context.local<Both>();
  ++both.first.sums.run;
  const Parent child{parent.id, 0};
  if (!both.second.collection->add(both.second.function, child)) ++both.first.sums.wrong;
}
int two() {
  Both both;
  const tasks::Config config{.balancer = tasks::Balancer::retain, .local = &both};
  const tasks::Config second_config{.balancer = tasks::Balancer::steal, .local = &both.second};
  auto first = tasks::create(MPI_COMM_WORLD, config);
  auto second = tasks::create(MPI_COMM_WORLD, second_config);
  both.second.collection = &*second;
  both.second.function = *second->define<Parent>(grow);
  const auto function = *first->define<Parent>(pass_on);
  for (std::uint32_t id = 1; id <= kSeeds; ++id) {
    if (!first->add(function, {id, 0})) ++both.first.sums.wrong;
  }
  if (!first->process() || !second->process()) ++both.first.sums.wrong;
  if (!first->restore() || !first->process()) ++both.first.sums.wrong;
  if (!second->process()) ++both.first.sums.wrong;
  const Totals one = totals(both.first.sums, {});
  const Totals other = totals(both.second.sums, {});
  if (rank_of(MPI_COMM_WORLD) != 0) return 0;
  return std::printf("run %lu and %lu ids %lu wrong %lu\n", one.run, other.run, other.ids,
                     one.wrong + other.wrong);
}

void check(tasks::Context& context, const Large& large) noexcept {
  auto& local = context.local<Local>();
  ++local.sums.run;
  local.sums.ids += large.id;
  for (const std::uint64_t copy : large.copies) local.sums.wrong += copy == large.id ? 0 : 1;
  spin(std::chrono::microseconds(200));
}
int large() {
  Local local;
  const tasks::Config config{.task_bytes = sizeof(Large), .max_tasks = 300, .local = &local};
  auto made = tasks::create(MPI_COMM_WORLD, config);
  const auto function = *made->define<Large>(check);
  for (std::uint64_t id = 1; rank_of(MPI_COMM_WORLD) == 0 && id <= 256; ++id) {
    const auto fill = [id](Large* task) {
      task->id = id;
      task->copies.fill(id);
    };
    if (!made->add_in_place(function, fill)) ++local.sums.wrong;
  }
  if (!made->process()) ++local.sums.wrong;
  const Totals all = totals(local.sums, made->statistics());
  if (rank_of(MPI_COMM_WORLD) != 0) return 0;
  return std::printf("run %lu ids %lu wrong %lu\nstolen %s\nbetween nodes %s\n", all.run, all.ids,
                     all.wrong, all.steals != 0 ? "yes" : "no", all.far != 0 ? "yes" : "no");
}

int long_tasks() {
  auto made = tasks::create(MPI_COMM_WORLD, {});
  const auto function = *made->define<Parent>([](tasks::Context&, const Parent&) noexcept {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  });
  for (std::uint32_t id = 0; id < 1000; ++id) {
    if (!made->add(function, {id, 0})) return 1;
  }
  const mh::Status status = made->process();
  return std::printf("%s\n", mh::describe(status.code));
}

int odd() {
  MPI_Comm reversed = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, 0, ranks_of(MPI_COMM_WORLD) - rank_of(MPI_COMM_WORLD), &reversed);
  const int said = every(reversed, "steal", false);
  MPI_Comm_free(&reversed);
  return said;
}

int run(int count, char** words) {
  const std::string_view what = count > 1 ? words[1] : "";
  if (what == "every" && count > 2) return every(MPI_COMM_WORLD, words[2], count > 3);
  if (what == "two") return two();
  if (what == "large") return large();
  if (what == "long") return long_tasks();
  if (what == "odd") return odd();
  return std::printf("no such test\n");
}

}  // namespace

int main(int count, char** words) {
  int level = MPI_THREAD_SINGLE;
  MPI_Init_thread(&count, &words, MPI_THREAD_MULTIPLE, &level);
  run(count, words);
  MPI_Finalize();
  return 0;
}
