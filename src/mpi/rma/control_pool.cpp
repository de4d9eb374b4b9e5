// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/rma/control_pool.hpp"

#include <utility>

namespace mh::mpi::rma {

ControlName ControlPool::name(std::uint32_t me, std::size_t bytes,
                              std::shared_ptr<const GroupOnNode> group) {
  const std::lock_guard<std::mutex> hold(mutex_);
  if (bytes > kMostBytes - made_bytes_) return {};
  made_bytes_ += bytes;
  const ControlName fresh{.maker = me, .number = ++last_number_};
  made_.emplace(fresh, std::move(group));
  return fresh;
}

std::optional<ControlPool::KeptControl> ControlPool::take_unused(const GroupOnNode* group) {
  const std::lock_guard<std::mutex> hold(mutex_);
  for (const auto& [name, of] : made_) {
    if (of.get() != group) continue;
    if (auto taken = unused_.extract(name))
      return KeptControl{.name = name, .segment = std::move(taken.mapped())};
  }
  return std::nullopt;
}

std::optional<node::Segment> ControlPool::take(const ControlName& name) {
  const std::lock_guard<std::mutex> hold(mutex_);
  auto taken = unused_.extract(name);
  if (!taken) return std::nullopt;
  return std::move(taken.mapped());
}

void ControlPool::forget(const ControlName& name, std::size_t bytes) {
  const std::lock_guard<std::mutex> hold(mutex_);
  if (made_.erase(name) != 0) made_bytes_ -= bytes;
}

void ControlPool::give(const ControlName& name, node::Segment segment) {
  const std::lock_guard<std::mutex> hold(mutex_);
  if (name.number != 0) unused_.insert_or_assign(name, std::move(segment));
}

void ControlPool::clear() {
  const std::lock_guard<std::mutex> hold(mutex_);
  unused_.clear();
  made_.clear();
}

}  // namespace mh::mpi::rma
