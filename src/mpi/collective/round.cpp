// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/collective/round.hpp"

#include <algorithm>

#include "base/clock.hpp"
#include "layout/pack.hpp"
#include "mpi/compat/message.hpp"
#include "mpi/job/config.hpp"
#include "mpi/job/heaps.hpp"
#include "mpi/job/services.hpp"

namespace mh::mpi::direct {
namespace {

// Waits for other ranks. They are seldom late by more than the first looks, which cost less than a
// step of the wait loop.
struct RoundWait {
  template <class Done>
  void operator()(Done&& done) const {
    constexpr int kFirstLooks = 64;
    for (int look = 0; look < kFirstLooks; ++look) {
      if (done()) return;
      spin_pause();
    }
    arrivals::wait_until_shared(done);
  }
};
constexpr RoundWait wait_for;

bool is_mapped(const void* buffer, std::uint64_t bytes) {
  return buffer == nullptr || heaps::contain(buffer, bytes);
}

}  // namespace

Round::Round(Comm& comm, RoundCall call, std::uint64_t bytes, std::uint32_t terms)
    : comm_(comm),
      boards_(comm.boards),
      bytes_(bytes),
      terms_(static_cast<std::uint64_t>(terms) << 8U | static_cast<std::uint64_t>(call)) {
  services.exchange_detector.completes();
  boards_.begin(wait_for);
}

bool Round::publish_mapped(const void* source, std::uint64_t source_bytes, const void* target,
                           std::uint64_t target_bytes) {
  if (!is_switched_on() || !is_mapped(source, source_bytes) || !is_mapped(target, target_bytes)) {
    publish_library();
    return false;
  }
  boards_.publish_mapped(terms_, bytes_,
                         {.source = reinterpret_cast<std::uint64_t>(source),
                          .target = reinterpret_cast<std::uint64_t>(target)});
  return true;
}

bool Round::all_agree(coll::Route route) {
  std::uint32_t come = 0;  // members before this one have come
  wait_for([&] {
    while (come < boards_.ranks() && boards_.has_come(come)) ++come;
    return come == boards_.ranks();
  });
  boards_.note_all_came();
  for (std::uint32_t member = 0; member < boards_.ranks(); ++member) {
    if (boards_.route_of(member) != route || !has_terms(boards_.record_of(member))) return false;
  }
  return true;
}

const coll::RoundRecord& Round::await(int rank) {
  wait_for([&] { return boards_.has_come(index(rank)); });
  return boards_.record_of(index(rank));
}

memory::View Round::source_view(int rank, std::uint64_t offset) const {
  const coll::RoundRecord& record = boards_.record_of(index(rank));
  return view_of(record.buffers.source + offset, comm_.members[index(rank)].node_rank);
}

Status Round::fetch(void* to, int rank, std::uint64_t offset, std::uint64_t bytes) const {
  constexpr std::uint64_t kPiece = 64U << 10U;
  const memory::View from = source_view(rank, offset);
  const memory::View target = view_of(to, config.me);
  const layout::CacheLevel level =
      layout::cache_level_of(bytes, services.node->header().cache_bytes);
  for (std::uint64_t at = 0; at < bytes; at += kPiece) {
    const Status done =
        services.memory->copy(target.at(at), from.at(at), std::min(kPiece, bytes - at), {}, level);
    if (!done) return done;
  }
  return {};
}

Status Round::write(int rank, std::uint64_t offset, const void* from, std::uint64_t bytes) const {
  const std::uint64_t target = boards_.record_of(index(rank)).buffers.target + offset;
  return services.memory->write(view_of(target, comm_.members[index(rank)].node_rank), from, bytes);
}

const std::byte* Round::source_of(int rank, std::uint64_t offset, std::uint64_t bytes,
                                  std::byte* scratch) const {
  const memory::View view = source_view(rank, offset);
  if (const std::byte* from = services.memory->here(view, bytes)) return from;
  return services.memory->read(scratch, view, bytes) ? scratch : nullptr;
}

int Round::end(Status done) {
  finish();
  std::uint32_t finished = 0;  // members before this one have finished
  wait_for([&] {
    while (finished < boards_.ranks() && boards_.has_finished(finished)) ++finished;
    return finished == boards_.ranks();
  });
  return done ? MPI_SUCCESS : raise(comm_.handle, MPI_ERR_OTHER);
}

void Round::await_finished(int rank) {
  wait_for([&] { return boards_.has_finished(index(rank)); });
}

}  // namespace mh::mpi::direct
