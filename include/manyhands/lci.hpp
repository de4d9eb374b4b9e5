// SPDX-License-Identifier: BSD-3-Clause
// LCI: messages between many light tasks and threads, without the bottleneck of one matching queue.
//
//   manyhands/lci/answer.hpp        done, posted, retry, error; counters
//   manyhands/lci/job.hpp           ranks, addresses, deaths
//   manyhands/lci/device.hpp        devices, endpoints, send and receive
//   manyhands/lci/completion.hpp    queues, synchronizers, handlers, messages
//   manyhands/lci/communicator.hpp  an MPI-like layer for light tasks, progress servers
//   manyhands/lci/queue.hpp         send-enqueue and receive-dequeue for irregular programs
//
// After chapters 3 and 5 of H.-V. Dang, "Fast and generic concurrent message-passing",
// dissertation, University of Illinois at Urbana-Champaign, 2018. The guide, with a complete
// program, is docs/lci.md.
//
// Words. A *packet* is a fixed piece of memory for one message. An *eager* message goes in one
// packet, a *large* message by rendezvous. A *credit* is the right to send one message to a peer.
// *Progress* moves messages and completions: a thread or a light task has to make progress.
#pragma once

#include "manyhands/lci/answer.hpp"        // IWYU pragma: export
#include "manyhands/lci/communicator.hpp"  // IWYU pragma: export
#include "manyhands/lci/completion.hpp"    // IWYU pragma: export
#include "manyhands/lci/device.hpp"        // IWYU pragma: export
#include "manyhands/lci/job.hpp"           // IWYU pragma: export
#include "manyhands/lci/queue.hpp"         // IWYU pragma: export
