// SPDX-License-Identifier: BSD-3-Clause
// The time constants by which ranks poll, help, lend and give up: value in nanoseconds, reason, and
// origin of the value. Message sizes are in settings.json (MH_*THRESHOLD), table sizes with the
// tables.
//
// Origins. Measured: on the machine of docs/results/first-measurements.md (two cores), unless
// another is named. Chosen: between two values that differ by orders of magnitude.
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

// ---- Waits in MPI

// Blocking short calls go straight to the MPI library while they follow each other by less than
// this on average (wait/pace.hpp). At a greater distance, a start and a test in the wait loop (100
// ns) cost less than 2 %. Measured: with 3 us, messages of 8 to 32 KB took 3 to 5 % longer.
inline constexpr double kShortWaitNs = 6e3;
// The same limit for blocking collectives. An arrival barrier costs less than 2 % of this time.
inline constexpr double kTightCollectivesNs = 10e3;

// ---- Threads of a rank that wait together

// After a rank's threads in collectives have outnumbered its cores, they wait in the MPI library
// for this long, and then try the wait loop again. A trial may cost some time slices of the system,
// 3 to 4 ms each: 0.1 % of this time.
inline constexpr double kCrowdedNs = 10e9;

// A thread polls for its own message this long before it sleeps: a few times the latency of a
// message, or of two thread switches. Measured: 5 to 40 us gave the same rates.
inline constexpr double kSitDownNs = 20e3;
// The server lets a further thread return from its wait if no thread that has returned comes back
// to wait for this long.
inline constexpr double kOneMoreThreadNs = 500e3;
// A further thread may also return if the server has had its core to itself this long. A yield that
// takes longer than kYieldNs went to another thread. Measured: a yield takes 0.3 us alone, 2 us
// with two switches.
inline constexpr double kCoreIsIdleNs = 20e3;
inline constexpr double kYieldNs = 1.2e3;

// A worker that has light tasks to run looks at parked tasks at this interval. Chosen: the latency
// of a few messages.
inline constexpr double kLookBetweenTasksNs = 10e3;

// A thread that waits for a named lock looks at it this long before it sleeps. Measured: a wake-up
// across cores takes 24 us.
inline constexpr double kSpinForLockNs = 25e3;

// ---- Messages

// A sender pushes to a receiver that does not poll. It first tries after kFirstPushNs, because a
// receiver that waits in MPI is faster (measured). The time between attempts grows to kLastPushNs.
inline constexpr double kFirstPushNs = 30e3;
inline constexpr double kLastPushNs = 1e6;
// An RTS header that was posted this long ago and is found in no receive is lost. Chosen: an RTS
// header is in flight for microseconds.
inline constexpr double kLostAfterNs = 200e6;
// A rank searches this long for RTS headers addressed to it, before a library call in which it
// cannot take rendezvous messages. Chosen: an RTS header is in flight for microseconds.
inline constexpr double kSettleNs = 20e6;
// A thread waits this long for the end of an error handler that another thread runs, and then
// continues: the handler may be waiting for this thread. Chosen: handlers print and return.
inline constexpr double kHandlerPatienceNs = 1e9;
// An owner that waits for a thief's chunk looks for dead thieves at intervals of kSlowThiefNs, and
// of kDyingThiefNs once a thief has died. Chosen.
inline constexpr double kSlowThiefNs = 1e9;
inline constexpr double kDyingThiefNs = 10e6;
// A receiver on another node that has taken no piece for this long is in a library call that
// depends on this rank. Chosen.
inline constexpr double kInternodePatienceNs = 1e9;
// The thread that serves other nodes polls at these intervals: while messages arrive, and while
// none do. Chosen: a poll costs a few microseconds.
inline constexpr std::int64_t kShortNapNs = 50'000;
inline constexpr std::int64_t kLongNapNs = 2'000'000;
// Rank 0 prints a message if some rank has not called MPI_Init this long after the start. Chosen.
inline constexpr double kStartPatienceNs = 20e9;

