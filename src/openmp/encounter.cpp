// SPDX-License-Identifier: BSD-3-Clause
#include "openmp/encounter.hpp"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "openmp/marker.hpp"
#include "openmp/names.hpp"
#include "openmp/reach.hpp"
#include "openmp/real.hpp"

namespace mh::openmp {

namespace {

constinit thread_local bool t_is_root = false;

// Whether the calling thread is in a region of the run time's. A thread that was once seen outside
// of all is none of the run time's own, and is in none but those it has met. Limit: not in one
// that it had entered before its calls came here.
bool nested() {
  if (depth != 0) return true;
  if (!t_is_root) [[unlikely]]
    t_is_root = real.level() == 0;
  return !t_is_root;
}

void run_by_team(const Encounter& met, Body body, void* data, unsigned threads) {
  ++depth;
  met.run_by_team(body, data, threads, met.how);
  --depth;
}

// GCC deals a static schedule out by the thread's number and the team's size.
bool is_static(const Participant& watched) {
  return watched.obstacle == Obstacle::thread_number && watched.loops == 0 && watched.asked_team;
}

// The region as the run time runs it, watched on this thread.
[[gnu::cold, gnu::noinline]] void watch(Site& site, const Encounter& met) {
  Participant me{.role = Participant::Role::watched, .site = &site};
  {
    const Stopwatch stopwatch(&site);
    const Taking taking(me);
    run_by_team(met, met.body, met.data, met.threads);
  }
  if (me.loops == 0) me.meets(Obstacle::no_loop);
  if (me.loops > 1) me.meets(Obstacle::several_loops);
  if (me.obstacle == Obstacle::none) me.meets(obstacle_within_reach(met.code));
  decide(site, is_static(me) ? Obstacle::no_loop : me.obstacle);
}

void run_own_part(Region& shared, std::uint32_t number) {
  Participant me = shared.member(number);
  {
    const Taking taking(me);
    shared.run_body();
  }
  if (me.number == 0) shared.account(me);
}

void run_part_of_team(void* region) {
  run_own_part(*static_cast<Region*>(region), static_cast<std::uint32_t>(real.thread_num()));
}

// The owner's side of a shared region: this thread, and its team if it has one.
void run_own_side(Region& region, const Encounter& met, unsigned threads) {
  if (threads > 1) {
    run_by_team(met, run_part_of_team, &region, threads);
  } else {
    run_own_part(region, 0);
  }
  region.leave();
}

// The team that a region of this thread gets without a clause, as the run time said last: asking
// takes LLVM's as long as a tenth of all that a shared loop costs. It is asked again once the
// program has said another number, and now and then in case it did so where we cannot see it.
struct UsualTeam {
  static constexpr std::uint32_t kAskEvery = 16;

