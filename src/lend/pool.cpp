// SPDX-License-Identifier: BSD-3-Clause
#include "lend/pool.hpp"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <new>
#include <utility>

#include "base/clock.hpp"
#include "base/emulated.hpp"
#include "base/say.hpp"
#include "base/tuning.hpp"
#include "lend/threads.hpp"

namespace mh::lend {
namespace {

// The loan of a core to a helper of this process, while the helper's thread runs a unit on it.
struct Loan {
  Channel& channel;
  std::uint32_t word;     // of the channel, as the lender wrote it for this unit
  const cpu_set_t& home;  // CPUs of the owner
  std::atomic<std::uint64_t>& given_back;
  std::atomic<std::uint32_t>& waiting_helpers;
  std::uint64_t deadline;
  bool over = false;     // give_core_back() was called
  bool is_home = false;  // the helper has moved itself to the owner's CPUs
};
constinit thread_local Loan* t_loan = nullptr;

// Moves the calling thread, a helper, to a CPU of its owner (`home`), if possible not to the
// present CPU, on which the lender continues.
void move_to_cpus(cpu_set_t home) {
  if (const int here = ::sched_getcpu(); here >= 0 && CPU_COUNT(&home) > 1) {
    CPU_CLR(static_cast<std::size_t>(here), &home);
  }
  ::sched_setaffinity(0, sizeof home, &home);
}

}  // namespace

Guest guest() {
  if (t_loan == nullptr) return Guest::no;
  return ticks() < t_loan->deadline ? Guest::in_time : Guest::overdue;
}

void give_core_back() {
  if (t_loan == nullptr || t_loan->over) return;
  t_loan->over = true;
  Channel& channel = t_loan->channel;
  std::uint32_t lent = t_loan->word;
  const std::uint32_t evicted = word_of(ChannelState::evicted, lender_of(lent));
  // relaxed: nothing is published. If the compare-exchange fails, the lender takes its core back
  // and moves this thread itself.
  if (!channel.word.compare_exchange_strong(lent, evicted, std::memory_order_relaxed)) return;
  t_loan->is_home = true;
  t_loan->given_back.fetch_add(1, std::memory_order_relaxed);
  t_loan->waiting_helpers.fetch_add(1, std::memory_order_relaxed);
  futex_wake(channel.word);  // before the move: a wake-up across cores is slow
  move_to_cpus(t_loan->home);
  channel.cpu.store(-1, std::memory_order_relaxed);
}

Pool::Pool(const node::Node& node, Lendings& mine, std::uint32_t lenders, std::size_t stack)
    : node_(node), mine_(mine), lenders_(lenders), stack_(stack) {
  CPU_ZERO(&home_);
  ::sched_getaffinity(0, sizeof home_, &home_);
}

Pool::~Pool() {
  {
    const std::lock_guard<std::mutex> hold(growing_);  // no helper is made from here on
    ending_.store(true, std::memory_order_relaxed);
  }
  for (std::size_t i = 0; i < helpers_.size(); ++i) {
    // A lender that has reserved this helper (held) finds the thread id 0 that is stored below,
    // wakes nobody and keeps its core. A lender that sleeps during the helper's unit is woken
    // below, and takes its core back.
    Channel& channel = mine_.channels[i];
    channel.helper_tid.store(0, std::memory_order_release);
    channel.word.store(word_of(ChannelState::evicted, 0), std::memory_order_release);
    futex_wake(channel.word);
    futex_wake(channel.word);
  }
  for (const pthread_t helper : helpers_) ::pthread_join(helper, nullptr);
  for (std::size_t i = 0; i < helpers_.size(); ++i) {
    mine_.channels[i].word.store(kFree, std::memory_order_release);
  }
}

// Returns stack_, the bytes of stack that helpers need for loops, if the address space has no limit
// (RLIMIT_AS), or `count` such stacks take at most a sixteenth of the limit. Returns 0 otherwise,
// because the program needs the address space itself.
std::size_t Pool::affordable_stack(std::size_t count) const {
  constexpr std::size_t kPart = 16;
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return stack_;
  return limit.rlim_cur / kPart < stack_ * count ? 0 : stack_;
}

Status Pool::hire() {
  const SignalsBlocked guard;
  const std::uint32_t count = first_helpers();
  if (count == 0) return {Code::unsupported};
  helpers_.reserve(most_helpers());
  std::size_t stack = affordable_stack(count);
  if (stack != 0 && !hire_one(mine_.channels[0], stack)) stack = 0;
  if (stack < stack_) {
    small_stacks_.store(true, std::memory_order_relaxed);
    print_message(
        "loops of rank {} are not shared: stacks of {} MB do not fit; raise 'ulimit -v' or lower "
        "'ulimit -s'",
        node_.mine().world_rank, stack_ >> 20U);
  }
  while (helpers_.size() < count && hire_one(mine_.channels[helpers_.size()], stack)) {
  }
  if (helpers_.empty()) return {Code::system, EAGAIN};
  roam_.store(may_roam(helpers_.front()), std::memory_order_relaxed);
  return {};
}

// Makes further helpers. Called by a helper at the end of its unit, on the lent core, so that the
// owner does not spend time on the creation. The new threads inherit the helper's blocked signals.
void Pool::hire_more() {
  const std::unique_lock<std::mutex> hold(growing_, std::try_to_lock);
  if (!hold.owns_lock() || ending_.load(std::memory_order_relaxed)) return;
  mine_.offer.all_at_work.store(0, std::memory_order_relaxed);
  const std::size_t wanted =
      std::min<std::size_t>(helpers_.size() + kHelpersAtOnce, most_helpers());
  const std::size_t stack =
      small_stacks_.load(std::memory_order_relaxed) ? 0 : affordable_stack(wanted);
  if (stack == 0 && stack_ != 0) return;
  while (helpers_.size() < wanted && hire_one(mine_.channels[helpers_.size()], stack)) {
    ::pthread_setaffinity_np(helpers_.back(), sizeof home_, &home_);
  }
}

// True if the helper may run on every CPU that a rank of the node may use. To find out, the
// function sets the helper's affinity and reads it back, since the kernel removes the CPUs that a
// cpuset forbids. Called before any lender knows the helper.
bool Pool::may_roam(pthread_t helper) const {
  cpu_set_t all;
  CPU_ZERO(&all);
  for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    const std::uint64_t word = node_.header().affinity[cpu / 64].load(std::memory_order_relaxed);
    if ((word >> (cpu % 64) & 1U) != 0) CPU_SET(cpu, &all);
  }
  if (::pthread_setaffinity_np(helper, sizeof all, &all) != 0) return false;
  cpu_set_t allowed;
  const bool known = ::pthread_getaffinity_np(helper, sizeof allowed, &allowed) == 0;
  ::pthread_setaffinity_np(helper, sizeof home_, &home_);
  CPU_AND(&allowed, &allowed, &all);
  return known && CPU_EQUAL(&allowed, &all);
}

