// SPDX-License-Identifier: BSD-3-Clause
#include "top/interval.hpp"

#include <algorithm>
#include <thread>

#include "base/clock.hpp"

namespace mh::top {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr int kSamples = 20;  // samples at the states in an interval
constexpr milliseconds kLeastPause(10);

void count(std::vector<HelpPartner>& all, std::uint32_t rank) {
  const auto known = std::ranges::find(all, rank, &HelpPartner::rank);
  if (known != all.end()) {
    ++known->samples;
  } else {
    all.push_back({.rank = rank, .samples = 1});
  }
}

void add_sample(Interval& interval, const std::vector<RankState>& states) {
  ++interval.samples;
  for (std::size_t rank = 0; rank < states.size(); ++rank) {
    const RankState& seen = states[rank];
    RankInterval& sum = interval.ranks[rank];
    ++sum.samples[static_cast<std::size_t>(seen.state)];
    if (seen.helped != kNobody) count(sum.helps, seen.helped);
    for (const std::uint32_t helper : seen.helpers) count(sum.helped_by, helper);
    if (seen.state != State::waits) continue;
    sum.at = seen.at;
    sum.late = seen.late;
  }
}

void sort_by_samples(std::vector<HelpPartner>& all) {
  std::ranges::stable_sort(all, std::ranges::greater(), &HelpPartner::samples);
}

std::uint64_t since(std::uint64_t after, std::uint64_t before) {
  return after > before ? after - before : 0;
}

RankNumbers difference(const RankNumbers& after, const RankNumbers& before) {
  return {.messages = since(after.messages, before.messages),
          .bytes = since(after.bytes, before.bytes),
          .copied_bytes = since(after.copied_bytes, before.copied_bytes),
          .units_given = since(after.units_given, before.units_given),
          .units_received = since(after.units_received, before.units_received),
          .collectives = since(after.collectives, before.collectives),
          .wait_ticks = since(after.wait_ticks, before.wait_ticks),
          .help_ticks = since(after.help_ticks, before.help_ticks),
          .own_copy_ticks = since(after.own_copy_ticks, before.own_copy_ticks)};
}

void finish(RankInterval& rank, std::uint64_t ticks_gone) {
  const auto part = [&](std::uint64_t some) {
    return std::min(1.0, static_cast<double>(some) / static_cast<double>(ticks_gone));
  };
  const RankNumbers& numbers = rank.numbers;
  rank.helping = part(numbers.help_ticks);
  rank.waiting = part(since(numbers.wait_ticks, numbers.help_ticks + numbers.own_copy_ticks));
  rank.state = static_cast<State>(std::ranges::max_element(rank.samples) - rank.samples.begin());
  sort_by_samples(rank.helps);
  sort_by_samples(rank.helped_by);
}

}  // namespace

bool goes_on(const SegmentView& view, const ProcessDescriptor& descriptor, std::uint64_t file) {
  return descriptor.file() == file && (!has_own_pids(view) || is_running(view.record(0)));
}

std::optional<Interval> watch(const SegmentView& view, const ProcessDescriptor& descriptor,
                              milliseconds length) {
  const std::uint64_t file = descriptor.file();
  const bool own_pids = has_own_pids(view);
  const milliseconds pause = std::max(length / kSamples, kLeastPause);
  Interval interval;
  interval.ranks.resize(view.ranks());
  const std::uint64_t begin = ticks();
  const std::vector<RankNumbers> before = read_numbers(view, begin);
  const auto deadline = steady_clock::now() + length;
  for (auto next = steady_clock::now(); next < deadline; next += pause) {
    std::this_thread::sleep_until(std::min(next + pause, deadline));
    if (file == 0 || !goes_on(view, descriptor, file)) return std::nullopt;
    add_sample(interval, read_states(view, own_pids));
  }
  const std::uint64_t end = ticks();
  const std::vector<RankNumbers> after = read_numbers(view, end);
  interval.seconds = ns_from_ticks(end - begin) / 1e9;
  for (std::size_t rank = 0; rank < after.size(); ++rank) {
    interval.ranks[rank].numbers = difference(after[rank], before[rank]);
    finish(interval.ranks[rank], end - begin);
  }
  interval.so_far = read_totals(view, end);
  return interval;
}

}  // namespace mh::top