// ---- Bounce-buffer pipelines

// A rank whose end of the pipeline has had nothing to do for this long finds the other end late.
// Measured: handing over a core takes as long.
inline constexpr double kEndIsLateNs = 12e3;
// The rank at the late end is lent a core only if it has at least this much left to do. Measured:
// handing over a core and back takes 12 us; a lent core is away for 20 to 40 us.
inline constexpr double kWorthLendingNs = 40e3;
// The same limit for the core of a third rank, whose caches hold none of the message.
inline constexpr double kWorthInvitingNs = 150e3;

// ---- Lent cores

// A rank is lent a core only if its offered work lasts at least this long: the work must be worth
// two hand-overs and the wait for the helper's last chunk.
inline constexpr double kLeastLoanNs = 15e3;
// A unit's least, first and greatest length, and the cost of ending a unit and beginning the next
// (lend/unit_length.hpp). Measured.
inline constexpr double kLeastUnitNs = 100e3;
inline constexpr double kFirstUnitNs = 200e3;
inline constexpr double kMostUnitNs = 800e3;
inline constexpr double kUnitLookNs = 3.3e3;
// A wait that is over within this time after the end of a unit counts as over when the unit ended.
// After a longer time the lender has copied a chunk of a message in between.
inline constexpr double kAtOnceNs = 20e3;
// A rank may be one that only polls, and then helps as in a wait (wait/polling.hpp), once polls at
// most kLongestPollNs apart have failed for kPollingLastsNs. If the rank computes between polls, it
// is examined again after kPollingPauseNs. A loop that only polls takes at most kAroundPollNs and
// half the time of a poll between two polls.
inline constexpr double kLongestPollNs = 1e3;
inline constexpr double kPollingLastsNs = 50e3;
inline constexpr double kPollingPauseNs = 1e6;
inline constexpr double kAroundPollNs = 10;
// The longest sleep of a lender. Normally the helper wakes the lender much sooner; the sleep lasts
// only if a unit is long or something is wrong. Virtual machines program a timer for each short
// sleep, which is slow.
inline constexpr std::int64_t kLenderSleepNs = 5'000'000;
// A rank that ends its offer of work waits for the helpers that still do a part of it. After this
// time it moves these helpers from the lent cores back to its own cores.
inline constexpr double kReclaimAfterNs = 60e3;
// Helpers and workers that nobody has woken look for work at this interval, in case a wake-up was
// lost. Chosen.
inline constexpr std::int64_t kParkedHelperNs = 1'000'000'000;
inline constexpr std::int64_t kParkedWorkerNs = 10'000'000'000;
// A worker without work spins this long, then sleeps until the next call.
inline constexpr double kWorkerPatienceNs = 200e3;
// A worker starts within microseconds on an idle core, and after milliseconds on a busy core. A
// worker that starts later than this leaves the core.
inline constexpr double kPromptWorkerNs = 300e3;

// ---- Shared loops

// A shorter loop is done before a helper is awake. Measured.
inline constexpr float kLeastLoopNs = 10e3F;
// A helper's chunks: shorter ones make its claims disturb the owner.
inline constexpr float kLeastLoopChunkNs = 3e3F;
inline constexpr float kMostLoopChunkNs = 30e3F;
// The longest chunk of a guided schedule: as long as the shortest unit, so that a lent core is away
// for a unit and this time at most. Chosen.
inline constexpr float kMostGuidedChunkNs = 100e3F;
// The owner of a loop wakes the rank's own spare cores if the loop lasts at least this much longer.
// A wake-up costs the owner some microseconds for each core, and 30 us pass until the core works.
// Measured: lending's hand-over between cores.
inline constexpr float kWorthCallingNs = 200e3F;
// The owner estimates the rest of a loop at this interval: each estimate costs 25 ns.
inline constexpr float kReviewNs = 20e3F;
// Regions that are shorter than this are timed in few of their executions.
inline constexpr double kShortRegionNs = 10e3;

}  // namespace mh::tuning
