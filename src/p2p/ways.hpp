// SPDX-License-Identifier: BSD-3-Clause
// Which of two ways to move a message pays: through cells that sender and receiver fill and drain
// at the same time, or by the kernel, which copies once and looks up every page.
//
// No rule tells: it depends on where the two cores lie (a line comes from the next core in 20 ns,
// from another chip in 200, and a virtual machine moves its cores), on how many messages are under
// way, and on what the caches hold. So both are measured, by size of the message: what took less is
// taken, and now and then the other is tried, the more rarely the longer nothing has changed.
//
// Of a receiver. Thread-safe; threads that meet lose a sample. Limits: sizes are told apart by
// powers of two from 4 KB to 64 MB; senders are not.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>

namespace mh::p2p {

enum class Way : std::uint8_t { cells, kernel };

class Ways {
 public:
  // Messages between two trials of the way that seems to take longer, at first and at most, and
  // messages of a trial.
  static constexpr std::uint32_t kOften = 16;
  static constexpr std::uint32_t kRarely = 4096;
  static constexpr std::uint32_t kTrial = 4;
  // So many bytes go through cells before the first sample: their memory comes with its first use,
  // in several rounds of a pipeline of 2 MB, because who waits for it fetches other chunks
  // meanwhile.
  static constexpr std::uint64_t kWarmUp = 8U << 20U;

  // For the next message of so many bytes.
  Way next(std::uint64_t bytes) {
    // relaxed, all here: estimates, which order nothing.
    if (warmed_.load(std::memory_order_relaxed) < kWarmUp) return Way::cells;
    return class_of(bytes).next();
  }

  // It took so many ticks from when sender and receiver could begin.
  void took(Way way, std::uint64_t bytes, std::uint64_t ticks) {
    const std::uint64_t warmed = warmed_.load(std::memory_order_relaxed);
    if (warmed < kWarmUp) {
      if (way == Way::cells) warmed_.store(warmed + bytes, std::memory_order_relaxed);
      return;
    }
    class_of(bytes).add(way, static_cast<float>(ticks) / static_cast<float>(bytes));
  }

  // It did not arrive, because the kernel refused to copy: by cells, too, a receiver fetches so.
  void refused(std::uint64_t bytes) { class_of(bytes).avoid(Way::kernel); }

 private:
  static constexpr std::uint64_t kLeast = 4096;
  static constexpr std::uint32_t kClasses = 16;

  class Class {
   public:
    Way next() {
      const Way usual = usual_.load(std::memory_order_relaxed);
      const Way other = usual == Way::cells ? Way::kernel : Way::cells;
      const std::uint32_t interval = interval_.load(std::memory_order_relaxed);
      const std::uint32_t count = count_.load(std::memory_order_relaxed) + 1;
      if (cost(other) < kClearly * cost(usual)) {
        usual_.store(other, std::memory_order_relaxed);
        start(kOften);
        return other;
      }
      if (count > interval + kTrial) {
        start(std::min(2 * interval, kRarely));
        return usual;
      }
      count_.store(count, std::memory_order_relaxed);
      return count > interval ? other : usual;
    }

    // Who was interrupted, or waited for the other end, takes longer; nothing takes less than it
    // does. So an estimate falls at once and rises slowly. The first message after a change finds
    // the caches as the other way left them, and says nothing.
    void add(Way way, float sample) {
      constexpr float kSlowly = 4;
      if (last_.exchange(way, std::memory_order_relaxed) != way) return;
      const float old = cost(way);
      const float risen = old + (std::min(sample, kSlowly * old) - old) / kSlowly;
      cost_[index(way)].store(old == 0 ? sample : std::min(sample, risen),
                              std::memory_order_relaxed);
    }

    void avoid(Way way) { cost_[index(way)].store(kAvoided, std::memory_order_relaxed); }

   private:
    static constexpr float kClearly = 0.8F;   // ways that take about the same do not take turns
    static constexpr float kAvoided = 1e30F;  // times kSlowly is a number yet

    static std::size_t index(Way way) { return static_cast<std::size_t>(way); }
    [[nodiscard]] float cost(Way way) const {
      return cost_[index(way)].load(std::memory_order_relaxed);
    }
    void start(std::uint32_t interval) {
      interval_.store(interval, std::memory_order_relaxed);
      count_.store(0, std::memory_order_relaxed);
    }

    std::array<std::atomic<float>, 2> cost_{};  // ticks a byte; 0 before the first
    std::atomic<Way> usual_{Way::cells};
    std::atomic<Way> last_{Way::cells};
    std::atomic<std::uint32_t> interval_{kOften};
    std::atomic<std::uint32_t> count_{0};  // messages since the last trial
  };

  Class& class_of(std::uint64_t bytes) {
    const auto index = static_cast<std::uint32_t>(std::bit_width(bytes / kLeast));
    return classes_[std::min(index, kClasses - 1)];
  }

  std::atomic<std::uint64_t> warmed_{0};
  std::array<Class, kClasses> classes_{};
};

}  // namespace mh::p2p
