// SPDX-License-Identifier: BSD-3-Clause
// Probed messages whose size the sender's send table does not tell (unmatched_sends.hpp).
//
// The library reports an RTS header as a message of kRtsBytes. An ordinary message may have that
// size, too, and another thread may receive the message during the probe. A message that is
// ambiguous in this way is taken out of the library and *held*, with all older messages from its
// source, so that messages keep their order. A held message of a header's size is read and
// *renewed*: this rank sends the content to itself on a private communicator, so that there is a
// message which a receive can match. Receives and probes look at held messages first.
//
// Any thread. Limit: a persistent receive and MPI_Isendrecv do not find a held message.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "mpi/compat/message.hpp"
#include "mpi/job/comms.hpp"
#include "mpi/next.hpp"
#include "mpi/rndv/posted_sends.hpp"

namespace mh::mpi::rndv {

// The number of messages held by MPI_Probe and MPI_Iprobe on all communicators, plus 1 once several
// threads may probe. 0 in nearly every program. relaxed: a hint, which every receive reads.
[[gnu::visibility("hidden")]] extern std::atomic<std::uint32_t> held_message_count;
inline bool may_be_held() { return held_message_count.load(std::memory_order_relaxed) != 0; }

// With several threads, a receive or a probe looks at held messages and then into the library in
// one *shared* step. A probe moves messages out of the library in one *exclusive* step.
class MatchingStep {
 public:
  enum class Kind : std::uint8_t { shared, exclusive };
  explicit MatchingStep(Kind kind);
  ~MatchingStep();
  MatchingStep(const MatchingStep&) = delete;
  MatchingStep& operator=(const MatchingStep&) = delete;

 private:
  std::uint32_t entered_;  // what this step has added to HeldMessages::steps
};
// Called before the first probe of a program with threads; receives take shared steps then.
void note_probe();

struct HeldMessage {
  std::shared_ptr<Comm> comm;  // lives on if the program frees the communicator
  MPI_Message message;
  MPI_Status status;               // of the program's message, not of the RTS header
  bool is_renewed;                 // `message` is on this rank's private communicator
  std::optional<PostedSend> send;  // of a rendezvous message of this node

  [[nodiscard]] MessageEnvelope envelope() const {
    return {.source = status.MPI_SOURCE, .tag = status.MPI_TAG};
  }
};

// Holds the message behind `message`, a handle that MPI_Mprobe of the library has returned with
// `status`. The status gets the size of the program's message.
void hold_matched(MPI_Comm comm, MPI_Message* message, MPI_Status* status);
// Takes the message that MPI_Iprobe has reported as `seen` out of the library, and holds it. `seen`
// gets the size of the program's message. False if another thread has received the message.
bool hold_probed(MPI_Comm comm, MPI_Status* seen);

// The first held message that these arguments match: for a probe, and for a receive.
bool report_held(int source, int tag, MPI_Comm comm, MPI_Status* status);
std::optional<HeldMessage> take_held(int source, int tag, MPI_Comm comm);
// The held message behind a handle of MPI_Mprobe or MPI_Improbe.
std::optional<HeldMessage> take_held(MPI_Message message);
// Makes the handle `message` and `status`, as MPI_Mprobe returns them, for a held message.
void return_as_matched(HeldMessage held, MPI_Message* message, MPI_Status* status);

// The rendezvous sends whose headers are held.
std::vector<PostedSend> held_sends();

}  // namespace mh::mpi::rndv
