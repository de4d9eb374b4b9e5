// SPDX-License-Identifier: BSD-3-Clause
// Lists of tasks, and the reports of balance.hpp, as bytes. The bytes travel between ranks of one
// job, so numbers have the machine's format.
//
//   report    load, number of ranks, number of levels (0 or all), ranks by level (LoadCounts), list
//   list      number of tasks, their bins, the tasks
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "tasks/bytes.hpp"

namespace mh::tasks {

using Wire = std::vector<std::byte>;

class WireWriter {
 public:
  template <class T>
  void put(const T& value) {
    put_bytes(std::as_bytes(std::span(&value, 1)));
  }
  void put_list(Arena& arena, const ArenaTasks& tasks) {
    put(static_cast<std::uint64_t>(tasks.size()));
    for (const auto& timed : tasks) put(timed.bin);
    for (const auto& timed : tasks) put_bytes({arena.at(timed.task).bytes, arena.stride()});
  }
  void put_report(Arena& arena, const Report<std::uint32_t>& report) {
    put(report.load);
    put(report.ranks);
    const auto levels = report.loads.levels();
    put(static_cast<std::uint32_t>(levels.size()));
    put_bytes(std::as_bytes(levels));
    put_list(arena, report.given);
  }
  [[nodiscard]] const Wire& wire() const { return wire_; }

 private:
  void put_bytes(std::span<const std::byte> bytes) {
    wire_.insert(wire_.end(), bytes.begin(), bytes.end());
  }
  Wire wire_;
};

// Reads the lists and reports that a WireWriter wrote, in the same order.
class WireReader {
 public:
  explicit WireReader(const Wire& wire) : wire_(wire) {}

  template <class T>
  T get() {
    T value;
    std::memcpy(&value, next(sizeof(T)), sizeof(T));
    return value;
  }
  // Reads a list of tasks, and adds the tasks to the arena. Returns their numbers in the arena,
  // with their durations.
  ArenaTasks get_list(Arena& arena) {
    ArenaTasks tasks(get<std::uint64_t>());
    for (auto& timed : tasks) timed.bin = get<Bin>();
    for (auto& timed : tasks) timed.task = arena.add(next(arena.stride()));
    return tasks;
  }
  Report<std::uint32_t> get_report(Arena& arena) {
    Report<std::uint32_t> report;
    report.load = get<double>();
    report.ranks = get<std::uint32_t>();
    std::vector<std::uint32_t> levels(get<std::uint32_t>());
    for (auto& level : levels) level = get<std::uint32_t>();
    report.loads.add_levels(levels);
    report.given = get_list(arena);
    return report;
  }

 private:
  const std::byte* next(std::size_t bytes) {
    const std::byte* at = wire_.data() + at_;
    at_ += bytes;
    return at;
  }
  const Wire& wire_;
  std::size_t at_ = 0;
};

}  // namespace mh::tasks
