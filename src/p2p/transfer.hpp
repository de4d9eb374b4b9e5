// SPDX-License-Identifier: BSD-3-Clause
// The receiver's copy of a rendezvous message, as a job for several ranks.
//
// A Transfer lives from the claim of the send until the sender is released. It belongs to one
// thread of the receiver; the sender and thieves use only the job. It makes no MPI call: the caller
// resends a message that cannot be read, and sends the FIN.
#pragma once

#include <cstdint>

#include "memory/view.hpp"
#include "node/node.hpp"
#include "p2p/send_table.hpp"
#include "steal/slots.hpp"
#include "steal/thief.hpp"

namespace mh::p2p {

class Transfer {
 public:
  // Copies work.bytes bytes as a job of the caller. `shown`, a send in state taken, gets the number
  // of the job, so that its sender can help; other ranks can help if `audience` is the node.
  // `shapes` of shaped work stay valid until close().
  Transfer(const steal::CopySpec& work, steal::SlotKeeper& keeper, const steal::JobSlots& mine,
           SendSlot* shown, const steal::Shapes* shapes = nullptr,
           steal::Audience audience = steal::Audience::node);
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  // Copies one chunk, if one is left to claim. True once every chunk is copied or has failed. Call
  // again until then, and then close().
  [[nodiscard]] bool step(steal::Thief& thief);

  // True if no chunk is left to claim; other ranks may still copy claimed chunks.
  [[nodiscard]] bool all_claimed() const { return job_ != nullptr && !job_->has_work(); }

  // Copies every byte again, alone. Called after all_claimed(), if only dead processes hold chunks.
  void recover();

  // Frees the job, after step() has returned true. True if every byte is copied.
  [[nodiscard]] bool close();

 private:
  bool step_alone(steal::Thief& thief);

  steal::CopySpec work_;
  const steal::Shapes* shapes_;
  steal::SlotKeeper& keeper_;
  steal::Job* job_;           // null without a free job slot
  std::uint64_t copied_ = 0;  // bytes copied by this thread alone, if there is no job
  bool succeeded_ = true;     // of the copy without a job
};

}  // namespace mh::p2p
