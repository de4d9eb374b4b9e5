// SPDX-License-Identifier: BSD-3-Clause
// The receiver's side of a described message: its bytes as a job for many hands.
//
// A Transfer lives from when the send descriptor is taken to when the sender may have its buffer
// back. It belongs to one thread of the receiver; sender and helpers meet it only through
// the job. No MPI here: how to get the data when memory cannot be reached, and the completion
// message, are the caller's.
#pragma once

#include <cstdint>

#include "memory/view.hpp"
#include "node/node.hpp"
#include "p2p/send_queue.hpp"
#include "steal/slots.hpp"
#include "steal/thief.hpp"

namespace mh::p2p {

class Transfer {
 public:
  // Moves work.bytes bytes as a job of the caller. With `shown`, the send descriptor (state
  // taken) says from now on which job that is, so that its sender can help; others can if
  // `audience` is the node. `shapes`, of shaped work, stay until close().
  Transfer(const steal::CopySpec& work, steal::SlotKeeper& keeper, const steal::JobSlots& mine,
           SendSlot* shown, const steal::Shapes* shapes = nullptr,
           steal::Audience audience = steal::Audience::node);
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  // Copies one chunk, if one is left to claim. True when every byte is in place or has failed: then
  // call close(). To be called until then; other hands take chunks meanwhile.
  [[nodiscard]] bool step(steal::Thief& thief);

  // No chunk is left to claim, though some may still be in other hands.
  [[nodiscard]] bool all_claimed() const { return job_ != nullptr && !job_->has_work(); }

  // After all_claimed(), once the chunks that are left are in dead hands and nobody living has one:
  // stop waiting for them and copy everything again, alone.
  void recover();

  // After step() said so. Frees the job. True when all bytes are in place.
  [[nodiscard]] bool close();

 private:
  bool step_alone(steal::Thief& thief);

  steal::CopySpec work_;
  const steal::Shapes* shapes_;
  steal::SlotKeeper& keeper_;
  steal::Job* job_;           // null without a free job slot
  std::uint64_t copied_ = 0;  // without a job
  bool succeeded_ = true;     // without a job
};

}  // namespace mh::p2p