// Makes a helper for `channel`. A `stack` of 0 bytes stands for the default stack size of the
// program's threads.
bool Pool::hire_one(Channel& channel, std::size_t stack) {
  using HelperStart = std::pair<Pool*, Channel*>;
  pthread_attr_t attributes;
  if (::pthread_attr_init(&attributes) != 0) return false;
  std::size_t usual = 0;
  ::pthread_attr_getstacksize(&attributes, &usual);
  if (stack > usual) ::pthread_attr_setstacksize(&attributes, stack);
  auto* const start = new (std::nothrow) HelperStart(this, &channel);
  const auto run = [](void* data) -> void* {
    const std::unique_ptr<HelperStart> mine(static_cast<HelperStart*>(data));
    mine->first->live(*mine->second);
    return nullptr;
  };
  pthread_t helper{};
  const bool made = start != nullptr && ::pthread_create(&helper, &attributes, run, start) == 0;
  ::pthread_attr_destroy(&attributes);
  if (!made) {
    delete start;
    return false;
  }
  ::pthread_setname_np(helper, "mh-helper");
  helpers_.push_back(helper);
  return true;
}

void Pool::live(Channel& channel) {
  // Until hired_ is true, hire() may still change the affinity of this thread (may_roam()), so no
  // lender may know the thread.
  hired_.wait(false, std::memory_order_acquire);
  // release: pairs with the acquire in Lender::hold(). From this store on, lenders know this
  // helper, and it answers a wake-up.
  channel.helper_tid.store(::gettid(), std::memory_order_release);
  while (!ending_.load(std::memory_order_relaxed)) {
    // acquire: pairs with the release of lent in Lender::hand_over(), which publishes the length of
    // the unit.
    std::uint32_t word = channel.word.load(std::memory_order_acquire);
    if (state_of(word) == ChannelState::lent) {
      serve(channel, word);
    } else if (state_of(word) == ChannelState::evicted) {
      // The lender took its core back before the unit began, because this thread, the helper, woke
      // up late. The helper frees the channel for other lenders.
      channel.word.compare_exchange_strong(word, kFree, std::memory_order_release,
                                           std::memory_order_relaxed);
    } else {
      futex_wait(channel.word, word, tuning::kParkedHelperNs);
    }
  }
}

