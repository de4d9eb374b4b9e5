// SPDX-License-Identifier: BSD-3-Clause
#include "openmp/encounter.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "openmp/marker.hpp"
#include "openmp/names.hpp"
#include "openmp/objects.hpp"
#include "openmp/reachable_calls.hpp"
#include "openmp/real.hpp"
#include "openmp/virtual_threads.hpp"

namespace mh::openmp {

namespace {

constinit thread_local bool t_is_root = false;

// True if the calling thread is in a parallel region of the run time. A thread that was once seen
// outside of all regions is not a worker thread of the run time, so it is only in the regions that
// it has encountered itself (their number is `depth`). Limit: a region is not seen if the thread
// entered it before the calls of the run time were redirected to Manyhands.
bool is_nested() {
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

unsigned team_now() {
  const int most = real.max_threads();
  return most > 1 ? static_cast<unsigned>(most) : 1;
}

// The number of threads that OpenMP gives to a region of this thread. `wanted`: the number in the
// region's num_threads clause; 0: it has no such clause.
unsigned team_of(unsigned wanted) { return wanted != 0 ? wanted : team_now(); }

// True if the region, which was executed once under watch, has a static loop. The region's queries
// show it: GCC's code asks for the thread's number and the size of the team, from which it computes
// the thread's share of such a loop.
bool is_static(const Participant& watched) {
  return watched.obstacle == Obstacle::thread_number && watched.loops == 0 && watched.asked_team;
}

// Runs the region's body on a thread of the run time's team, in the region's first execution.
// `current` is set on the encountering thread only, whose calls are watched; the other threads run
// the body without it.
void run_under_watch(void* encounter) {
  const Encounter& met = *static_cast<const Encounter*>(encounter);
  if (current != nullptr) current->threads = static_cast<std::uint32_t>(real.num_threads());
  met.body(met.data);
}

// Decides, after the first execution of a region in which no loop hands out chunks while it runs,
// how the region is run. If it qualifies, virtual threads run it from now on: its function is
// called once for each thread number. Otherwise the site, the region's entry in the table, records
// the reason.
void decide_virtual_threads(Site& site, const Encounter& met, const Participant& watched) {
  Obstacle why = watched.needs_team;
  if (why == Obstacle::none && watched.threads != team_of(met.threads)) why = Obstacle::other_calls;
  VirtualUse use;
  if (why == Obstacle::none) {
    const bool named = lists.names_to_share(name_of(met.code, met.source));
    const VirtualReach reach = virtual_threads_within_reach(met.code, named);
    why = reach.obstacle;
    use = reach.use;
    use.meets = use.meets || watched.meets_barrier;
  }
  site.virtual_use.store(use, std::memory_order_relaxed);
  decide_site(site, why);
}

// Lets the run time execute the region for the first time, and watches which functions of the run
// time this thread calls. These calls decide whether helpers may join later executions.
[[gnu::cold, gnu::noinline]] void run_watched(Site& site, const Encounter& met) {
  Participant me{.role = Participant::Role::watched, .site = &site};
  {
    const Stopwatch stopwatch(&site);
    const ParticipantScope scope(me);
    Encounter watched = met;
    run_by_team(met, run_under_watch, &watched, met.threads);
  }
  if (me.loops == 0 && own_cores != 0) return decide_virtual_threads(site, met, me);
  if (me.loops == 0) me.meets(Obstacle::no_loop);
  if (me.loops > 1) me.meets(Obstacle::several_loops);
  if (me.obstacle == Obstacle::none) me.meets(obstacle_within_reach(met.code));
  site.virtual_use.store(VirtualUse{}, std::memory_order_relaxed);
  decide_site(site, is_static(me) ? Obstacle::no_loop : me.obstacle);
}

// Runs the body of the shared region on the thread `number` of the owner's team.
void run_own_part(SharedRegion& shared, std::uint32_t number) {
  Participant me = shared.member(number);
  {
    const ParticipantScope scope(me);
    shared.run_body();
  }
  if (me.number == 0) shared.account(me);
}

void run_part_of_team(void* region) {
  run_own_part(*static_cast<SharedRegion*>(region), static_cast<std::uint32_t>(real.thread_num()));
}

// The owner's part in a shared region: this thread runs the body, with its team of `threads` if
// that is more than one, and waits until all helpers have left.
void run_own_side(SharedRegion& region, const Encounter& met, unsigned threads) {
  if (threads > 1) {
    run_by_team(met, run_part_of_team, &region, threads);
  } else {
    run_own_part(region, 0);
  }
  region.leave();
}

// The size of the team that a parallel region of this thread gets without a num_threads clause.
// Asking LLVM's run time takes a tenth of the whole cost of a shared loop, so the answer is cached.
// The run time is asked again after omp_set_num_threads(), and at intervals, since other calls may
// change the size.
struct UsualTeam {
  static constexpr std::uint32_t kAskEvery = 16;

  unsigned threads;
  std::uint32_t stands_for;  // number of further regions for which `threads` holds
};
constinit thread_local UsualTeam t_usual_team{};

// Returns the size of the team that a region gets without a num_threads clause. Call only outside
// of all regions: inside, each task has a setting of its own for this size (nthreads-var).
unsigned usual_team() {
  if (t_usual_team.stands_for == 0) [[unlikely]] {
    t_usual_team = {.threads = team_now(), .stands_for = UsualTeam::kAskEvery};
  }
  --t_usual_team.stands_for;
  return t_usual_team.threads;
}

// Returns the number of the rank's own threads, helpers excluded, for a loop that hands out chunks.
// `wanted`: the number in a num_threads clause, or 0. If static loops run by virtual threads, the
// program asks for more threads than the rank has cores; the number is then limited to the cores.
unsigned own_threads(unsigned wanted) {
  const unsigned team = wanted != 0 ? wanted : usual_team();
  return own_cores != 0 ? std::min(team, own_cores) : team;
}

bool is_unseen(const Site& site) {
  return site.state.load(std::memory_order_acquire) == SiteState::unseen;
}

// Called at the first encounter with the region: the user's lists (MH_OPENMP_EXCLUDE,
// MH_OPENMP_ONLY) may exclude it from sharing.
[[gnu::cold, gnu::noinline]] void apply_user_lists(Site& site, const Encounter& met) {
  site.source.store(met.source, std::memory_order_relaxed);
  if (lists.empty() || site.looked_up.load(std::memory_order_acquire)) return;
  if (!lists.admits(name_of(met.code, met.source))) decide_site(site, Obstacle::by_user);
  site.looked_up.store(true, std::memory_order_release);
}

// Searches the code of a region that is one loop and nothing else for calls that keep the region
// from being shared with helpers. The calls of such a region are not watched in its first
// execution.
[[gnu::cold, gnu::noinline]] void search_code(Site& site, const Encounter& met) {
  const Obstacle found = obstacle_within_reach(met.code);
  site.virtual_use.store(VirtualUse{}, std::memory_order_relaxed);
  if (found != Obstacle::none) decide_site(site, found);
}

// Returns the site of the region, its entry in the table of regions; null if the table is full.
Site* site_of(const Encounter& met) {
  Site* site = sites.find(met.code);
  if (site != nullptr && is_unseen(*site)) [[unlikely]]
    apply_user_lists(*site, met);
  return site;
}

// Returns the site (table entry) of a region that may be shared with helpers; null inside another
// region, and for a requested team of one (num_threads(1), a false if clause).
Site* candidate_site(const Encounter& met) {
  if (current != nullptr || shared_region() == nullptr || shared_loops != SharedLoops::all)
    return nullptr;
  if (met.threads == 1 || is_nested()) return nullptr;
  return site_of(met);
}

struct WholeLoop {
  const Loop& loop;
  const LoopChunkRule& own;
  bool in_order;
};

// Executes the region so that helpers may join its loop. `own`: the number of the rank's own
// threads. `mark`: the user's mark of the loop (marker.hpp), or null. `whole`: set if the region is
// one loop and nothing else. Returns false if another thread is in the process's shared region.
// Inlined, with rarely executed code apart: this saves 5 ns at the start of a loop.
[[gnu::always_inline]] inline bool run_at(Site& site, const Encounter& met, unsigned own,
                                          const Mark* mark, const WholeLoop* whole) {
  SharedRegion& region = *shared_region();
  if (!region.enter(site, met.body, met.data, own)) return false;
  if (mark != nullptr) region.set_chunk_rules(mark->own, mark->helpers);
  if (whole != nullptr) {
    region.begins_in_loop();
    if (met.body == VirtualTeam::run_claimed) region.admits_at_once();
    region.open(whole->loop, whole->own, whole->in_order);
  }
  run_own_side(region, met, own);
  return true;
}

// Executes the region by virtual threads: its function is called once for each thread number of the
// team, by any thread. The result is not `done` if the team is not larger than the rank's number of
// cores. Nor is the result `done` for a region that calls through pointers, once a library is
// loaded whose code virtual threads cannot run.
[[gnu::noinline]] EncounterResult run_by_virtual_threads(Site& site, const Encounter& met,
                                                         VirtualUse use) {
  const std::uint32_t size = team_of(met.threads);
  if (size <= own_cores || size > VirtualTeam::kMost) return {.done = false};
  if (use.has_pointers && !calls_of_all().permit(use.meets)) return {.done = false};
  TeamFibre* const fibres = use.meets ? TeamFibres::with_stacks(size) : nullptr;
  if (use.meets && fibres == nullptr) return {.done = false};
  VirtualTeam team(met.body, met.data, size, own_cores, real.max_threads(), fibres);
  Encounter as_loop = met;
  as_loop.body = VirtualTeam::run_claimed;
  as_loop.data = &team;
  const WholeLoop whole{.loop = team.loop(), .own = {}, .in_order = false};
  const StuckWatch watch(*shared_region());
  const bool done = run_at(site, as_loop, own_cores, nullptr, &whole);
  if (watch.found()) decide_site(site, Obstacle::waiting);
  return {.done = done};
}

// Executes a region that the user has marked (marker.hpp). `whole`: set if the region is one loop
// and nothing else. If the result is not `done`, the run time must execute the region, with
// Nested::threads() threads.
[[gnu::always_inline]] inline EncounterResult run_marked(const Encounter& met,
                                                         const WholeLoop* whole) {
  if (current != nullptr || shared_region() == nullptr) return {.done = false};
  Site* site = site_of(met);
  if (site == nullptr || is_excluded(*site)) return {.done = false, .timed = site};
  const unsigned own = is_nested() ? team_now() : usual_team();
  return {.done = run_at(*site, met, own, &last_mark, whole)};
}

}  // namespace

EncounterResult run_shared(const Encounter& met) {
  if (met.threads == kMarkedTeam) return run_marked(met, nullptr);
  Site* site = candidate_site(met);
  if (site == nullptr || is_excluded(*site)) return {.done = false, .timed = site};
  if (is_unseen(*site)) {
    run_watched(*site, met);
    return {.done = true};
  }
  const VirtualUse use = site->virtual_use.load(std::memory_order_relaxed);
  if (use.on) return run_by_virtual_threads(*site, met, use);
  return {.done = run_at(*site, met, own_threads(met.threads), nullptr, nullptr)};
}

EncounterResult run_shared(const Encounter& met, const Loop& loop, const LoopChunkRule& own_rule,
                           bool in_order) {
  const WholeLoop whole{.loop = loop, .own = own_rule, .in_order = in_order};
  if (met.threads == kMarkedTeam) return run_marked(met, &whole);
  Site* site = candidate_site(met);
  if (site != nullptr && is_unseen(*site)) [[unlikely]]
    search_code(*site, met);
  if (site == nullptr || is_excluded(*site)) return {.done = false, .timed = site};
  // This execution is not shared: the loop has schedule(runtime), and the user has chosen a static
  // schedule for it. The next execution may have another schedule.
  if (own_rule.schedule == Schedule::unspecified) return {.done = false, .timed = site};
  return {.done = run_at(*site, met, own_threads(met.threads), nullptr, &whole)};
}

bool begin_shared_loop(const Loop& loop, const LoopChunkRule& own, bool in_order) {
  Participant& me = *current;
  const bool is_first = me.loops == 0;
  ++me.loops;
  if (me.role == Participant::Role::helper) return is_first;
  if (own.schedule == Schedule::unspecified && !me.marked) {
    report_obstacle(Obstacle::no_loop);
    me.begins_other_loop();
    return false;
  }
  if (!is_first) me.begins_other_loop();
  if (!in_region() || !is_first) return false;
  shared_region()->open(loop, own, in_order);
  return true;
}

namespace {

// kManyThreads is the size of the team that a helper is told if the user has not marked the loop
// (marker.hpp) and the helper asks for that size. Such a helper is about to compute its share of a
// static loop, from its number and the size. GCC's code is told that the helper is the last of
// kManyThreads threads, whose share is empty. Limit: loops of less than a million iterations.
//
// In all other cases, a thread of a shared region is told the following. In a marked region,
// helpers are members of the team. Any other region has the owner's team, as without Manyhands. A
// helper in such a region may ask for its number alone, although no thread did in the region's
// first execution, whose calls were watched. The helper then gets a number of its own.
constexpr int kManyThreads = 1 << 20;

int thread_num() {
  if (virtual_team() != nullptr) return static_cast<int>(current->virtual_number);
  report_division(Obstacle::thread_number);
  if (!in_region()) return real.thread_num();
  const bool takes_share = is_helper() && !current->marked && current->asked_team;
  return takes_share ? kManyThreads - 1 : static_cast<int>(current->number);
}

int num_threads() {
  if (virtual_team() != nullptr) return static_cast<int>(virtual_team()->size());
  report_division(Obstacle::thread_number);
  if (current != nullptr) current->asked_team = true;
  if (!in_region()) return real.num_threads();
  if (current->marked) return static_cast<int>(shared_region()->team());
  return is_helper() ? kManyThreads : static_cast<int>(shared_region()->own_threads());
}

// Replaces a query of the nesting of regions, such as omp_get_level(). The run time knows neither
// helpers nor a shared region that its owner runs alone, so Manyhands corrects the run time's
// answer.
template <auto query>
int level() {
  report_division(Obstacle::thread_number);
  const int known = (real.*query)();
  return in_region() && known == 0 ? 1 : known;
}

// Replaces omp_set_num_threads(), in C and in Fortran, and forgets the cached size of the team.
template <auto call, class Number>
void set_num_threads(Number threads) {
  report_obstacle(Obstacle::other_calls);
  t_usual_team = {};
  (real.*call)(threads);
}

// Replaces omp_get_max_threads(). The run time knows the calling thread, but not the virtual thread
// that it runs: a call of the region's function for one thread number (virtual_threads.hpp).
int max_threads() {
  if (virtual_team() != nullptr) return virtual_team()->most_threads();
  report_division(Obstacle::thread_number);
  return real.max_threads();
}

int in_parallel() { return in_region() ? 1 : real.in_parallel(); }

}  // namespace

void add_queries(std::vector<Binding>& table) {
  // Fortran code calls the functions below by their C names with an underscore at the end.
  for (const char* ending : {"", "_"}) {
    add_binding(table, std::string("omp_get_thread_num") + ending, thread_num, real.thread_num);
    add_binding(table, std::string("omp_get_num_threads") + ending, num_threads, real.num_threads);
    add_binding(table, std::string("omp_in_parallel") + ending, in_parallel, real.in_parallel);
    add_binding(table, std::string("omp_get_level") + ending, level<&Real::level>, real.level);
    add_binding(table, std::string("omp_get_active_level") + ending, level<&Real::active_level>,
                real.active_level);
    add_binding(table, std::string("omp_get_max_threads") + ending, max_threads, real.max_threads);
  }
  add_binding(table, "omp_set_num_threads", set_num_threads<&Real::set_num_threads>,
              real.set_num_threads);
  add_binding(table, "omp_set_num_threads_", set_num_threads<&Real::set_num_threads_4>,
              real.set_num_threads_4);
  add_binding(table, "omp_set_num_threads_8_", set_num_threads<&Real::set_num_threads_8>,
              real.set_num_threads_8);
  add_query(table, "omp_get_schedule", real.get_schedule);
}

}  // namespace mh::openmp
