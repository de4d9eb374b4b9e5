// SPDX-License-Identifier: BSD-3-Clause
// The profile of this process: how long each MPI call takes, and how much of that time is transfer,
// rather than waiting for late peers (MH_PROFILE, docs/profile.md). With MH_TRACE, the calls go to
// the trace as well (tracing.hpp).
//
// The generated functions of profiled_calls.cpp are called before the wrappers (cover.hpp). A
// *timed call* is a call that a thread makes from outside MPI; calls inside a timed call are not
// timed. For a call that may wait, the time that each peer has been inside MPI
// (observe/presence.hpp) is read before and after the call. The whole time of a call that never
// waits counts as transfer. A *poll* is a call that programs repeat until it succeeds (MPI_Test).
// Of short polls, one in kPollsPerSample is timed, and stands for the untimed polls before it.
//
// Any thread. Limits: the size and the peer of a request are forgotten if the handle of another
// request takes its place in the cache; ranks of other nodes count as inside MPI.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/settings.hpp"
#include "mpi/next.hpp"
#include "mpi/profile/tracing.hpp"
#include "observe/call_profile.hpp"

namespace mh::mpi::profile {

using RankList = std::vector<std::uint32_t>;

// The ranks of this node that a call may wait for, apart from this rank.
struct AwaitedRanks {
  const RankList* several = nullptr;  // lives as long as the process
  std::int32_t one = kNone;           // if `several` is null
  static constexpr std::int32_t kNone = -1;
};

// The facts of a call that are known before the call is made: its data, and the peers for which it
// may wait.
struct CallFacts {
  observe::CallData data;
  AwaitedRanks peers;
};

// ---- Facts of a call, for the generated functions of profiled_calls.cpp -------------------------

CallFacts facts(MPI_Count count, MPI_Datatype type, const AwaitedRanks& peers);
inline CallFacts no_data(const AwaitedRanks& peers) { return {.data = {}, .peers = peers}; }
// The facts of a call that has a count for each member of `comm`, such as MPI_Allgatherv. Its data
// is taken to be a single block, with the mean of these counts as its count.
CallFacts mean_facts(const int counts[], MPI_Datatype type, MPI_Comm comm);
CallFacts mean_facts(const MPI_Count counts[], MPI_Datatype type, MPI_Comm comm);
// The peers of a call on `comm`. peer() returns the member with this rank alone, or all members if
// `rank` is a wildcard; members() returns all members. Members on other nodes are left out. `comm`
// may be an intercommunicator.
AwaitedRanks peer(int rank, MPI_Comm comm);
AwaitedRanks members(MPI_Comm comm);
// All ranks of the node, apart from this rank, as peers.
AwaitedRanks everyone();
// The facts that note_request() has stored for the request. If there are none, the data is unknown
// and every rank of the node counts as a peer.
CallFacts facts_of(MPI_Request request);
// The facts of a call for several requests: the data of the largest of them, and their common peer.
// If their peers differ, every rank of the node counts as a peer.
CallFacts facts_of(int count, const MPI_Request requests[]);

// Stores the facts of the call that has started the request, for the call that will complete it
// (facts_of()).
void note_request(MPI_Request request, const CallFacts& facts);
// Called before a communicator is freed: forgets its members.
void forget_comm(MPI_Comm comm);

// ---- Timed calls --------------------------------------------------------------------------------

namespace detail {
extern bool is_on;  // from MPI_Init to MPI_Finalize, in which one thread changes it
extern constinit thread_local bool inside;  // the calling thread is in a timed call

// A timed call of this thread that may wait. The constructor reads the clock and the peers'
// presence, the time that they have been inside MPI. The destructor reads them again and adds the
// call to the profile.
class WaitingCall {
 public:
  WaitingCall(std::size_t call, const CallFacts& facts);
  ~WaitingCall();
  WaitingCall(const WaitingCall&) = delete;
  WaitingCall& operator=(const WaitingCall&) = delete;

 private:
  void trace_call(observe::TraceWriter& writer, std::uint32_t late,
                  const tracing::CallTimes& times) const;