// Runs a unit of the exposed work on the lent core, then returns the core to its lender. `word`:
// the channel's word, with which the lender has lent the core.
void Pool::serve(Channel& channel, std::uint32_t word) {
  Loan loan{.channel = channel,
            .word = word,
            .home = home_,
            .given_back = given_back_,
            .waiting_helpers = waiting_helpers_,
            .deadline = ticks() + channel.unit.load(std::memory_order_relaxed)};
  t_loan = &loan;
  const emulated::LentCore core(rank_of(lender_of(word)));
  const auto helper = static_cast<std::uint32_t>(&channel - mine_.channels);
  const bool by_other = rank_of(lender_of(word)) != node_.me();
  for (WorkSlot& slot : slots_) {
    if (!work_at(slot, helper, loan.deadline)) continue;
    if (by_other) slot.units.fetch_add(1, std::memory_order_relaxed);
    break;
  }
  t_loan = nullptr;
  if (mine_.offer.all_at_work.load(std::memory_order_relaxed) != 0) [[unlikely]]
    hire_more();
  if (loan.is_home) waiting_helpers_.fetch_sub(1, std::memory_order_relaxed);
  std::uint32_t expected = word;
  const std::uint32_t done = word_of(ChannelState::done, lender_of(word));
  if (channel.word.compare_exchange_strong(expected, done, std::memory_order_release,
                                           std::memory_order_relaxed)) {
    futex_wake(channel.word);
  } else if (!ending_.load(std::memory_order_relaxed)) {
    channel.word.store(kFree, std::memory_order_release);  // evicted
  }
}

// Lets helper number `helper` run a unit of the work that is exposed in `slot`. Returns false if no
// work is exposed, or nothing of it is left to start.
bool Pool::work_at(WorkSlot& slot, std::uint32_t helper, std::uint64_t deadline) {
  slot.inside.fetch_add(1, std::memory_order_seq_cst);
  LendableWork* work = slot.work.load(std::memory_order_seq_cst);
  const bool done = work != nullptr && work->unit(helper, deadline);
  // release: pairs with the load of `inside` in withdraw(), after which the caller of withdraw()
  // may destroy the work.
  slot.inside.fetch_sub(1, std::memory_order_release);
  return done;
}

