// SPDX-License-Identifier: BSD-3-Clause
// The public functions of the library of task collections. They check their arguments, and turn
// std::bad_alloc into Code::full.
#include "manyhands/tasks/collection.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <new>
#include <utility>

#include "tasks/balancer_names.hpp"
#include "tasks/core.hpp"

namespace mh::tasks {
namespace {

constexpr std::size_t kMostTaskBytes = std::size_t{1} << 20U;
constexpr std::uint64_t kMostTasks = std::uint64_t{1} << 30U;

bool is_valid(const Config& config) {
  return config.task_bytes != 0 && config.task_bytes <= kMostTaskBytes && config.max_tasks != 0 &&
         config.max_tasks <= kMostTasks && config.termination_arity != 0 &&
         config.balance_branching >= 2;
}

NodeShape shape_of(const Network& network, const Config& config) {
  const auto nodes = network.nodes();
  const auto next = std::upper_bound(nodes.begin(), nodes.end(), network.rank());
  NodeShape shape{.rank = network.rank(), .ranks = network.ranks(), .first = *(next - 1)};
  shape.count = (next == nodes.end() ? network.ranks() : *next) - shape.first;
  shape.capacity = std::bit_ceil(config.max_tasks);
  shape.stride = task_stride(config.task_bytes);
  return shape;
}

// True: Config::survive_loss is possible. The survivors of a loss send no messages, so they must be
// on one node, and no balancer may move tasks by messages.
bool may_survive(const Network& network, const Config& config) {
  return network.nodes().size() == 1 && !config.server &&
         (config.balancer == Balancer::none || config.balancer == Balancer::steal ||
          config.balancer == Balancer::retain);
}

// Returns the result of `action`, or `full` if the action ran out of memory.
template <class Action>
auto guarded(Action&& action) noexcept -> decltype(action()) {
  try {
    return action();
  } catch (const std::bad_alloc&) {
    return Status{Code::full};
  }
}

Result<detail::CollectionCore*> open(std::unique_ptr<Network> network, const Config& config) {
  const NodeShape shape = shape_of(*network, config);
  const auto memory = network->share(NodeMemory::bytes(shape));
  if (!memory) return memory.status();
  std::byte* lasting = nullptr;  // the memory of a Survivor, with Config::survive_loss
  if (config.survive_loss) {
    const auto shared = network->share(Survivor::bytes(shape));
    if (!shared) return shared.status();
    lasting = *shared;
  }
  auto core = std::make_unique<detail::CollectionCore>(std::move(network), config, shape, *memory);
  if (lasting != nullptr) {
    if (const Status status = core->survive(lasting); !status) return status;
  }
  if (const Status status = core->open(); !status) return status;
  return core.release();
}

}  // namespace

const char* name_of(Balancer balancer) noexcept {
  return kBalancerNames[static_cast<std::size_t>(balancer)].first.data();
}

Result<Balancer> balancer_of(std::string_view name) noexcept {
  const auto* const found =
      std::ranges::find(kBalancerNames, name, &decltype(kBalancerNames)::value_type::first);
  if (found == kBalancerNames.end()) return Status{Code::misuse};
  return found->second;
}

namespace detail {

void CoreDeleter::operator()(CollectionCore* core) const noexcept { delete core; }

Result<CollectionCore*> create(std::unique_ptr<Network> network, const Config& config) noexcept {
  if (network == nullptr || !is_valid(config)) return Status{Code::misuse};
  if (config.server && !network->threads()) return Status{Code::unsupported};
  if (config.survive_loss && !may_survive(*network, config)) return Status{Code::unsupported};
  return guarded([&] { return open(std::move(network), config); });
}

Result<std::uint32_t> define(CollectionCore& core, Call call, Any function,
                             std::size_t bytes) noexcept {
  return guarded([&] { return core.define(call, function, bytes); });
}
Result<void*> place(CollectionCore& core, std::uint32_t function) noexcept {
  return core.place(function);
}
void placed(CollectionCore& core) noexcept { core.placed(); }
Status process(CollectionCore& core) noexcept {
  return guarded([&] { return core.process(); });
}
Status restore(CollectionCore& core) noexcept {
  return guarded([&] { return core.restore(); });
}
Statistics statistics(const CollectionCore& core) noexcept { return core.statistics(); }
std::uint64_t size(const CollectionCore& core) noexcept { return core.size(); }

}  // namespace detail
}  // namespace mh::tasks
