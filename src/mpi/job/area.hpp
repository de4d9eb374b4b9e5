// SPDX-License-Identifier: BSD-3-Clause
// The area of a rank in the node segment, behind the rank's RankRecord (node/rank.hpp).
//
// A row of counters follows the area: for each rank of the node, the bytes that this rank has moved
// for it. Then follow the cells of this rank's pipelines. Each member of the area names its
// writers.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/cacheline.hpp"
#include "coll/board_group.hpp"
#include "lend/channel.hpp"
#include "mpi/job/arrival_table.hpp"
#include "node/node.hpp"
#include "observe/counters.hpp"
#include "observe/presence.hpp"
#include "p2p/pipeline_engine.hpp"
#include "p2p/posted_receives.hpp"
#include "p2p/send_table.hpp"
#include "steal/job.hpp"
#include "steal/slots.hpp"

namespace mh::mpi {

struct alignas(kCacheLine) RankArea {
  observe::RankCounters counters;
  observe::Presence presence;  // only with MH_PROFILE or MH_TRACE
  steal::JobSlots jobs;
  p2p::SharedSendTable send_table;
  p2p::PostedReceiveTable posted_receives;
  p2p::Pipelines pipelines;
  lend::Lendings lendings;
  ArrivalLines arrival_lines;
  ArrivalTable arrival_table;         // used in the area of rank 0 only
  coll::Board boards[coll::kBoards];  // by group; only the first kBoards groups have boards
  // Notes of messages of the program that are as long as an RTS header, so that receivers tell them
  // from RTS headers. Word r is for messages to rank r; its bits stand for hashes of communicator
  // and tag. Written by this rank, read by receivers. relaxed: a receiver reads the word after it
  // has received the message.
  std::atomic<std::uint64_t> rts_sized_sends[node::kMaxRanks];
};
static_assert(alignof(RankArea) == kCacheLine && sizeof(RankArea) % kCacheLine == 0);

}  // namespace mh::mpi
