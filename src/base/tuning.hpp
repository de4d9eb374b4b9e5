// SPDX-License-Identifier: BSD-3-Clause
// The time constants by which ranks poll, help, lend and give up: value in nanoseconds, reason, and
// origin of the value. Message sizes are in settings.json (MH_*THRESHOLD), table sizes with the
// tables.
//
// Origins. Measured: on the machine of docs/results/first-measurements.md (two cores), unless the
// comment names another machine. Chosen: not measured; the value lies between one too short and one
// too long, which differ by orders of magnitude.
#pragma once

#include <cstdint>

namespace mh::tuning {

// ---- Intervals between polls of the wait loop for rare events. Chosen: each poll costs less than
// 2 % of its interval.

inline constexpr double kLookAtLandedNs = 3e3;  // RTS headers in buffers of started receives
inline constexpr double kGatherLandedNs =
    30e3;  // same, gaps: the rank sends itself the first bytes
inline constexpr double kLookAtShortNs = 100e3;  // same, receives that are shorter than a threshold
inline constexpr double kLookForLostNs = 20e6;   // RTS headers that matched too short a receive
inline constexpr double kLookForObjectsNs = 50e6;  // libraries that the program has loaded

// ---- Waits in MPI: when to skip the wait loop

// Blocking short calls wait in the MPI library itself while the calls of a thread follow each other
// by less than this on average (wait/pace.hpp). If the calls are further apart, a start and a test
// in the wait loop (100 ns) cost less than 2 %. Measured: with 3 us, messages of 8 to 32 KB took 3
// to 5 % longer.
inline constexpr double kShortWaitNs = 6e3;
// Blocking collectives on a communicator wait in the MPI library itself while they follow each
// other by less than this on average. An arrival barrier costs less than 2 % of this time.
inline constexpr double kTightCollectivesNs = 10e3;

// ---- Threads of a rank that wait together

// After the threads of a rank that are in collectives have outnumbered its cores, these threads
// wait in the MPI library for this long, and then try the wait loop again. A trial may cost some
// time slices of the system, 3 to 4 ms each: 0.1 % of this time.
inline constexpr double kCrowdedNs = 10e9;

// A thread polls for its own message this long before it sleeps on a seat, where the server polls
// for it. The time is a few times the latency of a message, or of two thread switches. Measured: 5
// to 40 us gave the same rates.
inline constexpr double kSitDownNs = 20e3;
// The server lets one more thread return from its wait if, for this long, no thread that has
// returned waits again.
inline constexpr double kOneMoreThreadNs = 500e3;
// The server also lets one more thread return from its wait if it has had its own core to itself
// for kCoreIsIdleNs, because a core is idle then. A yield that takes longer than kYieldNs has let
// another thread run on that core. Measured: a yield takes 0.3 us alone, 2 us with two switches.
inline constexpr double kCoreIsIdleNs = 20e3;
inline constexpr double kYieldNs = 1.2e3;

// A worker that has other light tasks to run tests the conditions of parked (waiting) tasks at this
// interval. Chosen: the latency of a few messages.
inline constexpr double kLookBetweenTasksNs = 10e3;

// A scheduler of light tasks prints a message if no task has run for this long, while a task runs a
// child task on its own stack. A task does so if its worker has no room for a further task
// (ult/idle.cpp). Chosen.
inline constexpr std::int64_t kStuckNs = 2'000'000'000;

// A thread that waits for a lock in the segment (node/named_locks.hpp) polls it this long before it
// sleeps. Measured: a wake-up across cores takes 24 us.
inline constexpr double kSpinForLockNs = 25e3;

// ---- Messages: when to push them, and when to give up a wait

// A sender pushes a message to a receiver that is not in MPI. The first attempt comes kFirstPushNs
// after the start of the send, because a receiver that waits in MPI copies the message itself, and
// does so faster (measured). The time between attempts doubles up to kLastPushNs.
inline constexpr double kFirstPushNs = 30e3;
inline constexpr double kLastPushNs = 1e6;
// A send by rendezvous that no receive has taken for this long counts as lost: its RTS header
// probably matched a receive that is too short for it. The message is then buffered. Chosen: an RTS
// header is in flight for microseconds.
inline constexpr double kLostAfterNs = 200e6;
// Before a library call in which a rank cannot take rendezvous messages, it looks at most this long
// for RTS headers addressed to it. A receive waits equally long for a sender that is trying to
// push. Chosen: an RTS header is in flight for microseconds.
inline constexpr double kSettleNs = 20e6;
// A thread that raises an MPI error, while another thread of the process runs an error handler,
// waits this long for the handler's end. It then continues, because the handler may be waiting for
// this thread. Chosen: handlers print and return.
inline constexpr double kHandlerPatienceNs = 1e9;
// An owner whose job waits only for chunks that thieves have claimed looks whether the thieves'
// processes are alive. It looks after kSlowThiefNs, and then at that interval, or at intervals of
// kDyingThiefNs once a thief has died. Chosen.
inline constexpr double kSlowThiefNs = 1e9;
inline constexpr double kDyingThiefNs = 10e6;
// A receiver on another node that has received no piece of a message for this long is taken to be
// in a library call that depends on this rank, the sender. The send then counts as complete, and
// later messages to that receiver go without pieces. Chosen.
inline constexpr double kInternodePatienceNs = 1e9;
// The server thread of windows with several nodes (mpi/rma/serving.cpp) sleeps between polls that
// find no message: twice kShortNapNs first, then twice as long each time, up to kLongNapNs. It also
// lets others poll while a thread of its rank has served within kShortNapNs. Chosen: a poll costs a
// few microseconds.
inline constexpr std::int64_t kShortNapNs = 50'000;
inline constexpr std::int64_t kLongNapNs = 2'000'000;
// Rank 0 prints a message if some rank has not called MPI_Init this long after rank 0 itself.
// Chosen.
inline constexpr double kStartPatienceNs = 20e9;

// ---- Bounce-buffer pipelines

// A rank whose end of a pipeline has had nothing to do for this long takes the other end for late,
// and may lend its core to that end. Measured: docs/decisions/pipelines/lending-between-ends.md.
inline constexpr double kEndIsLateNs = 12e3;
// The rank at the late end of a pipeline is lent a core only if that end has at least this much
// left to do. Measured: a lender is without its core for 20 to 40 us.
inline constexpr double kWorthLendingNs = 40e3;
// A third rank is invited to lend its core to an end of a pipeline only if that end has at least
// this much left to do. This is more than kWorthLendingNs, since the third rank's caches hold none
// of the message.
inline constexpr double kWorthInvitingNs = 150e3;

// ---- Lent cores: when a loan is worth its cost, and how long it lasts

// A rank is lent a core only if the work that it offers goes on for at least this long. The work
// must be worth two hand-overs, and the time that its owner waits for the helper's last chunk.
inline constexpr double kLeastLoanNs = 15e3;
// The least, first and greatest length of the unit for which a core is lent, and the cost of a
// check (lend/unit_length.hpp). A check ends a unit, so that the lender can test its own wait, and
// begins the next unit. Measured.
inline constexpr double kLeastUnitNs = 100e3;
inline constexpr double kFirstUnitNs = 200e3;
inline constexpr double kMostUnitNs = 800e3;
inline constexpr double kUnitLookNs = 3.3e3;
// If a lender's own wait is over within this time after a unit on its core, the awaited message
// counts as one that came during the unit, and later units get shorter. If it takes longer, the
// lender has copied a chunk of a message in between, and the awaited message may have come then.
inline constexpr double kAtOnceNs = 20e3;
// A rank that only polls (MPI_Test) helps as one that waits (wait/polling.hpp). A rank may be such
// a rank once polls at most kLongestPollNs apart have failed for kPollingLastsNs. The library then
// times a poll: a loop that only polls spends at most half of that poll's time plus kAroundPollNs
// between two polls. A rank that spends more computes, and is examined again after kPollingPauseNs.
inline constexpr double kLongestPollNs = 1e3;
inline constexpr double kPollingLastsNs = 50e3;
inline constexpr double kPollingPauseNs = 1e6;
inline constexpr double kAroundPollNs = 10;
// The longest sleep of a lender while its core is lent. Normally the helper wakes the lender much
// sooner; the sleep lasts only if a unit is long or something is wrong. A shorter limit would cost
// time: virtual machines program a timer for each short sleep, which is slow.
inline constexpr std::int64_t kLenderSleepNs = 5'000'000;
// A rank that ends its offer of work waits for the helpers that still do a part of it. After this
// time it moves these helpers from the lent cores back to its own cores.
inline constexpr double kReclaimAfterNs = 60e3;
// Sleeping helpers and workers that nobody has woken look for work at these intervals, in case a
// wake-up was lost. Chosen.
inline constexpr std::int64_t kParkedHelperNs = 1'000'000'000;
inline constexpr std::int64_t kParkedWorkerNs = 10'000'000'000;
// A worker that lends a spare core of its rank and finds no work spins this long. It then sleeps
// until the rank wakes its workers again (lend/workers.cpp).
inline constexpr double kWorkerPatienceNs = 200e3;
// A worker that the rank wakes starts within microseconds on an idle core, and after milliseconds
// on a busy core. A worker that starts later than this sleeps again, and so leaves the core to the
// thread that uses it.
inline constexpr double kPromptWorkerNs = 300e3;

// ---- OpenMP loops that are shared with helpers

// A loop is offered to helpers only if the rest of it takes at least this long. A shorter loop is
// done before a helper is awake. Measured.
inline constexpr float kLeastLoopNs = 10e3F;
// The least and the greatest length of a helper's chunk of iterations. With shorter chunks the
// helper claims so often that it disturbs the owner of the loop.
inline constexpr float kLeastLoopChunkNs = 3e3F;
inline constexpr float kMostLoopChunkNs = 30e3F;
// The longest chunk of a loop with schedule(guided): as long as the shortest unit, so that a lent
// core is away for a unit and this time at most. Chosen.
inline constexpr float kMostGuidedChunkNs = 100e3F;
// The owner of a loop wakes the workers on its rank's own spare cores if the rest of the loop takes
// at least this long. A wake-up costs the owner some microseconds for each core, and 30 us pass
// until the woken worker starts on its core (both measured).
inline constexpr float kWorthCallingNs = 200e3F;
// The owner of a shared loop estimates at this interval how long the rest of the loop takes: each
// estimate costs 25 ns.
inline constexpr float kReviewNs = 20e3F;
// A region without shared loops that is shorter than this is timed in one of 16 of its executions
// (openmp/sites.hpp).
inline constexpr double kShortRegionNs = 10e3;

}  // namespace mh::tuning
