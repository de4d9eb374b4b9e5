// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/collective/round.hpp"

#include <algorithm>

#include "layout/pack.hpp"
#include "mpi/compat/message.hpp"
#include "mpi/job/config.hpp"
#include "mpi/job/heaps.hpp"
#include "mpi/job/services.hpp"

namespace mh::mpi::direct {
namespace {

bool is_absent_or_mapped(const void* buffer, std::uint64_t bytes) {
  return buffer == nullptr || heaps::contain(buffer, bytes);
}

}  // namespace

Round::Round(Comm& comm, RoundCall call, std::uint64_t bytes, std::uint32_t terms)
    : comm_(comm),
      boards_(comm.boards),
      bytes_(bytes),
      terms_(static_cast<std::uint64_t>(terms) << 8U | static_cast<std::uint64_t>(call)) {
  services.exchange_detector.completes();
  boards_.begin([](auto&& done) { wait_until(done); });
}

bool Round::publish_mapped(const void* source, std::uint64_t source_bytes, const void* target,
                           std::uint64_t target_bytes) {
  if (!is_switched_on() || !is_absent_or_mapped(source, source_bytes) ||
      !is_absent_or_mapped(target, target_bytes)) {
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
  wait_until([&] {
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
  wait_until([&] { return boards_.has_come(index(rank)); });
  return boards_.record_of(index(rank));
}

memory::View Round::view_at(int rank, std::uint64_t address) const {
  return view_of(address, comm_.members[index(rank)].node_rank);
}

Status Round::fetch(void* to, int rank, std::uint64_t address, std::uint64_t bytes) const {
  constexpr std::uint64_t kPiece = 64U << 10U;
  const memory::View from = view_at(rank, address);
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
  return services.memory->write(view_at(rank, target), from, bytes);
}

const std::byte* Round::find(int rank, std::uint64_t address, std::uint64_t bytes,
                             std::byte* scratch) const {
  const memory::View view = view_at(rank, address);
  if (const std::byte* from = services.memory->here(view, bytes)) return from;
  return services.memory->read(scratch, view, bytes) ? scratch : nullptr;
}

int Round::end(Status done) {
  finish();
  std::uint32_t finished = 0;  // members before this one have finished
  wait_until([&] {
    while (finished < boards_.ranks() && boards_.has_finished(finished)) ++finished;
    return finished == boards_.ranks();
  });
  return done ? MPI_SUCCESS : raise(comm_.handle, MPI_ERR_OTHER);
}

void Round::await_finished(int rank) {
  wait_until([&] { return boards_.has_finished(index(rank)); });
}

}  // namespace mh::mpi::direct
