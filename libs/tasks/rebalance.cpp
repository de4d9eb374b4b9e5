// SPDX-License-Identifier: BSD-3-Clause
#include "tasks/rebalance.hpp"

#include <sched.h>

#include <algorithm>
#include <array>
#include <utility>

#include "tasks/balance_pass.hpp"
#include "tasks/retention.hpp"
#include "tasks/wire.hpp"

namespace mh::tasks {
namespace {

Status send(Network& network, std::uint32_t to, const Wire& wire) {
  const auto ticket = network.send(to, Tag::balance, wire, false);
  if (!ticket) return ticket.status();
  for (;;) {
    const auto done = network.done(*ticket);
    if (!done) return done.status();
    if (*done) return {};
    sched_yield();
  }
}

Result<Wire> receive(Network& network, std::uint32_t from) {
  for (;;) {
    const auto envelope = network.probe(from, Tag::balance);
    if (!envelope) return envelope.status();
    if (envelope->has_value()) {
      Wire wire((*envelope)->bytes);
      const Status taken = network.take(**envelope, wire);
      return taken ? Result<Wire>(std::move(wire)) : Result<Wire>(taken);
    }
    sched_yield();
  }
}

// The transport of a pass of the balancer (BalancePass) over the network. Tasks travel as bytes.
class NetworkWire {
 public:
  NetworkWire(Network& network, Arena& arena) : network_(network), arena_(arena) {}

  Status send_report(std::uint32_t to, const Report<std::uint32_t>& report) {
    WireWriter writer;
    writer.put_report(arena_, report);
    return send(network_, to, writer.wire());
  }
  Status send_list(std::uint32_t to, const ArenaTasks& list) {
    WireWriter writer;
    writer.put_list(arena_, list);
    return send(network_, to, writer.wire());
  }
  // Receives messages of other ranks and passes them to `pass`, until the pass has ended and this
  // rank has its tasks.
  Status run(BalancePass& pass) {
    while (!pass.ended()) {
      const BalancePass::Expected expected = pass.expects();
      const auto wire = receive(network_, expected.from);
      if (!wire) return wire.status();
      WireReader reader(*wire);
      const Status status = expected.report ? pass.take_report(reader.get_report(arena_), *this)
                                            : pass.take_list(reader.get_list(arena_), *this);
      if (!status) return status;
    }
    return {};
  }

 private:
  Network& network_;
  Arena& arena_;
};

Result<Loads> loads_of(Network& network, const ArenaTasks& own) {
  std::array<double, 1> sum{load_of(own)};
  std::array<double, 2> longest{0, sum[0]};
  for (const auto& timed : own) longest[0] = std::max(longest[0], timed.bin.seconds());
  if (const Status status = network.sum(sum); !status) return status;
  if (const Status status = network.maximum(longest); !status) return status;
  return Loads{sum[0] / network.ranks(), longest[0], longest[1]};
}

}  // namespace

Result<std::uint64_t> rebalance(Network& network, Scheme scheme, const Balance& rules, Arena& arena,
                                ArenaTasks& own) {
  const BalanceTree tree = tree_of(scheme, rules, network.ranks());
  BalancePlan plan(scheme, rules);
  NetworkWire wire(network, arena);
  ArenaTasks best;
  std::uint64_t given = 0;
  for (;;) {
    const auto loads = loads_of(network, own);
    if (!loads) return loads.status();
    const bool again = plan.next(*loads);
    if (plan.is_best()) best = own;
    if (!again) break;
    Report<std::uint32_t> report = donate(own, plan.donates_above());
    given += report.given.size();
    BalancePass pass(tree, network.rank(), plan);
    Status status = pass.begin(std::move(report), wire);
    if (status.ok()) status = wire.run(pass);
    if (!status) return status;
    own.insert(own.end(), pass.got().begin(), pass.got().end());
  }
  own = std::move(best);
  return given;
}

}  // namespace mh::tasks
