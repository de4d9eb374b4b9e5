// SPDX-License-Identifier: BSD-3-Clause
// Every time constant by which ranks decide when to look, to help, to lend and to give up: value in
// nanoseconds, reason, and where the value comes from. Sizes of messages from which something is
// done stand in settings.json (MH_THRESHOLD), sizes of tables with the tables.
//
// Measured: on the machine of docs/design.md, section 2 (two cores, one NUMA node), if nothing else
// is said. Chosen: what is between two values that differ by orders of magnitude.
#pragma once

#include <cstdint>

namespace mh::tuning {

// ---- Looks of the wait loop at what seldom has something to do. Chosen: each costs less than 2 %
// of its interval.

inline constexpr double kLookAtLandedNs = 3e3;     // a look into each buffer of a started receive
inline constexpr double kGatherLandedNs = 30e3;    // ... with gaps: a message to oneself
inline constexpr double kLookAtShortNs = 100e3;    // into the buffers of short receives
inline constexpr double kLookForLostNs = 20e6;     // for descriptors that met too short a receive
inline constexpr double kLookForObjectsNs = 50e6;  // for libraries that were loaded since

// ---- Waits in MPI

// Mean wait of short calls below which they go straight to the library: start + test costs 100 ns,
// less than 2 % of it. Measured: with 3 us messages of 8 to 32 KB took 3 to 5 % longer.
inline constexpr double kShortWaitNs = 6e3;
// The same between collectives; an arrival barrier costs less than 2 % of it.
inline constexpr double kTightCollectivesNs = 10e3;

// ---- Threads of a rank that wait together

// A thread looks for its own message so long before it sits down: some times as long as a message
// takes, or as two switches between threads do. Measured: 5 to 40 us by chance gave the same rates.
inline constexpr double kSitDownNs = 20e3;
// One thread more may run after so long, if none of those that do has come back to wait.
inline constexpr double kOneMoreThreadNs = 500e3;
// ... or where the thread that looks for all has had its core to itself for so long. A yield that
// takes longer than the second was one to another thread. Measured: alone it takes 0.3 us, two
// switches take 2.
inline constexpr double kCoreIsIdleNs = 20e3;
inline constexpr double kYieldNs = 1.2e3;

// ---- Messages

// A sender pushes to a receiver that does not take its message: not sooner, because a receiver that
// waits in MPI is faster (measured), and tries become as rare as the second.
inline constexpr double kFirstPushNs = 30e3;
inline constexpr double kLastPushNs = 1e6;
// A descriptor that is posted for so long and is nowhere was lost. Chosen: in flight it is for
// microseconds.
inline constexpr double kLostAfterNs = 200e6;
// A rank looks for what was described for it for so long, before a call in which it cannot be told.
// Chosen: as above.
inline constexpr double kSettleNs = 20e6;
// A handler of the program that runs for so long may wait for a thread that waits for its end, so
// that thread goes on. Chosen: handlers print and return.
inline constexpr double kHandlerPatienceNs = 1e9;
// A thief that has a chunk for so long may be dead; the kernel ends the copy that a killed process
// is in within the second. Chosen.
inline constexpr double kSlowThiefNs = 1e9;
inline constexpr double kDyingThiefNs = 10e6;
// A receiver on another node that takes no piece for so long is in a call of the library that
// depends on this rank. Chosen.
inline constexpr double kInternodePatienceNs = 1e9;
// The thread that serves other nodes looks so often while something comes, and while nothing does.
// Chosen: a look costs some microseconds.
inline constexpr std::int64_t kShortNapNs = 50'000;
inline constexpr std::int64_t kLongNapNs = 2'000'000;
// Ranks of the node that do not appear at the start are spoken of after so long. Chosen.
inline constexpr double kStartPatienceNs = 20e9;

// ---- Bounce-buffer pipelines

// The other end is late if there was nothing to do at this one for so long. Measured: a hand-over
// of a core takes as long.
inline constexpr double kEndIsLateNs = 12e3;
// The least that one who is there must have to do for that. Measured: handing a core over and back
// takes some 12 us, and what is lent is away for 20 to 40.
inline constexpr double kWorthLendingNs = 40e3;
// The same for a third rank, whose core has the message in none of its caches.
inline constexpr double kWorthInvitingNs = 150e3;

// ---- Lent cores

// What is left of a loop must be worth two hand-overs and the wait for the helper's last chunk.
inline constexpr double kLeastLoanNs = 15e3;
// A unit: at least, the first one, at most; what it costs to end one and to begin the next
// (lend/unit_length.hpp). Measured.
inline constexpr double kLeastUnitNs = 100e3;
inline constexpr double kFirstUnitNs = 200e3;
inline constexpr double kMostUnitNs = 800e3;
inline constexpr double kUnitLookNs = 3.3e3;
// A wait that is over so soon after a unit was over when that was. Else a chunk of a message came
// between.
inline constexpr double kAtOnceNs = 20e3;
// A lender's sleep. Short sleeps on a futex are slow in virtual machines (a timer is programmed for
// each), and this one ends early only when something is wrong or a unit is long.
inline constexpr std::int64_t kLenderSleepNs = 5'000'000;
// A helper that keeps its owner waiting so long is moved.
inline constexpr double kReclaimAfterNs = 60e3;
// Helpers and workers without a call look around this often, in case one was lost. Chosen.
inline constexpr std::int64_t kParkedHelperNs = 1'000'000'000;
inline constexpr std::int64_t kParkedWorkerNs = 10'000'000'000;
// A worker without work sleeps until the next call.
inline constexpr double kWorkerPatienceNs = 200e3;
// On an idle core a worker runs within microseconds of the call, on a busy one after milliseconds:
// then it leaves the core alone.
inline constexpr double kPromptWorkerNs = 300e3;

// ---- Shared loops

// A loop shorter than this is done before a helper is awake. Measured.
inline constexpr float kLeastLoopNs = 10e3F;
// Chunks of a helper: below, its claims get in the owner's way.
inline constexpr float kLeastLoopChunkNs = 3e3F;
inline constexpr float kMostLoopChunkNs = 30e3F;
// The owner estimates what is left of a loop not more often: each time costs 25 ns.
inline constexpr float kReviewNs = 20e3F;
// Regions below are not timed each time.
inline constexpr double kShortRegionNs = 10e3;

}  // namespace mh::tuning