  std::size_t call_;
  const CallFacts& facts_;
  std::uint64_t begin_;
  tracing::Collectives collectives_;  // counts before the call, if there is a trace
};

// Measures how long this thread is in MPI for a timed call that never waits, or for a timed poll (a
// call such as MPI_Test). While the object lives, other ranks see this rank as inside MPI.
class ShortCall {
 public:
  ShortCall();
  // Ends the call, and returns the ticks that it took. `more`: the ticks of untimed polls before
  // it, which also count as time in MPI.
  std::uint64_t end(std::uint64_t more = 0);
  [[nodiscard]] std::uint64_t begin() const { return begin_; }

 private:
  std::uint64_t begin_;
};

// Adds a call that never waits to the profile. It began at tick `begin` and took `ticks` ticks,
// which all count as transfer.
void add_transfer(std::size_t call, const observe::CallData& data, std::uint64_t begin,
                  std::uint64_t ticks);
// A timed poll, a call such as MPI_Test. In the profile it also stands for the polls that this
// thread has made untimed since the last timed poll.
class TimedPoll {
 public:
  TimedPoll(std::size_t call, const CallFacts& facts);
  ~TimedPoll();
  TimedPoll(const TimedPoll&) = delete;
  TimedPoll& operator=(const TimedPoll&) = delete;

 private:
  void trace_polls(const tracing::CallTimes& times, std::uint32_t polls, std::int32_t late) const;

  std::size_t call_;
  const CallFacts& facts_;
  ShortCall visit_;
  std::uint64_t begin_;  // later than the beginning of `visit_`, by the cost of timing
};
// The number of further polls (calls such as MPI_Test) that this thread makes untimed before its
// next timed poll.
extern constinit thread_local std::uint32_t polls_to_skip;
}  // namespace detail

inline bool times_this_call() { return detail::is_on && !detail::inside; }

// The functions below make a call of the program, time it unless it is inside another timed call,
// and return its MPI code. `index`: the call's index in kNextNames, the names of the MPI calls.
// facts(): returns its CallFacts. call(): makes the call.

// Makes a call that may wait for peers.
template <class Facts, class Call>
int waiting(std::size_t index, Facts&& facts, Call&& call) {
  if (!times_this_call()) return call();
  const CallFacts known = facts();
  const detail::WaitingCall timed(index, known);
  return call();
}

// Makes a call that never waits for peers. If the call was timed, then calls after(code, facts)
// with its MPI code and its CallFacts.
template <class Facts, class Call, class After>
int short_call(std::size_t index, Facts&& facts, Call&& call, After&& after) {
  if (!times_this_call()) return call();
  const CallFacts known = facts();
  detail::ShortCall timed;
  const int code = call();
  detail::add_transfer(index, known.data, timed.begin(), timed.end());
  after(code, known);
  return code;
}

// Makes a call that never waits for peers and returns no request.
template <class Facts, class Call>
int immediate(std::size_t index, Facts&& facts, Call&& call) {
  return short_call(index, facts, call, [](int, const CallFacts&) {});
}

// Makes a call that never waits for peers and starts a request (MPI_Isend). `request`: where the
// call stores the request.
template <class Facts, class Call>
int starting(std::size_t index, MPI_Request* request, Facts&& facts, Call&& call) {
  return short_call(index, facts, call, [request](int code, const CallFacts& known) {
    if (code == MPI_SUCCESS) note_request(*request, known);
  });
}

// Makes a call that programs repeat until it succeeds, such as MPI_Test; only some of these calls
// are timed.
template <class Facts, class Call>
int polling(std::size_t index, Facts&& facts, Call&& call) {
  if (!times_this_call()) return call();
  if (detail::polls_to_skip != 0) {
    --detail::polls_to_skip;
    return call();
  }
  const CallFacts known = facts();
  const detail::TimedPoll timed(index, known);
  return call();
}

// These functions note the time at which they are called: when MPI_Init, or MPI_Finalize, begins.
void begin_init();
void begin_finalize();

// True if the calls of this process are to be timed, because MH_PROFILE or MH_TRACE is set.
inline bool is_wanted() { return !settings().profile.empty() || !settings().trace.empty(); }

// ---- Start and end of the profile ---------------------------------------------------------------

// Starts the profile after MPI_Init. On a rank without a node segment no peer is known, so the
// whole time of every call counts as transfer.
void start();
// Stops the profile and ends the trace of this rank.
void stop();
// Gathers the profiles of all ranks at rank 0, which writes the file that MH_PROFILE names.
// Collective; called after stop(). `summary`: the summary of the job as JSON, for the same file.
void write(const std::string& summary);

}  // namespace mh::mpi::profile
