// SPDX-License-Identifier: BSD-3-Clause
// Probed messages whose size cannot be found in the sender's send table (unmatched_sends.hpp).
//
// The MPI library reports an RTS header as a message of kRtsBytes. An ordinary message may have
// that size, too, and another thread may receive the message during the probe. A message that is
// ambiguous in this way is taken out of the library (MPI_Improbe) and *held*, with all older
// messages from its source, so that messages keep their order. A held message of kRtsBytes is
// received and *renewed*: this rank sends the content to itself on config.self_comm, so that a
// receive of the program can still match the message. Receives and probes look at held messages
// before they look into the library.
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

// The number of messages that MPI_Probe and MPI_Iprobe hold on all communicators, plus 1 once
// several threads may probe (note_probe()). While it is not 0, receives look at held messages and
// take shared steps (MatchingStep). 0 in nearly every program. relaxed: a hint, which every receive
// reads.
[[gnu::visibility("hidden")]] extern std::atomic<std::uint32_t> held_message_count;
inline bool may_be_held() { return held_message_count.load(std::memory_order_relaxed) != 0; }

// A lock that orders receives and probes of several threads of a process. A receive or a probe
// looks at held messages and then into the MPI library in one *shared* step; shared steps may
// overlap. A probe takes messages out of the library in one *exclusive* step, during which no other
// step runs.
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
// Called before each probe. From its first call in a program with several threads on, receives and
// probes take shared steps (MatchingStep).
void note_probe();

struct HeldMessage {
  std::shared_ptr<Comm> comm;  // lives on if the program frees the communicator
  MPI_Message message;
  MPI_Status status;               // of the program's message, not of the RTS header
  bool is_renewed;                 // `message` is on config.self_comm
  std::optional<PostedSend> send;  // of a rendezvous message of this node

  [[nodiscard]] MessageEnvelope envelope() const {
    return {.source = status.MPI_SOURCE, .tag = status.MPI_TAG};
  }
};

// Holds the message behind `message`, a handle that the MPI library's MPI_Mprobe or MPI_Improbe has
// returned with `status`. `message` becomes the handle for the program, and `status` gets the size
// of the program's message.
void hold_matched(MPI_Comm comm, MPI_Message* message, MPI_Status* status);
// Takes the message that the MPI library's MPI_Iprobe has reported as `seen` out of that library,
// and holds it. `seen` gets the size of the program's message. False if another thread has received
// the message.
bool hold_probed(MPI_Comm comm, MPI_Status* seen);

// These functions find the first message held by MPI_Probe or MPI_Iprobe that these arguments
// match. The function report_held() serves a probe: it sets `status`, or returns false if there is
// no such message. The function take_held() serves a receive: it removes the message from the held
// ones and returns it.
bool report_held(int source, int tag, MPI_Comm comm, MPI_Status* status);
std::optional<HeldMessage> take_held(int source, int tag, MPI_Comm comm);
// Removes and returns the held message behind a handle that the program has from MPI_Mprobe or
// MPI_Improbe; nothing if none is held.
std::optional<HeldMessage> take_held(MPI_Message message);
// Sets the program's `message` and `status` as MPI_Mprobe returns them for the message `held`. If
// this rank has sent the message to itself anew, it stays held under that handle until its receive,
// which must report the envelope of the original message.
void return_as_matched(HeldMessage held, MPI_Message* message, MPI_Status* status);

// The rendezvous sends to this rank whose RTS headers this process holds, because a probe has taken
// them out of the MPI library.
std::vector<PostedSend> held_sends();

}  // namespace mh::mpi::rndv
