// SPDX-License-Identifier: BSD-3-Clause
// The events of a simulation in the order of their simulated times: a priority queue in the form of
// a radix heap. Times are whole numbers. A new time never lies before the last time popped. A push
// or pop costs a few copies, however many events wait. Events of one time are popped in the order
// of their pushes, so a simulation repeats exactly.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace mh::tasks::sim {

// A queue of events. `Event` must have a member `time`.
template <class Event>
class EventQueue {
 public:
  void push(const Event& event) {
    buckets_[bucket(event.time)].push_back(event);
    ++size_;
  }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  // Removes and returns the event with the earliest time. The queue must not be empty.
  Event pop() {
    if (taken_ == buckets_[0].size()) refill();
    --size_;
    return buckets_[0][taken_++];
  }

 private:
  // Returns the bucket for a time. Bucket b > 0 has the times whose highest bit that differs from
  // last_, the last time popped, is bit b - 1.
  [[nodiscard]] std::size_t bucket(std::uint64_t time) const {
    return static_cast<std::size_t>(std::bit_width(time ^ last_));
  }
  void refill() {
    buckets_[0].clear();
    taken_ = 0;
    std::size_t from = 1;
    while (buckets_[from].empty()) ++from;
    auto& events = buckets_[from];
    last_ = std::ranges::min(events, {}, &Event::time).time;
    for (const Event& event : events) buckets_[bucket(event.time)].push_back(event);
    events.clear();
  }

  std::array<std::vector<Event>, 65> buckets_;
  std::size_t taken_ = 0;  // from bucket 0, whose events all have the time last_
  std::uint64_t last_ = 0;
  std::size_t size_ = 0;
};

}  // namespace mh::tasks::sim