Status Pool::open_slot(WorkSlot& here, LendableWork& work) {
  if (!hired()) {
    std::call_once(hiring_, [this] {
      hiring_went_ = hire();
      hired_.store(true, std::memory_order_release);
      hired_.notify_all();
    });
  }
  if (!hiring_went_) return hiring_went_;
  if (small_stacks_.load(std::memory_order_relaxed) && &here == &slot(WorkKind::loops))
    return {Code::unsupported};
  // release: publishes the work, pairs with the load in work_at(). A helper that calls work_at()
  // before this store finds no work.
  here.work.store(&work, std::memory_order_release);
  const auto kind = static_cast<WorkKind>(&here - slots_);
  mine_.offer.exposed.fetch_or(bit_of(kind), std::memory_order_relaxed);
  return {};
}

void Pool::suggest_end(std::uint32_t owner, WorkKind kind, std::uint64_t ends,
                       std::uint64_t slack) {
  const auto offset = reinterpret_cast<std::byte*>(&mine_) - node_.area(node_.me());
  auto& there = *reinterpret_cast<Lendings*>(node_.area(owner) + offset);
  // relaxed, here and below: the offer and `exposed` are hints for lenders and publish nothing.
  std::atomic<std::uint64_t>& offered = there.offer.ends[static_cast<std::size_t>(kind)];
  const std::uint64_t now = offered.load(std::memory_order_relaxed);
  const bool near = std::max(now, ends) - std::min(now, ends) <= slack;
  const std::uint32_t exposed = there.offer.exposed.load(std::memory_order_relaxed);
  if (!near && (exposed & bit_of(kind)) != 0) offered.store(ends, std::memory_order_relaxed);
}

void Pool::withdraw(WorkKind kind) {
  WorkSlot& here = slot(kind);
  mine_.offer.exposed.fetch_and(~bit_of(kind), std::memory_order_relaxed);
  here.work.store(nullptr, std::memory_order_seq_cst);
  nothing_left(kind);
  // True once no helper is inside the work. seq_cst (see WorkSlot) includes acquire, which pairs
  // with the release in work_at().
  const auto over = [&here] { return here.inside.load(std::memory_order_seq_cst) == 0; };
  if (!over()) await_helpers(over);
}

void Pool::await_helpers(const std::function<bool()>& over) {
  const std::uint64_t begin = ticks();
  const std::uint64_t patience = ticks_from_ns(tuning::kReclaimAfterNs);
  bool reclaimed = false;
  while (!over()) {
    const bool patient = ticks() - begin < patience;
    if (patient && !has_waiting_helpers()) {
      spin_pause();
      continue;
    }
    if (!patient && !reclaimed) {
      reclaim();
      reclaimed = true;
    }
    ::sched_yield();
  }
}

// Moves all helpers that are in a unit to the owner's CPUs, because their lenders may need the lent
// cores.
void Pool::reclaim() {
  for (std::uint32_t i = 0; i < most_helpers(); ++i) {
    Channel& channel = mine_.channels[i];
    if (state_of(channel.word.load(std::memory_order_relaxed)) != ChannelState::lent) continue;
    ::sched_setaffinity(channel.helper_tid.load(std::memory_order_relaxed), sizeof home_, &home_);
    channel.cpu.store(-1, std::memory_order_relaxed);
  }
}

// Frees the channels of helpers whose lender has died after it reserved the helper (held), or
// before it took notice of the end of the unit (done). No lender could use such a helper again
// otherwise.
void Pool::sweep() {
  for (std::uint32_t i = 0; i < most_helpers(); ++i) {
    Channel& channel = mine_.channels[i];
    std::uint32_t word = channel.word.load(std::memory_order_acquire);
    const ChannelState state = state_of(word);
    if (state != ChannelState::held && state != ChannelState::done) continue;
    if (node_.is_alive(rank_of(lender_of(word)))) continue;
    channel.word.compare_exchange_strong(word, kFree, std::memory_order_release,
                                         std::memory_order_relaxed);
  }
}

}  // namespace mh::lend
