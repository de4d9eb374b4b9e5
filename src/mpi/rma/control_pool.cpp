// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/rma/control_pool.hpp"

namespace mh::mpi::rma {

ControlName ControlPool::name(std::uint32_t me, std::size_t bytes,
                              std::shared_ptr<const GroupOnNode> group) {
  if (bytes > kMostBytes - made_bytes_) return {};
  made_bytes_ += bytes;
  const ControlName fresh{.maker = me, .number = static_cast<std::uint32_t>(made_.size() + 1)};
  made_.emplace(fresh, std::move(group));
  return fresh;
}

std::optional<ControlName> ControlPool::unused(const GroupOnNode* group) const {
  for (const auto& [name, of] : made_) {
    if (of.get() == group && unused_.contains(name)) return name;
  }
  return std::nullopt;
}

std::optional<node::Segment> ControlPool::take(const ControlName& name) {
  auto taken = unused_.extract(name);
  if (!taken) return std::nullopt;
  return std::move(taken.mapped());
}

void ControlPool::give(const ControlName& name, node::Segment segment) {
  if (name.number != 0) unused_.insert_or_assign(name, std::move(segment));
}

void ControlPool::clear() { unused_.clear(); }

}  // namespace mh::mpi::rma
