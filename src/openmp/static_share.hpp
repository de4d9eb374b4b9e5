// SPDX-License-Identifier: BSD-3-Clause
// A thread's share of a loop with a static schedule, divided as LLVM's run time divides it
// (__kmpc_for_static_init). Index arithmetic wraps at the width of the index, as LLVM's does.
// Thread-safe.
//
// Limit: for schedules without a chunk size, only the run time's default division is known
// (KMP_SCHEDULE is not set).
#pragma once

#include <cstdint>
#include <cstdlib>
#include <type_traits>

namespace mh::openmp {

template <class Index>
struct StaticLoop {
  Index low;
  Index high;  // inclusive
  std::make_signed_t<Index> step;
  std::make_signed_t<Index> chunk;
};

// A thread's share of a static loop: the interval from `low` to `high`, and this interval shifted
// by each multiple of `stride` up to the loop's end.
template <class Index>
struct StaticShare {
  Index low;
  Index high;
  std::make_signed_t<Index> stride;
  bool last;  // the share has the last iteration
};

// The numbers of static schedules in LLVM's run time (kmp.h), without the modifiers in the high
// bits.
inline constexpr std::int32_t kStaticChunked = 33;
inline constexpr std::int32_t kStaticEven = 34;
inline constexpr std::int32_t kStaticSimd = 45;  // chunks are powers of two

constexpr std::int32_t without_modifiers(std::int32_t schedule) { return schedule & ~(3 << 29); }

// True if static_share() divides loops with this schedule as LLVM's run time does.
inline bool is_static_schedule(std::int32_t schedule) {
  static const bool usual = std::getenv("KMP_SCHEDULE") == nullptr;
  const std::int32_t kind = without_modifiers(schedule);
  return usual && (kind == kStaticChunked || kind == kStaticEven || kind == kStaticSimd);
}

namespace detail {

// A loop to be divided, in the unsigned type of its index: its ends, the number of iterations, and
// the step.
template <class Wide>
struct DividedLoop {
  Wide low;
  Wide high;
  Wide count;
  Wide step;
};

template <class Wide>
struct StaticPart {
  Wide low;
  Wide high;
  Wide stride;
  bool last;
};

// Returns an empty share, in the form in which LLVM's run time returns it: `low` lies one past the
// loop's end. `up`: the step is positive.
template <class Wide>
StaticPart<Wide> nothing_of(const DividedLoop<Wide>& loop, bool up, Wide stride) {
  return {.low = static_cast<Wide>(loop.high + (up ? Wide{1} : static_cast<Wide>(-1))),
          .high = loop.high,
          .stride = stride,
          .last = false};
}

// Returns the share of the thread `number` under schedule(static): each of the `size` threads gets
// one interval; the intervals of the first threads are longer by one iteration.
template <class Wide>
StaticPart<Wide> even_part(const DividedLoop<Wide>& loop, bool up, Wide number, Wide size) {
  if (loop.count < size) {
    if (number >= loop.count) return nothing_of(loop, up, loop.count);
    const Wide here = loop.low + number * loop.step;
    return {.low = here, .high = here, .stride = loop.count, .last = number == loop.count - 1};
  }
  const Wide least = loop.count / size;
  const Wide extras = loop.count % size;
  const Wide low = loop.low + loop.step * (number * least + (number < extras ? number : extras));
  const Wide high = low + least * loop.step - (number < extras ? Wide{0} : loop.step);
  return {.low = low, .high = high, .stride = loop.count, .last = number == size - 1};
}

// Returns the share of the thread `number` under schedule(static, chunk): the `size` threads get
// chunks in turn.
template <class Wide>
StaticPart<Wide> chunked_part(const DividedLoop<Wide>& loop, bool up, Wide chunk, Wide number,
                              Wide size) {
  if (chunk > loop.count) chunk = loop.count;
  const Wide chunks = loop.count / chunk + (loop.count % chunk != 0 ? 1 : 0);
  const Wide span = chunk * loop.step;
  const bool last = number == (chunks - 1) % size;
  const Wide stride = span * (chunks < size ? chunks : size);
  if (number >= chunks) return nothing_of(loop, up, stride);
  const Wide low = loop.low + span * number;
  return {.low = low, .high = low + span - loop.step, .stride = stride, .last = last};
}

// Returns the share of the thread `number` under schedule(simd: static, chunk): each of the `size`
// threads gets one interval, whose length is a multiple of the chunk.
template <class Wide>
StaticPart<Wide> simd_part(const DividedLoop<Wide>& loop, Wide chunk, Wide number, Wide size) {
  const Wide share = (loop.count + size - 1) / size;
  const Wide whole = (share + chunk - 1) & ~(chunk - 1);
  const Wide span = whole * loop.step;
  const Wide low = loop.low + span * number;
  return {.low = low,
          .high = low + span - loop.step,
          .stride = span * size,
          .last = number == (loop.count - 1) / whole};
}

}  // namespace detail

// Returns the share of the thread `number` in a team of `size` (at least 2). A schedule other than
// kStaticChunked and kStaticSimd is divided evenly.
template <class Index>
StaticShare<Index> static_share(std::int32_t schedule, const StaticLoop<Index>& loop,
                                std::uint32_t number, std::uint32_t size) {
  using Signed = std::make_signed_t<Index>;
  using Wide = std::make_unsigned_t<Index>;
  const bool up = loop.step > 0;
  if (up ? loop.high < loop.low : loop.low < loop.high)
    return {.low = loop.low, .high = loop.high, .stride = loop.step, .last = false};
  const auto low = static_cast<Wide>(loop.low);
  const auto high = static_cast<Wide>(loop.high);
  const auto step = static_cast<Wide>(loop.step);
  const Wide distance = up ? high - low : low - high;
  const Wide by = up ? step : static_cast<Wide>(-step);
  const detail::DividedLoop<Wide> whole{
      .low = low, .high = high, .count = static_cast<Wide>(distance / by + 1), .step = step};
  const Wide chunk = loop.chunk < 1 ? Wide{1} : static_cast<Wide>(loop.chunk);
  const Wide here = number;
  const Wide team = size;
  const std::int32_t kind = without_modifiers(schedule);
  detail::StaticPart<Wide> mine{};
  if (kind == kStaticChunked) {
    mine = detail::chunked_part(whole, up, chunk, here, team);
  } else if (kind == kStaticSimd) {
    mine = detail::simd_part(whole, chunk, here, team);
  } else {
    mine = detail::even_part(whole, up, here, team);
  }
  auto end = static_cast<Index>(mine.high);
  const bool beyond = up ? end > loop.high : end < loop.high;
  if (kind == kStaticSimd && beyond) end = loop.high;
  return {.low = static_cast<Index>(mine.low),
          .high = end,
          .stride = static_cast<Signed>(mine.stride),
          .last = mine.last};
}

}  // namespace mh::openmp
