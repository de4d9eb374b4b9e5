// SPDX-License-Identifier: BSD-3-Clause
#include "p2p/transfer.hpp"

#include <algorithm>

#include "base/emulated.hpp"

namespace mh::p2p {

Transfer::Transfer(const steal::CopySpec& work, steal::SlotKeeper& keeper,
                   const steal::JobSlots& mine, SendSlot* shown, const steal::Shapes* shapes,
                   steal::Audience audience)
    : work_(work),
      shapes_(shapes),
      keeper_(keeper),
      job_(work.bytes == 0 ? nullptr : keeper.open(work, shapes, audience)) {
  if (job_ == nullptr || shown == nullptr) return;
  emulated::match();
  // Relaxed, then release: the sender's acquire of `moving` sees the job's number.
  shown->job.store(static_cast<std::uint64_t>(job_ - mine.jobs), std::memory_order_relaxed);
  shown->change(SlotState::moving);
}

bool Transfer::step(steal::Thief& thief) {
  if (job_ == nullptr) return step_alone(thief);
  if (thief.run_own_chunk(*job_)) return job_->finished();
  keeper_.hide(*job_);
  return job_->finished();
}

void Transfer::recover() {
  keeper_.close(*job_);
  job_ = nullptr;
  copied_ = 0;
}

bool Transfer::close() {
  if (job_ == nullptr) return succeeded_;
  const bool succeeded = !job_->failed();
  keeper_.close(*job_);
  return succeeded;
}

bool Transfer::step_alone(steal::Thief& thief) {
  const std::uint64_t bytes = std::min<std::uint64_t>(work_.chunk_bytes, work_.bytes - copied_);
  if (bytes == 0 || !succeeded_) return true;
  succeeded_ = thief.copy_chunk(work_, shapes_, {.offset = copied_, .bytes = bytes}).ok();
  copied_ += bytes;
  return copied_ == work_.bytes || !succeeded_;
}

}  // namespace mh::p2p
