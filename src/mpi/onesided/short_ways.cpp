// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/onesided/short_ways.hpp"

#include "mpi/job/services.hpp"
#include "mpi/job/switches.hpp"

namespace mh::mpi::rma {
namespace {

// Where a stretch of created memory lies on this node that only the kernel reaches.
std::optional<memory::View> beyond_reach(const Win& win, std::uint32_t rank, const Stretch& at) {
  const onesided::Exposed& exposed = win.window.exposed(rank);
  if (win.flavor != Flavor::created || at.bytes == 0 || exposed.is_elsewhere()) return std::nullopt;
  const memory::View place{exposed.base + at.offset, exposed.pid, exposed.node_rank};
  if (services.memory->here(place, at.bytes) != nullptr) return std::nullopt;
  return place;
}

}  // namespace

int failed(const Win& win, Status why) {
  return raise(win.handle, why.code == Code::fault ? MPI_ERR_RMA_RANGE : MPI_ERR_OTHER);
}

bool keep(Win& win, const void* origin, const Target& target, const Stretch& at,
          onesided::Operation what, Outcome& outcome) {
  if (!onesided::KeptList::is_short(at.bytes)) return false;
  what.target = static_cast<std::uint32_t>(target.rank);
  what.bytes = at.bytes;
  const std::optional<memory::View> place = beyond_reach(win, what.target, at);
  if (!place) return false;
  const ThreadLock hold(win.mutex);
  outcome = MPI_SUCCESS;
  if (win.window.keep(what, place->address, origin)) return true;
  const bool fine = win.window.carry_out_kept(hands(), what.target).ok();
  if (!fine) outcome = failed(win);
  return !fine || win.window.keep(what, place->address, origin);
}

bool ask(Win& win, const Buffer& origin, const Buffer& result, const Target& target,
         const Stretch& at, onesided::Operation what, Outcome& outcome) {
  if (at.bytes > onesided::ActiveMessage::kMost) return false;
  what.target = static_cast<std::uint32_t>(target.rank);
  what.bytes = at.bytes;
  const std::optional<memory::View> place = beyond_reach(win, what.target, at);
  if (!place) return false;
  if (!complete_kept(win, what.target)) {
    outcome = failed(win);
    return true;
  }
  onesided::Task task;
  task.what = what;
  task.target.base = *place;
  // const_cast: the end of an origin is only read, and a result is written.
  task.origin.here = static_cast<std::byte*>(const_cast<void*>(origin.address));
  task.result.here = static_cast<std::byte*>(const_cast<void*>(result.address));
  const auto done = win.window.ask_target(hands(), task);
  if (!done) return false;
  outcome = rma::outcome(win, *done);
  return true;
}

bool complete_kept_slow(Win& win, std::optional<std::uint32_t> target) {
  const ThreadLock hold(win.mutex);
  bool fine = true;
  for (std::uint32_t rank = target.value_or(0); rank < win.ranks(); ++rank) {
    fine = win.window.carry_out_kept(hands(), rank).ok() && fine;
    if (target) break;
  }
  return fine;
}

}  // namespace mh::mpi::rma
