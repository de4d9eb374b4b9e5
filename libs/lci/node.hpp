// SPDX-License-Identifier: BSD-3-Clause
// The transport between ranks of one node, through rings in memory that they share (inbox.hpp,
// byte_ring.hpp), beside another one for everybody else.
//
//   message   into the ring; the receiver's poll() copies it into a posted packet. A full ring is
//             `full`, so what is under way is bounded by its size.
//   put       by one copy into the other process where the kernel lets us (process_vm_writev), else
//             in chunks through the ring, as it has room; then its immediate, through the ring
//   death     as the job says; first everything that is in the ring is received
#pragma once

#include <memory>
#include <vector>

#include "lci/inbox.hpp"
#include "lci/transport.hpp"
#include "manyhands/lci/device.hpp"

namespace mh::lci::detail {

// The ranks of a node, this one among them, and what they have for each other.
struct Neighbours {
  struct One {
    int rank;
    int pid;
    Inbox inbox;  // where this rank writes; its own: where the others do
  };
  std::vector<One> all;    // by rank; empty: this rank shares memory with nobody
  std::size_t self = 0;    // which of them this one is: the number of its ring, too
  bool everybody = false;  // they are all ranks of the job
};

// Collective. `mismatch`: the ranks do not agree on `config`. If memory is refused to anybody,
// nobody has neighbours, and who was refused says why.
Result<Neighbours> find_neighbours(Job& job, const DeviceConfig& config);

// `far`: for the others; nullptr: there are none. The job must outlive it.
std::unique_ptr<Transport> join_node(Job& job, Neighbours neighbours,
                                     std::unique_ptr<Transport> far);

}  // namespace mh::lci::detail