  unsigned threads;
  std::uint32_t stands_for;  // further regions
};
constinit thread_local UsualTeam t_usual_team{};

unsigned team_now() {
  const int most = real.max_threads();
  return most > 1 ? static_cast<unsigned>(most) : 1;
}

// Outside of all regions: inside, each task has a number of its own.
unsigned usual_team() {
  if (t_usual_team.stands_for == 0) [[unlikely]] {
    t_usual_team = {.threads = team_now(), .stands_for = UsualTeam::kAskEvery};
  }
  --t_usual_team.stands_for;
  return t_usual_team.threads;
}

unsigned own_threads(unsigned wanted) { return wanted != 0 ? wanted : usual_team(); }

bool is_unseen(const Site& site) {
  return site.state.load(std::memory_order_relaxed) == Site::State::unseen;
}

// Before anything else is known of a region: whether the user wants it shared.
[[gnu::cold, gnu::noinline]] void look_up(Site& site, const Encounter& met) {
  site.source.store(met.source, std::memory_order_relaxed);
  if (lists.empty() || site.looked_up.load(std::memory_order_acquire)) return;
  if (!lists.admits(name_of(met.code, met.source))) decide(site, Obstacle::by_user);
  site.looked_up.store(true, std::memory_order_release);
}

// A region that need not be watched.
[[gnu::cold, gnu::noinline]] void look_into(Site& site, const Encounter& met) {
  const Obstacle found = obstacle_within_reach(met.code);
  if (found != Obstacle::none) decide(site, found);
}

// Null if there is no room for it.
Site* site_of(const Encounter& met) {
  Site* site = sites.find(met.code);
  if (site != nullptr && is_unseen(*site)) [[unlikely]]
    look_up(*site, met);
  return site;
}

// The site of a region that may be shared if it is of the kind. Null inside another region, and for
// a team of one that was asked for (num_threads(1), a false if clause).
Site* candidate(const Encounter& met) {
  if (current != nullptr || shared_region() == nullptr || whose != Whose::all) return nullptr;
  if (met.threads == 1 || nested()) return nullptr;
  return site_of(met);
}

struct WholeLoop {
  const Loop& loop;
  const Cut& own;
  bool in_order;
};

// Runs the region shared; `mark` and `whole` where it was marked, where it is the loop and nothing
// else. False if another thread is in the shared region. Inlined, and what runs once in a site
// apart: 5 ns of the start of a loop.
[[gnu::always_inline]] inline bool run_at(Site& site, const Encounter& met, unsigned own,
                                          const Mark* mark, const WholeLoop* whole) {
  Region& region = *shared_region();
  if (!region.enter(site, met.body, met.data, own)) return false;
  if (mark != nullptr) region.cuts_as(mark->own, mark->helpers);
  if (whole != nullptr) {
    region.begins_in_loop();
    region.open(whole->loop, whole->own, whole->in_order);
  }
  run_own_side(region, met, own);
  return true;
}

// Not done: the run time has to run it, by a team of one.
[[gnu::always_inline]] inline Outcome run_marked(const Encounter& met, const WholeLoop* whole) {
  if (current != nullptr || shared_region() == nullptr) return {.done = false};
  Site* site = site_of(met);
  if (site == nullptr || is_excluded(*site)) return {.done = false, .timed = site};
  const unsigned own = nested() ? team_now() : usual_team();
  return {.done = run_at(*site, met, own, &last_mark, whole)};
}

}  // namespace

Outcome run_shared(const Encounter& met) {
  if (met.threads == kMarkedTeam) return run_marked(met, nullptr);
  Site* site = candidate(met);
  if (site == nullptr || is_excluded(*site)) return {.done = false, .timed = site};
  if (is_unseen(*site)) {
    watch(*site, met);
    return {.done = true};
  }
  return {.done = run_at(*site, met, own_threads(met.threads), nullptr, nullptr)};
}

Outcome run_shared(const Encounter& met, const Loop& loop, const Cut& own_cut, bool in_order) {
  const WholeLoop whole{.loop = loop, .own = own_cut, .in_order = in_order};
  if (met.threads == kMarkedTeam) return run_marked(met, &whole);
  Site* site = candidate(met);
  if (site != nullptr && is_unseen(*site)) [[unlikely]]
    look_into(*site, met);
  if (site == nullptr || is_excluded(*site)) return {.done = false, .timed = site};
  // schedule(runtime) may be another the next time.
  if (own_cut.schedule == Schedule::unspecified) return {.done = false, .timed = site};
  return {.done = run_at(*site, met, own_threads(met.threads), nullptr, &whole)};
}

bool begin_shared(const Loop& loop, const Cut& own, bool in_order) {
  Participant& me = *current;
  const bool is_first = me.loops == 0;
  ++me.loops;
  if (me.role == Participant::Role::helper) return is_first;
  if (own.schedule == Schedule::unspecified && !me.marked) {
    note(Obstacle::no_loop);
    me.strays();
    return false;
  }
  if (!is_first) me.strays();
  if (!in_region() || !is_first) return false;
  shared_region()->open(loop, own, in_order);
  return true;
}

namespace {

// A marked region has a team of which helpers are members. Any other has the owner's, as it would
// have without us; a helper that asks although nobody did when the region was watched gets a number
// of its own. If it has asked for the team as well, it is about to take its share of a static loop:
// GCC computes that from the two, and the last thread of so large a team has none. Limit: of loops
// of less than a million iterations.
constexpr int kManyThreads = 1 << 20;

int thread_num() {
  note(Obstacle::thread_number);
  if (!in_region()) return real.thread_num();
  const bool takes_share = is_helper() && !current->marked && current->asked_team;
  return takes_share ? kManyThreads - 1 : static_cast<int>(current->number);
}

int num_threads() {
  note(Obstacle::thread_number);
  if (current != nullptr) current->asked_team = true;
  if (!in_region()) return real.num_threads();
  if (current->marked) return static_cast<int>(shared_region()->team());
  return is_helper() ? kManyThreads : static_cast<int>(shared_region()->own_threads());
}

// The run time does not know of a shared region that its owner runs alone, nor of helpers.
template <auto query>
int level() {
  note(Obstacle::thread_number);
  const int known = (real.*query)();
  return in_region() && known == 0 ? 1 : known;
}

// omp_set_num_threads(), in C and in Fortran.
template <auto call, class Number>
void set_num_threads(Number threads) {
  note(Obstacle::other_calls);
  t_usual_team = {};
  (real.*call)(threads);
}

int in_parallel() { return in_region() ? 1 : real.in_parallel(); }

}  // namespace

void add_queries(std::vector<Binding>& table) {
  // Fortran's names are further names of the same functions.
  for (const char* ending : {"", "_"}) {
    add(table, std::string("omp_get_thread_num") + ending, thread_num, real.thread_num);
    add(table, std::string("omp_get_num_threads") + ending, num_threads, real.num_threads);
    add(table, std::string("omp_in_parallel") + ending, in_parallel, real.in_parallel);
    add(table, std::string("omp_get_level") + ending, level<&Real::level>, real.level);
    add(table, std::string("omp_get_active_level") + ending, level<&Real::active_level>,
        real.active_level);
  }
  add(table, "omp_set_num_threads", set_num_threads<&Real::set_num_threads>, real.set_num_threads);
  add(table, "omp_set_num_threads_", set_num_threads<&Real::set_num_threads_4>,
      real.set_num_threads_4);
  add(table, "omp_set_num_threads_8_", set_num_threads<&Real::set_num_threads_8>,
      real.set_num_threads_8);
  ask(table, "omp_get_max_threads", real.max_threads);
  ask(table, "omp_get_schedule", real.get_schedule);
}

}  // namespace mh::openmp
