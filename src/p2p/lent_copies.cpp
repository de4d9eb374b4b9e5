// SPDX-License-Identifier: BSD-3-Clause
#include "p2p/lent_copies.hpp"

#include <bit>

#include "base/clock.hpp"
#include "memory/view.hpp"

namespace mh::p2p {
namespace {

constexpr double kBytesPerNs = 12;  // of sender and receiver together; only a hint for lenders

memory::View at(const memory::View& view, std::uint64_t offset) {
  return {.address = view.address + offset, .pid = view.pid, .rank = view.rank};
}

}  // namespace

LentCopies::Offer::Offer(LentCopies* copies, std::uint64_t bytes) : copies_(copies) {
  if (copies_ == nullptr) return;
  if (bytes < kLeastLentBytes || copies_->offered_.test_and_set(std::memory_order_acquire)) {
    copies_ = nullptr;
    return;
  }
  const double alone_ns = static_cast<double>(bytes) / kBytesPerNs;
  // Without helpers the message is copied as before.
  static_cast<void>(
      copies_->pool_.expose(lend::Kind::copies, *copies_, ticks() + ticks_from_ns(alone_ns)));
}

LentCopies::Offer::~Offer() {
  if (copies_ == nullptr) return;
  copies_->pool_.withdraw(lend::Kind::copies);
  copies_->offered_.clear(std::memory_order_release);
}

void LentCopies::Offer::nothing_left() {
  if (copies_ != nullptr) copies_->pool_.nothing_left(lend::Kind::copies);
}

bool LentCopies::unit(std::uint32_t /*helper*/, std::uint64_t deadline) noexcept {
  bool done = false;
  while (ticks() < deadline) {
    if (!one_chunk()) {
      pool_.nothing_left(lend::Kind::copies);
      break;
    }
    done = true;
  }
  return done;
}

// A chunk of any open job; this process is its receiving end, so it is copied once.
bool LentCopies::one_chunk() {
  // relaxed: a hint; the ticket of each job decides.
  for (std::uint32_t open = jobs_.open.load(std::memory_order_relaxed); open != 0;
       open &= open - 1) {
    steal::Job& job = jobs_.jobs[std::countr_zero(open)];
    steal::Chunk chunk{};
    if (!job.has_work()) continue;
    const node::Visit visit(node_.mine(), node_.me());
    if (!visit || !job.claim(chunk, steal::End::other)) continue;
    const steal::Work work = job.work();  // a copy: nothing may be touched after finish()
    const Status copied = memory::copy(at(work.to, chunk.offset), at(work.from, chunk.offset),
                                       chunk.bytes, node_.mine().pid, {});
    job.finish(copied.ok());
    counters_.lent_chunks.add_shared(copied.ok() ? 1 : 0);
    counters_.lent_bytes.add_shared(copied.ok() ? chunk.bytes : 0);
    return true;
  }
  return false;
}

}  // namespace mh::p2p
