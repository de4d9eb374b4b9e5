// SPDX-License-Identifier: BSD-3-Clause
// The transport between ranks of one node, through rings in shared memory (inbox.hpp,
// byte_ring.hpp). Operations on ranks of other nodes go to a second transport.
//
//   message   into the ring; the receiver's poll() copies the message into a posted packet. A full
//             ring answers `full`, so the size of the ring bounds the messages under way.
//   put       a single copy into the other process where the kernel allows process_vm_writev, else
//             in parts through the ring; then the immediate, the put's header word, through the
//             ring
//   death     reported by the job; poll() first receives all messages in the ring
//
// Thread-safety: as Transport says. Each ring has a lock for its senders.
#pragma once

#include <memory>
#include <vector>

#include "lci/inbox.hpp"
#include "lci/transport.hpp"
#include "manyhands/lci/device.hpp"

namespace mh::lci::detail {

// The ranks of this node, this rank among them, and their inboxes.
struct Neighbours {
  struct One {
    int rank;
    int pid;
    Inbox inbox;  // of `rank`; all other ranks of the node write into it
  };
  std::vector<One> all;    // in the order of ranks; empty: this rank shares no memory
  std::size_t self = 0;    // the index of this rank in `all`, and of its ring in each inbox
  bool everybody = false;  // `all` has all ranks of the job
};

// Finds the ranks of this node and opens their inboxes. Collective. `mismatch`: the ranks do not
// agree on `config`; `gone`: a rank has died. If any rank gets no memory, no rank has neighbours,
// and the first such rank prints the reason.
Result<Neighbours> find_neighbours(Job& job, const DeviceConfig& config);

// Returns the transport of a rank with neighbours. `far`: the transport to the ranks of other
// nodes; nullptr: the job has no such ranks. The job must outlive the result.
std::unique_ptr<Transport> join_node(Job& job, Neighbours neighbours,
                                     std::unique_ptr<Transport> far);

}  // namespace mh::lci::detail
