// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/protocol/short_receives.hpp"

#include "base/clock.hpp"
#include "base/tuning.hpp"
#include "mpi/job/config.hpp"
#include "mpi/protocol/message.hpp"
#include "mpi/protocol/receiver.hpp"

namespace mh::mpi {

ShortReceives short_receives;

namespace {

// The communicator may have been freed since.
MPI_Comm comm_of(const ShortReceive& receive) {
  return comms::find(receive.comm) != nullptr ? receive.comm : MPI_COMM_WORLD;
}

}  // namespace

ReceiveTarget target_of(const ShortReceive& receive) {
  return target_for(receive.buffer, receive.bytes, MPI_BYTE, MPI_ANY_SOURCE, comm_of(receive));
}

void ShortReceives::start(MPI_Request request) {
  const Place place = place_of(request);
  if (!place || place.receive().under_way != 0) return;
  place.receive().under_way = 1;
  ++under_way_;
}

void ShortReceives::look(MPI_Request request, bool is_over) {
  if (under_way_ == 0) return;
  const Place place = place_of(request);
  if (!place || place.receive().under_way == 0) return;
  ShortReceive& receive = place.receive();
  if (is_over) receive.persistent != 0 ? end(receive) : remove(place);
  look(receive);
}

bool ShortReceives::meets(std::uint64_t begin, std::uint64_t end) const {
  if (under_way_ == 0 || begin >= highest_ || lowest_ >= end) return false;
  return std::any_of(sets_.begin(), sets_.end(), [&](const Set& set) {
    for (std::size_t way = 0; way < kWays; ++way) {
      const ShortReceive& receive = set.receives[way];
      if (set.tags[way] == kEmpty || receive.under_way == 0) continue;
      const auto first = reinterpret_cast<std::uint64_t>(receive.buffer);
      if (first < end && begin < first + receive.bytes) return true;
    }
    return false;
  });
}

void ShortReceives::look_at_all() {
  // Used by the one thread that has the wait loop's hands.
  static std::uint64_t next_look = 0;
  if (under_way_ == 0) return;
  const std::uint64_t now = ticks();
  if (now < next_look) return;
  next_look = now + ticks_from_ns(tuning::kLookAtShortNs);
  for (Set& set : sets_) {
    for (std::size_t way = 0; way < kWays; ++way) {
      ShortReceive& receive = set.receives[way];
      if (set.tags[way] == kEmpty || receive.under_way == 0) continue;
      look(receive);
    }
  }
}

std::optional<ShortReceive> ShortReceives::take(MPI_Request request) {
  const Place place = place_of(request);
  if (!place) return std::nullopt;
  const ShortReceive receive = place.receive();
  remove(place);
  return receive;
}

[[gnu::cold, gnu::noinline]] void ShortReceives::raise_overrun(ShortReceive& receive) {
  end(receive);  // nobody else is to find it while the message is moved
  ReceiveTarget target = target_of(receive);
  target.silent = true;  // nobody has asked for the status
  MPI_Status status{};
  const int code = target ? mpi::settle(target, &status) : MPI_SUCCESS;
  if (code != MPI_SUCCESS) raise(comm_of(receive), code);
}

}  // namespace mh::mpi
